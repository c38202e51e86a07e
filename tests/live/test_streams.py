"""The text of running steps: each character once, whatever the bell repeats, loses or brings late."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.live.counters import counters
from sessions_app.live.streams import Streams
from sessions_app.log.stream import LIVE_CHARS, LIVE_NOTE, Piece, clip

TURN = "0192f3a4-0000-7000-8000-000000000001"
LOOP = "0192f3a4-0000-7000-8000-000000000002"
SESSION = "0192f3a4-0000-7000-8000-000000000003"


def delta(offset: int, text: str, **other: Any) -> dict[str, Any]:
    frame = {"t": "delta", "loop": LOOP, "turn": TURN, "step": 1, "attempt": 1, "kind": "text"}
    return {**frame, "offset": offset, "text": text, **other}


def piece(text: str, step: int = 1, attempt: int = 1, kind: str = "text", call: str = "") -> Piece:
    return Piece(SESSION, LOOP, TURN, step, attempt, kind, text, call)


def told(fresh: Any) -> list[tuple[int, str]]:
    return [(one.offset, one.text) for one in fresh]


@pytest.mark.rule("L2")
def test_what_overlaps_is_told_once() -> None:
    streams = Streams()
    assert told(streams.delta(delta(0, "hello"))) == [(0, "hello")]
    assert told(streams.delta(delta(0, "hello"))) == []
    assert told(streams.delta(delta(3, "lo world"))) == [(5, " world")]
    assert [one.text for one in streams.steps()] == ["hello world"]


@pytest.mark.rule("L2")
def test_offsets_count_code_points_not_bytes_or_utf16() -> None:
    streams = Streams()
    family = "\U0001f469‍\U0001f469‍\U0001f467"
    assert told(streams.delta(delta(0, family))) == [(0, family)]
    assert told(streams.delta(delta(5, "!"))) == [(5, "!")]


@pytest.mark.rule("L2")
def test_a_gap_waits_for_the_saved_text_and_then_everything_follows() -> None:
    streams = Streams()
    missed, repaired = counters.delta_gaps_missed, counters.delta_gaps_repaired
    streams.delta(delta(0, "one "))
    assert told(streams.delta(delta(8, "three "))) == []
    assert told(streams.delta(delta(14, "four"))) == []
    assert streams.gaps()
    assert told(streams.saved(piece("one tw"))) == [(4, "tw")]
    assert streams.gaps()
    assert told(streams.saved(piece("one two three"))) == [(6, "o three"), (13, " "), (14, "four")]
    assert not streams.gaps()
    assert (counters.delta_gaps_missed, counters.delta_gaps_repaired) == (missed + 1, repaired + 1)


@pytest.mark.rule("L2")
def test_a_delta_that_closes_a_gap_frees_what_waited() -> None:
    streams = Streams()
    streams.delta(delta(3, "def"))
    assert told(streams.delta(delta(0, "abc"))) == [(0, "abc"), (3, "def")]
    assert not streams.gaps()


@pytest.mark.rule("L2")
def test_a_higher_attempt_starts_text_and_reasoning_again() -> None:
    streams = Streams()
    streams.delta(delta(0, "thinking", kind="reasoning"))
    streams.delta(delta(0, "first try"))
    [fresh] = streams.delta(delta(0, "second", attempt=2))
    assert (fresh.attempt, fresh.offset, fresh.text) == (2, 0, "second")
    assert [(one.key[2], one.text) for one in streams.steps()] == [("text", "second")]
    assert streams.delta(delta(9, " late")) == []
    assert streams.delta(delta(8, " late", kind="reasoning")) == []


@pytest.mark.rule("L2")
@pytest.mark.parametrize(
    "type_", ["StepPlanned", "StepDone", "OutputSuperseded", "TurnDone", "TurnFailed", "TurnInterrupted"]
)
def test_the_text_of_a_finished_step_is_freed_and_its_late_deltas_ignored(type_: str) -> None:
    streams = Streams()
    streams.delta(delta(0, "all of it"))
    streams.event(type_, TURN, 1, None)
    assert list(streams.steps()) == []
    assert streams.delta(delta(9, " late")) == []
    assert streams.saved(piece("all of it late")) == []
    assert not streams.behind(piece("").key, 1, 10_000)


@pytest.mark.rule("L2")
def test_a_planned_step_ends_the_models_text_and_a_settled_call_its_own_output() -> None:
    streams = Streams()
    streams.delta(delta(0, "I will run two commands"))
    streams.event("StepPlanned", TURN, 1, None)
    assert told(streams.delta(delta(0, "out a", kind="tool", call="a"))) == [(0, "out a")]
    assert told(streams.delta(delta(0, "out b", kind="tool", call="b"))) == [(0, "out b")]
    streams.event("ToolSettled", TURN, 1, "a")
    assert [one.key[3] for one in streams.steps()] == ["b"]
    assert streams.delta(delta(5, " more", kind="tool", call="a")) == []
    assert told(streams.delta(delta(0, "next step", step=2))) == [(0, "next step")]


@pytest.mark.rule("L2")
def test_a_stream_is_live_up_to_its_limit_then_a_note_says_so() -> None:
    streams = Streams()
    streams.delta(delta(0, "x" * (LIVE_CHARS - 1)))
    [fresh] = streams.delta(delta(LIVE_CHARS - 1, "yz"))
    assert fresh.text == "y" + LIVE_NOTE
    assert streams.delta(delta(LIVE_CHARS + 1, "more")) == []
    assert streams.delta(delta(LIVE_CHARS + 9_000, "more")) == []
    assert not streams.gaps()
    [whole] = streams.steps()
    assert whole.text == clip("x" * (LIVE_CHARS - 1) + "yzmoremore")


@pytest.mark.rule("L2")
def test_a_watch_that_begins_late_knows_from_the_state_what_is_over() -> None:
    calls = [{"call": "a", "tool": "shell", "status": "settled"}, {"call": "b", "tool": "shell", "status": "started"}]
    streams = Streams()
    streams.begin({"loops": {LOOP: {"turn": {"id": TURN, "step": 3, "calls": calls}}}})
    for over in (piece("x", 2), piece("x", 3), piece("x", 3, kind="tool", call="a")):
        assert streams.saved(over) == []
    assert told(streams.saved(piece("out", 3, kind="tool", call="b"))) == [(0, "out")]


@pytest.mark.rule("L2")
@settings(max_examples=300, deadline=None)
@given(
    text=st.text(min_size=1, max_size=60),
    cuts=st.lists(st.tuples(st.integers(0, 59), st.integers(1, 20)), max_size=30),
    saved=st.lists(st.integers(0, 60), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_any_mixture_of_deltas_and_saved_texts_tells_the_text_once(
    text: str, cuts: list[tuple[int, int]], saved: list[int], order: Any
) -> None:
    streams, heard = Streams(), ""
    arrivals: list[tuple[str, int, int]] = [("delta", start, length) for start, length in cuts]
    arrivals += [("saved", size, 0) for size in saved]
    order.shuffle(arrivals)
    for kind, at, length in [*arrivals, ("saved", len(text), 0)]:
        if kind == "saved":
            fresh = streams.saved(piece(text[:at]))
        elif at < len(text):
            fresh = streams.delta(delta(at, text[at : at + length]))
        else:
            fresh = []
        for one in fresh:
            assert one.offset == len(heard)
            heard += one.text
    assert heard == text
    assert not streams.gaps()
