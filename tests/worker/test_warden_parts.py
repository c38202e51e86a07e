"""The warden's small parts: frames, the bounded tail, the choice of isolation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.isolation import choose
from sessions_app.worker.warden.output import TAIL_BYTES, Tail
from sessions_app.worker.warden.wire import MAX_BODY, Unpacker, WireError, pack


@given(st.lists(st.tuples(st.text(), st.binary(max_size=200)), max_size=8), st.integers(1, 50))
def test_frames_arrive_as_they_were_sent_however_they_are_cut(sent: list[tuple[str, bytes]], size: int) -> None:
    stream = b"".join(pack({"op": "x", "text": text}, body) for text, body in sent)
    unpacker = Unpacker()
    got = [frame for at in range(0, len(stream), size) for frame in unpacker.feed(stream[at : at + size])]
    assert got == [({"op": "x", "text": text}, body) for text, body in sent]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        b"\0\0\0\1" + (MAX_BODY + 1).to_bytes(4, "big"),
        b"\0\0\0\2\0\0\0\0{]",
        b"\0\0\0\2\0\0\0\0[]",
        b"\0\0\0\2\0\0\0\0{}",
    ],
)
def test_nonsense_is_no_frame(data: bytes) -> None:
    with pytest.raises(WireError):
        Unpacker().feed(data)


@pytest.mark.rule("A6")
def test_the_tail_of_an_output_is_bounded_and_begins_with_a_whole_character() -> None:
    tail = Tail()
    tail.add(b"ok \xff")
    assert tail.text() == "ok \ufffd"
    for _ in range(100_000):
        tail.add("€".encode())
    tail.add(b"!")
    text = tail.text()
    assert set(text[:-1]) == {"€"}
    assert TAIL_BYTES - 3 <= len(text.encode()) <= TAIL_BYTES


def test_an_isolation_that_is_no_word_of_ours_is_refused() -> None:
    assert choose("marker").mode == "marker"
    assert choose(None).mode in ("namespace", "user-namespace", "marker")
    with pytest.raises(ValueError, match="it may be namespace, user-namespace, marker"):
        choose("docker")


def test_a_process_that_is_gone_is_nobody() -> None:
    assert procfs.read_stat(2**22 + 1) is None
    assert procfs.environment(2**22 + 1) == frozenset()
    assert not procfs.send(procfs.Stat(2**22 + 1, 1, "S", 1))
