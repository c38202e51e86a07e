"""Putting a streamed reply together: whatever a provider sends, what comes out can be shown, stored and sent back."""

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.engine.text import clean
from sessions_app.worker.models.assembly import Assembly
from sessions_app.worker.models.base import INVALID, Reasoning, Text, Usage

ANY_TEXT = st.text(alphabet=st.one_of(st.characters(), st.sampled_from('\0\ud83d\ude80\u200d{}[]":,\\')))


def assembled(*pieces: str) -> tuple[list[str], str, bool]:
    assembly = Assembly(frozenset())
    shown = [delta.text for piece in pieces for delta in assembly.text(piece)]
    shown += [delta.text for delta in assembly.finish()]
    reply = assembly.reply(Usage())
    return shown, reply.text, reply.replaced


def arguments_of(raw: str | dict[str, object] | None) -> dict[str, object]:
    assembly = Assembly(frozenset())
    assembly.call("c1", "shell", raw)
    return assembly.reply(Usage()).calls[0].arguments


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_an_emoji_in_two_halves_comes_out_whole() -> None:
    assert assembled("ready \ud83d", "\ude80") == (["ready ", "🚀"], "ready 🚀", False)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_a_family_over_three_deltas_comes_out_whole() -> None:
    family = "👨‍👩‍👧‍👦"
    halves = family.encode("utf-16-le", "surrogatepass")
    one, two, three = (halves[a:b].decode("utf-16-le", "surrogatepass") for a, b in ((0, 8), (8, 14), (14, 100)))
    assert assembled(one, two, three)[1:] == (family, False)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_a_lone_half_at_the_end_becomes_a_visible_sign() -> None:
    assert assembled("end\ud83d") == (["end", "\ufffd"], "end\ufffd", True)
    assert assembled("nul\0") == (["nul\ufffd"], "nul\ufffd", True)


@pytest.mark.rule("A6")
@given(st.lists(ANY_TEXT))
def test_live_text_and_stored_text_are_equal_and_hold_everything(pieces: list[str]) -> None:
    shown, text, replaced = assembled(*pieces)
    assert "".join(shown) == text
    assert "" not in shown
    assert (text, replaced) == clean("".join(pieces))
    text.encode()


def test_text_and_reasoning_do_not_mix() -> None:
    assembly = Assembly(frozenset())
    deltas = [*assembly.reasoning("a\ud83d"), *assembly.text("b"), *assembly.reasoning("\ude80"), *assembly.finish()]
    assert deltas == [Reasoning("a"), Text("b"), Reasoning("🚀")]
    reply = assembly.reply(Usage())
    assert (reply.text, reply.reasoning) == ("b", "a🚀")


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"command": "ls"}', {"command": "ls"}),
        ("", {}),
        (None, {}),
        ({"command": "ls\0"}, {"command": "ls\ufffd"}),
        ('{"a": {"b": ["\\ud83d\\ude80", "\\ud83d"]}}', {"a": {"b": ["🚀", "\ufffd"]}}),
        ('{"a": "\ud83d\ude80"}', {"a": "🚀"}),
        ('{"command": "ec', {INVALID: '{"command": "ec'}),
        ('["ls"]', {INVALID: '["ls"]'}),
        ("null", {INVALID: "null"}),
        ('{"n": NaN}', {INVALID: '{"n": NaN}'}),
        ('{"n": 1e999}', {INVALID: '{"n": 1e999}'}),
        ('{"n": 123456789012345678901234567890}', {INVALID: '{"n": 123456789012345678901234567890}'}),
    ],
)
def test_arguments(raw: str | dict[str, object] | None, arguments: dict[str, object]) -> None:
    assert arguments_of(raw) == arguments


def test_arguments_nested_without_end_are_no_arguments() -> None:
    for depth in (200, 100_000):
        raw = '{"a":' * depth + "1" + "}" * depth
        assert arguments_of(raw) == {INVALID: raw}


@pytest.mark.rule("A6")
@given(ANY_TEXT | st.dictionaries(ANY_TEXT, ANY_TEXT).map(lambda each: orjson.dumps(repr(each)).decode()))
def test_any_arguments_can_be_stored(raw: str) -> None:
    assert orjson.loads(orjson.dumps(arguments_of(raw))) == arguments_of(raw)


@given(st.lists(ANY_TEXT), st.frozensets(st.sampled_from(["call_0", "call_1", "call_0_2"])))
def test_ids_of_calls_are_new_and_every_provider_takes_them_back(ids: list[str], taken: frozenset[str]) -> None:
    assembly = Assembly(taken)
    for id_ in [*ids, "call_0", "call_0", "x" * 40, "x" * 40]:
        assembly.call(id_, "shell", "{}")
    made = [call.id for call in assembly.reply(Usage()).calls]
    assert len({*made} | taken) == len(made) + len(taken)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", id_) for id_ in made)


def test_a_good_id_stays_as_it_is() -> None:
    assembly = Assembly(frozenset({"call_1"}))
    assembly.call("call_2", "shell", "{}")
    assembly.call("call_1", "shell", "{}")
    assert [call.id for call in assembly.reply(Usage()).calls] == ["call_2", "call_1_2"]
