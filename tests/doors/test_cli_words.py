"""Receipts, tables and session frames as a terminal shows them."""

from typing import Any

import pytest

from sessions_app.cli import tables, words
from sessions_app.cli.printer import _EVENTS
from sessions_app.cli.terminal import clean, one_line
from tests.doors.terminals import ANA, LOOP, TURN, Terminal


@pytest.mark.rule("E3")
@pytest.mark.parametrize(
    ("receipt", "said"),
    [
        ({"stopped": True, "joined": False, "turns": ["t"], "note": None}, "Stopped."),
        (
            {"stopped": False, "joined": True, "turns": ["t"], "note": "joined"},
            "It was being stopped already, and has ended.",
        ),
        ({"stopped": False, "joined": False, "turns": [], "note": "idle"}, "Nothing was running."),
        (
            {"stopped": True, "joined": False, "turns": ["t"], "note": None, "background": [["t", "a"], ["t", "b"]]},
            "Stopped. 2 background processes ended with it.",
        ),
        (
            {"stopped": False, "joined": False, "turns": [], "note": "idle", "background": [["t", "a"]]},
            "No agent was running. 1 background process was ended.",
        ),
        ({"stopped": False, "joined": False, "turns": [], "note": "not_started"}, "Nothing had started yet."),
        (
            {"stopped": False, "joined": False, "turns": [], "note": "turn_over"},
            "That turn was over already; nothing was stopped.",
        ),
    ],
)
def test_a_stop_says_no_more_than_its_receipt(receipt: dict[str, Any], said: str) -> None:
    assert words.stopped(receipt) == said


@pytest.mark.rule("E4")
def test_a_stop_nobody_waits_for_is_never_called_stopped() -> None:
    said = words.stop_accepted({"accepted": True, "joined": False, "turns": ["t"], "note": None})
    assert said == "Stop asked for; 1 turn will end. Not confirmed yet."
    said = words.stop_accepted({"accepted": True, "turns": [], "note": "idle", "background": [["t", "a"]]})
    assert said.endswith("Not confirmed yet.")


def test_survivors_are_told_with_the_stop() -> None:
    said = words.stopped({"stopped": True, "joined": False, "turns": ["t"], "note": "held_processes"})
    assert said == "Stopped. Something may still run: what waited is paused until you release it."


@pytest.mark.rule("D9")
def test_a_steer_says_where_it_will_land() -> None:
    running = {"steer": "s1", "lands": {"when": "safe_point", "after": "tool", "running_ms": 38_400}, "seq": 4}
    idle = {"steer": "s2", "lands": {"when": "next_turn"}, "seq": 5}
    assert words.steered(running) == "Accepted; it lands after the running command, 38 s so far. (s1)"
    assert words.steered(idle) == "Accepted; it lands with the next turn; nothing is running. (s2)"


@pytest.mark.rule("B1")
def test_a_submit_says_how_many_wait_before_it() -> None:
    assert words.submitted({"input": "i1", "position": 0, "seq": 1}) == "Queued; it is the next. (i1)"
    assert words.submitted({"input": "i1", "position": 2, "seq": 1}) == "Queued; 2 messages before it. (i1)"


def test_durations_are_said_as_people_say_them() -> None:
    assert [words.seconds(ms) for ms in (0, 412, 38_400, 185_000, 7_440_000)] == [
        "0.0 s",
        "0.4 s",
        "38 s",
        "3 min 5 s",
        "2 h 4 min",
    ]


def test_text_of_others_cannot_drive_the_terminal() -> None:
    assert clean("a\x1b]0;title\x07b\u202ec\x9bd") == "a␛]0;title␇b\ufffdc\ufffdd"
    assert clean("a\u061cb") == "a\ufffdb"
    assert one_line("two\nlines\tand more", 12) == "two lines a…"


HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202ey"
"""A text that a terminal would take as orders."""


def drives(text: str) -> list[str]:
    """What of it a terminal would take as an order."""
    return [each for each in text if each != "\n" and (not each.isprintable() or "\x7f" <= each <= "\x9f")]


def test_texts_of_others_cannot_drive_the_terminal_from_a_list() -> None:
    assert drives(HOSTILE) == ["\x1b", "\x07", "\x1b", "\x9b", "\u202e"]
    item = {
        "at": "2026-11-30T04:21:13.100000Z", "settled_ms": 600, "request": "r", "session": "s1", "title": HOSTILE,
        "turn_index": 2, "actor": {"name": HOSTILE, "device": {"kind": HOSTILE}}, "cause": "person", "phase": "tool",
        "acknowledged_ms": 20, "steps_kept": 1, "reason": HOSTILE, "task": HOSTILE,
    }  # fmt: skip
    several = tables.interruptions([item, {**item, "task": None}])
    assert "sub-agent “x␛]0;owned␇␛[2J" in several
    assert not drives(tables.interruptions([item]) + several)
    assert not drives(tables.sessions([{"id": "s1", "state": "idle", "title": HOSTILE}]))


def test_texts_of_others_cannot_drive_the_terminal_from_a_session() -> None:
    terminal = Terminal()
    actor = {"kind": "person", "id": "1", "name": HOSTILE, "device": {"kind": HOSTILE, "name": HOSTILE}}
    left = {"ended": [], "surviving": [{"pid": 41, "command": HOSTILE}]}
    rule = {"id": "r", "kind": "command_prefix", "tool": HOSTILE, "value": HOSTILE}
    texts: dict[str, Any] = dict.fromkeys(("text", "reason", "message", "output", "task"), HOSTILE)
    live = {"steps": [Terminal.piece(HOSTILE, 0)]}
    terminal.printer.frame({"t": "hello", "session": {"id": "x", "title": HOSTILE}, "head": 1, "live": live})
    terminal.printer.frame({"t": "caught_up", "seq": 1})
    terminal.event("LoopStarted", {"parent": LOOP, "call": "d0", **texts}, loop="child")
    for type_ in _EVENTS:
        data: dict[str, Any] = {
            **texts, "call": "c1", "tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}, "processes": left, "rule": rule,
            "decision": "allow", "mode": HOSTILE, "cause": "person", "outcome": "error", "inputs": [], "steers": [],
            "error": {"code": HOSTILE, "detail": HOSTILE}, "parent": LOOP,
        }  # fmt: skip
        terminal.event(type_, data, actor=actor, loop="child", turn="of the child")
    assert "x␛]0;owned␇␛[2J" in terminal.text
    assert not drives(terminal.text)


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert tables.table(("a", "bb"), [("long", "x"), ("s", "y")]) == "a     bb\nlong  x\ns     y"


@pytest.mark.rule("L2")
def test_streamed_text_is_written_once() -> None:
    terminal = Terminal()
    terminal.delta("Hello ", 0)
    terminal.delta("wörld", 6)
    terminal.delta("wörld", 6)  # the late joiner's overlap
    terminal.event("StepDone", {"text": "Hello wörld!", "usage": {}})
    assert terminal.text == "Hello wörld!\n"


@pytest.mark.rule("L2")
def test_a_higher_attempt_starts_again_and_a_lower_one_is_ignored() -> None:
    terminal = Terminal()
    terminal.delta("first", 0)
    terminal.delta("second", 0, attempt=2)
    terminal.delta("late", 5, attempt=1)
    terminal.event("StepDone", {"text": "second", "usage": {}})
    assert terminal.text == "first\n(asked again)\nsecond\n"


@pytest.mark.rule("L2")
def test_a_late_joiner_sees_the_running_text_below_the_history() -> None:
    terminal = Terminal()
    live = {"phases": [], "steps": [Terminal.piece("so far", 0)], "presence": []}
    terminal.printer.frame({"t": "hello", "session": {"id": "x", "title": "Build"}, "head": 1, "live": live})
    terminal.event("InputQueued", {"input": "i", "text": "go", "position": 0}, actor=ANA)
    terminal.printer.frame({"t": "caught_up", "seq": 1})
    terminal.delta(" and on", 6)
    assert terminal.text == "Build\nAna: go\nso far and on"


def test_a_command_is_shown_with_its_output_and_end() -> None:
    terminal = Terminal()
    terminal.event("StepPlanned", {"text": "I look.", "calls": [], "usage": {}})
    terminal.event("ToolStarted", {"call": "c1", "tool": "shell", "arguments": {"command": "ls"}})
    terminal.delta("one\n", 0, kind="tool")
    terminal.event(
        "ToolSettled", {"call": "c1", "outcome": "error", "output": "one\ntwo\n", "exit": 2, "duration_ms": 1200}
    )
    assert terminal.text == "I look.\n$ ls\none\ntwo\n[error, exit 2, 1.2 s]\n"


def test_other_tools_are_shown_with_their_arguments_on_one_line() -> None:
    terminal = Terminal()
    arguments = {"path": "a.txt", "content": "one\ntwo", "lines": 2}
    terminal.event("ToolStarted", {"call": "c1", "tool": "write_file", "arguments": arguments})
    assert terminal.text == "write_file path=a.txt content=one two lines=2\n"


def test_that_the_worker_heard_of_a_stop_is_said_once() -> None:
    terminal = Terminal()
    frame = {"t": "stopping", "request": "r", "turn": TURN, "phase": "tool", "acknowledged_ms": None}
    for acknowledged_ms in (None, 12, 12):
        terminal.printer.frame({**frame, "acknowledged_ms": acknowledged_ms})
    assert terminal.text == "… the worker got it after 12 ms\n"


@pytest.mark.rule("E8")
def test_an_interruption_says_who_and_what_is_left() -> None:
    terminal = Terminal()
    terminal.event("InterruptRequested", {"request": "r", "turns": [TURN], "reason": "wrong branch"}, actor=ANA)
    ended = {"ended": [{"pid": 7, "command": "sleep"}], "surviving": [], "unknown": False}
    data = {"cause": "person", "settled_ms": 400, "steps_kept": 2, "processes": ended}
    terminal.event("TurnInterrupted", data, actor=ANA)
    assert terminal.text == (
        "■ stop asked by Ana (phone): wrong branch\n"
        "■ stopped by Ana (phone), everything ended 0.4 s later; 2 steps kept; 1 process ended\n"
    )


@pytest.mark.rule("B7")
def test_a_limit_is_told_in_words() -> None:
    terminal = Terminal()
    ended = {"ended": [], "surviving": [], "unknown": False}
    data = {"cause": "budget", "which": "steps", "settled_ms": 0, "steps_kept": 200, "processes": ended}
    terminal.event("TurnInterrupted", data)
    terminal.event("TurnFailed", {"error": {"code": "repeated_call", "detail": "The same call 3 times in a row."}})
    assert terminal.text.startswith("■ ended by a limit: 200 steps, everything ended 0.0 s later")
    assert terminal.text.endswith("── ended by a limit: The same call 3 times in a row.\n")


@pytest.mark.rule("J6")
def test_an_interruption_with_survivors_is_not_called_ended() -> None:
    terminal = Terminal()
    data = {
        "cause": "worker_lost",
        "settled_ms": 0,
        "steps_kept": 0,
        "processes": {"ended": [], "surviving": [], "unknown": True},
    }
    terminal.event("TurnInterrupted", data)
    assert terminal.text == "■ stopped (worker lost), but something may still run; 0 steps kept\n"


def test_unknown_frames_and_events_are_no_error() -> None:
    terminal = Terminal()
    terminal.printer.frame({"t": "brand_new"})
    terminal.event("SomethingNew", {})
    assert terminal.text == ""


@pytest.mark.rule("A3")
def test_erased_text_says_so() -> None:
    terminal = Terminal()
    terminal.event("InputQueued", {"input": "i", "text": {"erased": True}, "position": 0}, actor=ANA)
    assert terminal.text == "Ana: [erased]\n"


def test_colour_wraps_whole_pieces() -> None:
    terminal = Terminal(colour=True)
    terminal.event("SessionClosed", {})
    assert terminal.text == "\x1b[2m── the session is closed\n\x1b[0m"


@pytest.mark.rule("H1", "H3")
def test_approvals_are_told_with_what_was_asked_and_who_answered() -> None:
    terminal = Terminal()
    calls = [{"call": "c1", "tool": "shell", "arguments": {"command": "git push origin"}}]
    rule = {"id": "r", "kind": "command_prefix", "tool": "shell", "value": "git push"}
    terminal.event("StepPlanned", {"text": "", "calls": calls, "usage": {}})
    terminal.event("GateOpened", {"gate": "g", "call": "c1", "tool": "shell", "question": "effect", "offers": []})
    terminal.event("GateResolved", {"gate": "g", "call": "c1", "decision": "allow", "rule": rule}, actor=ANA)
    terminal.event("GateResolved", {"gate": "g", "call": "c1", "decision": "deny", "message": "not\nnow"}, actor=ANA)
    terminal.event("GateClosed", {"gate": "g", "call": "c1", "reason": "steer"})
    terminal.event("ModeChanged", {"mode": "plan"}, actor=ANA)
    assert terminal.text.splitlines() == [
        "? waits for approval: $ git push origin",
        "· allowed by Ana (phone), and from now on: every command that begins with git push",
        "· denied by Ana (phone): not now",
        "· not asked any more: an urgent message came first",
        "· Ana (phone) changed the mode: the agent plans only",
    ]


LEFT = {"ended": [], "surviving": [{"pid": 41, "command": "sleep 999"}, {"pid": 42, "command": {"erased": True}}]}
ENDS: dict[str, dict[str, Any]] = {
    "TurnDone": {"steps": 1, "duration_ms": 10},
    "TurnFailed": {"error": {"code": "provider", "detail": "no more credit"}},
    "TurnInterrupted": {"cause": "person", "settled_ms": 10, "steps_kept": 1},
}


@pytest.mark.rule("E7")
@pytest.mark.parametrize("end", ENDS)
def test_what_outlived_its_kill_is_named_at_the_call_and_at_the_end_of_the_turn(end: str) -> None:
    terminal = Terminal()
    settled = {"call": "c1", "outcome": "ok", "output": "", "duration_ms": 10, "processes": LEFT}
    terminal.event("ToolSettled", settled)
    assert terminal.text.endswith("! outlived its kill: sleep 999 (41), a process (42)\n")
    terminal.event(end, {**ENDS[end], "processes": LEFT, "note": "held_processes"}, actor=ANA)
    said = terminal.text.splitlines()[-2:]
    assert said == [
        "! still running when the turn ended: sleep 999 (41), a process (42)",
        "! what waits stays paused until somebody sends it",
    ]
    terminal.event("ProcessesEnded", {"call": "c1", "processes": {"ended": LEFT["surviving"], "surviving": []}})
    assert terminal.text.endswith("processes that had outlived their kill have ended\n")


def test_the_history_names_sessions_and_says_when_the_stop_was_asked_as_the_page_does() -> None:
    item = {
        "at": "2026-11-30T04:21:13.100000Z", "settled_ms": 600, "request": "r", "session": "s1", "title": "Words",
        "turn_index": 2, "actor": {"name": "ana", "device": None}, "cause": "person", "phase": "tool",
        "acknowledged_ms": 20, "steps_kept": 1, "reason": None,
    }  # fmt: skip
    asked, session = tables.interruptions([item]).splitlines()[1].split("  ")[:2]
    assert asked == tables.local_time("2026-11-30T04:21:12.500000Z")
    assert session == "Words, turn 2 of the main agent (s1)"


@pytest.mark.rule("E1", "E8", "G1")
def test_the_history_shows_each_agent_s_part_of_a_stop_and_no_sum_of_what_may_be_cut() -> None:
    common = {
        "settled_ms": 600, "request": "r", "session": "s1", "title": "Words", "turn_index": 1, "cause": "person",
        "actor": {"name": "ana", "device": None}, "phase": "tool", "surviving": 0, "unknown": False,
    }  # fmt: skip
    main = {
        **common, "id": "t1", "at": "2026-11-30T04:21:14Z", "task": None, "acknowledged_ms": 20, "steps_kept": 1,
        "ended": 0, "reason": "wrong branch", "phase": "delegate",
    }  # fmt: skip
    child = {
        **common, "id": "t2", "at": "2026-11-30T04:21:13Z", "task": "read the\nfirst folder", "acknowledged_ms": 30,
        "steps_kept": 2, "ended": 3, "reason": None,
    }  # fmt: skip
    other = {**common, "id": "t0", "request": None, "cause": "worker_shutdown", "at": "2026-11-30T04:20:00Z",
             "task": "", "acknowledged_ms": None, "steps_kept": 0, "ended": 0, "reason": None}  # fmt: skip
    rows = tables.interruptions([child, main, other]).splitlines()[1:]
    assert len(rows) == 4
    assert rows[0].split() == [
        *tables.local_time("2026-11-30T04:21:12.4Z").split(),
        "several",
        "agents",
        "ana",
        "wrong",
        "branch",
    ]
    assert "turn 1 of the main agent" in rows[1]
    assert "turn 1 of sub-agent “read the first folder”" in rows[2]
    assert "3 ended" in rows[2]
    assert "turn 1 of a sub-agent" in rows[3]
    assert "the worker shut down" in rows[3]
    (part,) = tables.interruptions([child]).splitlines()[1:]  # the list was cut before the main agent's
    assert "turn 1 of sub-agent “read the first folder”" in part
