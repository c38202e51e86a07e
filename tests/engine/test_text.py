"""Text that Postgres and UTF-8 can hold: what is replaced, what is joined, and what waits for its other half."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.engine.text import TextStream, clean, clean_json

ROCKET = "\U0001f680"
HIGH, LOW = "\ud83d", "\ude80"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27", "D47")
@pytest.mark.parametrize(
    ("given_text", "expected", "replaced"),
    [
        ("plain", "plain", False),
        ("", "", False),
        ("مرحبا " + FAMILY, "مرحبا " + FAMILY, False),
        ("D\0i\0s\0k\0", "D\ufffdi\ufffds\ufffdk\ufffd", True),
        (HIGH + LOW, ROCKET, False),
        ("a" + LOW + "b", "a\ufffdb", True),
        (HIGH, "\ufffd", True),
        (LOW + HIGH, "\ufffd\ufffd", True),
        (HIGH + HIGH + LOW + LOW, "\ufffd" + ROCKET + "\ufffd", True),
        ("\ufffd", "\ufffd", False),
        ("é\0", "é\ufffd", True),
    ],
)
def test_clean(given_text: str, expected: str, replaced: bool) -> None:
    assert clean(given_text) == (expected, replaced)


@pytest.mark.rule("A6")
@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_clean_text_can_be_stored_and_is_clean_already(text: str) -> None:
    cleaned, _ = clean(text)
    assert "\0" not in cleaned
    assert clean(cleaned) == (cleaned, False)
    cleaned.encode()


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
@given(st.lists(st.text(st.sampled_from("a\0é" + ROCKET + HIGH + LOW))))
def test_a_stream_s_pieces_make_the_text_that_comes_in_one_piece(pieces: list[str]) -> None:
    stream = TextStream()
    shown = [stream.feed(piece) for piece in pieces]
    shown.append(stream.finish())
    for piece in shown:
        piece.encode()
    assert ("".join(shown), stream.replaced) == clean("".join(pieces))


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_half_an_emoji_waits_for_its_other_half() -> None:
    stream = TextStream()
    assert stream.feed("ready " + HIGH) == "ready "
    assert stream.feed(LOW + "!") == ROCKET + "!"
    assert (stream.feed(HIGH), stream.replaced) == ("", False)
    assert (stream.finish(), stream.replaced) == ("\ufffd", True)
    assert stream.finish() == ""


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27")
def test_clean_json_reaches_every_string_and_loses_none() -> None:
    value: dict[str, Any] = {"a\0": ["x", {"y": HIGH + LOW}, 1, None, True], "a\ufffd": "second", "n": 1.5}
    cleaned, replaced = clean_json(value)
    assert replaced
    assert cleaned == {"a\ufffd": ["x", {"y": ROCKET}, 1, None, True], "a\ufffd\ufffd": "second", "n": 1.5}
    assert clean_json({"ok": ["fine"]}) == ({"ok": ["fine"]}, False)
    json.dumps(cleaned, ensure_ascii=False).encode()


@pytest.mark.rule("A6")
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, 1e300, -1e300, 0.5])
def test_a_number_that_fits_stays_the_number_it_is(number: float) -> None:
    assert clean_json([number]) == ([number], False)


@pytest.mark.rule("A6")
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, float("inf"), float("-inf"), float("nan")])
def test_a_number_that_does_not_fit_becomes_its_text(number: float) -> None:
    assert clean_json([number]) == ([str(number)], True)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
@pytest.mark.parametrize("high", [chr(0xD800), chr(0xDBFF)])
def test_every_first_half_waits_and_nothing_else_does(high: str) -> None:
    stream = TextStream()
    assert (stream.feed("ab"), stream.replaced) == ("ab", False)
    assert stream.feed("c" + high) == "c"
    assert stream.feed("\udc00") == (high + "\udc00").encode("utf-16", "surrogatepass").decode("utf-16")
    assert stream.feed("d\udc00") == "d\ufffd", "a second half waits for nothing"


def test_two_keys_that_become_one_are_told_apart_and_said_to_be_altered() -> None:
    assert clean_json({1: "x", "1": "y"}) == ({"1": "x", "1\ufffd": "y"}, True)
    assert clean_json({"1": "y"}) == ({"1": "y"}, False)
