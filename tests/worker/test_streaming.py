"""Streamed text on its way out: masked before it leaves, whole at the end, one note where live ends."""

from collections.abc import Iterator

import pytest

from sessions_app.live.streams import Streams as Assembler
from sessions_app.log import secrets
from sessions_app.log.stream import LIVE_CHARS, LIVE_NOTE, Piece
from sessions_app.worker.streaming import Stream, Streams

KEY = "sk-test-0123456789abcdef"
TOKEN = "sw_" + "a1B2_-" * 7 + "s"


@pytest.fixture(autouse=True)
def known_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("LONGER_API_KEY", KEY + "-and-more")
    monkeypatch.setenv("ODD_API_KEY", "abcab-abcab")
    secrets.known.cache_clear()
    yield
    secrets.known.cache_clear()


def made() -> Stream:
    return Stream("session", "loop", "turn", 1, 1, "text")


def left(stream: Stream) -> str:
    delta = stream.take_delta()
    return "" if delta is None else str(delta["text"])


@pytest.mark.rule("A6", "L2")
@pytest.mark.parametrize(
    "text",
    [f"the key is {KEY}.", f"{KEY}{KEY}-and-more!", f"a {TOKEN}k", "xabcab-abcab-abcab-abcab", "sk-test is none s"],
)
def test_no_part_of_a_secret_leaves_however_it_is_cut(text: str) -> None:
    whole = secrets.mask(text)
    for size in range(1, len(text) + 1):
        stream, streams, sent = made(), Streams(), ""
        streams.open(stream)
        for start in range(0, len(text), size):
            stream.add(text[start : start + size])
            offset = stream.sent
            piece = left(stream)
            assert offset == len(sent)
            sent += piece
            assert whole.startswith(sent)
            assert stream.piece().text == sent
            assert stream.text().startswith(sent)
        assert stream.text() == whole
        streams.close(stream)
        assert sent + left(stream) == stream.text() == stream.piece().text == whole


@pytest.mark.rule("L2")
@pytest.mark.parametrize("pieces", [[LIVE_CHARS, 5, 9], [LIVE_CHARS - 1, 2, 5], [LIVE_CHARS + 7, 5], [LIVE_CHARS + 1]])
def test_one_note_stands_where_live_ends(pieces: list[int]) -> None:
    stream, hub, seen = made(), Assembler(), ""
    for count in pieces:
        stream.add("x" * count)
        delta = stream.take_delta()
        if delta is not None:
            seen += "".join(fresh.text for fresh in hub.delta(delta))
    assert seen == stream.piece().text == "x" * LIVE_CHARS + LIVE_NOTE
    late = Assembler()
    [fresh] = late.saved(Piece("session", "loop", "turn", 1, 1, "text", stream.piece().text))
    assert fresh.text == seen
    assert hub.saved(stream.piece()) == []
