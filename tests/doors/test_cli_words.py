"""Receipts, tables and session frames as a terminal shows them."""

import re
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
    assert words.submitted({"input": "i1", "position": 2, "paused": 1, "seq": 1}) == (
        "Queued; 1 message before it; 1 paused message does not hold it up. (i1)"
    )
    assert words.submitted({"input": "i1", "position": 2, "paused": 2, "seq": 1}) == (
        "Queued; it is the next; 2 paused messages do not hold it up. (i1)"
    )


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


def numbers(**some: Any) -> dict[str, Any]:
    """A stop's numbers, or one agent's."""
    none = dict.fromkeys(
        ("agents", "steps_kept", "cut_off", "approvals", "ended", "ending", "surviving", "held", "kept", "cancelled"), 0
    )
    return {**none, "acknowledged_ms": 20, "settled_ms": 600, "unknown": False, "ended_by": "worker", **some}


HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202ey"
"""A text that a terminal would take as orders."""


def drives(text: str) -> list[str]:
    """What of it a terminal would take as an order."""
    return [each for each in text if each != "\n" and (not each.isprintable() or "\x7f" <= each <= "\x9f")]


def test_texts_of_others_cannot_drive_the_terminal_from_a_list() -> None:
    assert drives(HOSTILE) == ["\x1b", "\x07", "\x1b", "\x9b", "\u202e"]
    item = {
        "at": "2026-11-30T04:21:13.100000Z", "settled_ms": 600, "request": "r", "session": "s1", "title": HOSTILE,
        "turn_index": 2, "phase": HOSTILE, "task": HOSTILE, "numbers": numbers(),
    }  # fmt: skip
    who = {"name": HOSTILE, "device": {"kind": HOSTILE}}
    killed = {
        "session": "s1", "title": HOSTILE, "command": HOSTILE, "processes": [], "at": item["at"], "ended_at": None,
        "ms": None, "surviving": [{"pid": 7, "command": HOSTILE}], "unknown": False, "why": None,
        "actor": {"kind": HOSTILE},
    }  # fmt: skip
    common = {**numbers(), "request": "r", "actor": who, "cause": "person", "reason": HOSTILE}
    several = tables.stops([{**common, "turns": [item, {**item, "task": None}], "background": [killed]}])
    assert "sub-agent “x␛]0;owned␇␛[2J" in several
    alone = tables.stops([{**common, "turns": turns, "background": [killed]} for turns in ([item], [])])
    assert not drives(several + alone)
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
            "error": {"code": HOSTILE, "detail": HOSTILE}, "parent": LOOP, "request": "r", "turns": [],
            "settled_ms": 1, "steps_kept": 1,
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
    assert terminal.text.startswith("■ Ended by a limit: 200 steps; 200 steps kept\n")
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
    assert terminal.text == ("■ Interrupted: worker died, result unknown, but something may still run; 0 steps kept\n")


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
    assert terminal.text.endswith("· what had outlived its kill has ended: sleep 999 (41), a process (42)\n")


@pytest.mark.rule("E13", "A5")
def test_what_ended_in_the_background_is_no_survivor() -> None:
    terminal = Terminal()
    terminal.event("ToolStarted", {"call": "c1", "tool": "shell", "arguments": {"command": "npm run dev"}})
    left = {"ended": [], "surviving": [], "background": [{"pid": 7, "command": "npm run dev"}]}
    settled = {"call": "c1", "outcome": "ok", "output": "", "duration_ms": 2000, "processes": left}
    terminal.event("ToolSettled", settled)
    assert terminal.text.endswith("[ok, 2.0 s, left running in the background]\n")
    terminal.event("TurnDone", {"steps": 1, "duration_ms": 10})
    gone = {"ended": left["background"], "surviving": [], "background": []}
    terminal.event("ProcessesEnded", {"call": "c1", "background": True, "processes": gone}, actor=ANA)
    assert terminal.text.endswith("· Ana ended a background process: npm run dev\n")
    others: list[tuple[dict[str, Any], str]] = [
        ({"processes": gone, "why": "worker_shutdown"}, "A background process ended with its worker: npm run dev"),
        ({"processes": {**gone, "ended": [], "surviving": gone["ended"]}}, "Outlived its kill: npm run dev (7)"),
    ]
    for data, said in others:
        terminal.event("ProcessesEnded", {"call": "c1", "background": True, **data})
        assert terminal.text.endswith(f"· {said}\n")


@pytest.mark.rule("E1", "E8", "E13", "H2")
def test_a_stop_of_several_is_told_as_a_whole_once_all_of_it_has_ended() -> None:
    terminal = Terminal()
    left = {"ended": [], "surviving": [], "background": [{"pid": 7, "command": "npm run dev"}]}
    terminal.event("ToolSettled", {"call": "bg", "outcome": "ok", "duration_ms": 10, "processes": left})
    turns: dict[str, Any] = {"request": "r", "turns": ["child", TURN]}
    asked: dict[str, Any] = {"actor": ANA, "cause": "c", "at": "2026-11-30T04:21:12.000Z"}
    terminal.event("InterruptRequested", turns, **asked)
    terminal.event("KillRequested", {"call": "bg"}, **asked)
    for turn, gates in (("child", ["g"]), (TURN, [])):
        ended = {"ended": [{"pid": 8, "command": "sleep"}], "surviving": [], "unknown": False}
        data = {
            "request": "r",
            "cause": "person",
            "settled_ms": 400,
            "steps_kept": 2,
            "processes": ended,
            "gates": gates,
        }
        terminal.event("TurnInterrupted", data, actor=ANA, turn=turn)
    assert "its turn ended 0.4 s later; 2 steps kept; 1 process ended; 1 approval closed" in terminal.text
    assert "everything ended" not in terminal.text, "what runs in the background has not"
    gone = {"call": "bg", "background": True, "processes": {**left, "ended": left["background"]}}
    terminal.event("ProcessesEnded", gone, actor=ANA, cause="c", at="2026-11-30T04:21:12.700Z")
    assert terminal.text.endswith(
        "■ everything ended 0.7 s after it was asked; 2 agents; 4 steps kept; 3 processes ended; 1 approval closed\n"
    )


@pytest.mark.rule("E8", "J4")
def test_a_shutdown_says_what_it_waited() -> None:
    terminal = Terminal()
    data = {"cause": "worker_shutdown", "settled_ms": 30, "steps_kept": 1, "grace_ms": 20_000}
    terminal.event("TurnInterrupted", data)
    assert terminal.text == "■ Interrupted: the worker was shut down; after a grace of 20 s; 1 step kept\n"


@pytest.mark.rule("J4")
def test_a_hand_over_says_what_becomes_of_the_reply_that_was_under_way() -> None:
    terminal = Terminal()
    terminal.delta("Half a", 0)
    terminal.event("TurnHandedOver", {"at": "model"})
    terminal.event("TurnResumed", {"epoch": 2})
    terminal.delta("Whole.", 0, attempt=2)
    terminal.event("TurnHandedOver", {"at": "gate"})
    assert terminal.text.splitlines() == [
        "Half a",
        "· Handed over: worker left, the unfinished reply is begun anew by another",
        "· Goes on with another worker",
        "(asked again)",
        "Whole.",
        "· Handed over: worker left, waits for another",
    ]


@pytest.mark.rule("L1")
def test_a_watcher_who_was_cut_off_goes_on_where_it_was() -> None:
    terminal = Terminal()
    hello = {"t": "hello", "session": {"id": "x", "title": "Build"}, "head": 1, "live": {"steps": []}}
    terminal.printer.frame(hello)
    terminal.delta("Half a sen", 0)
    terminal.printer.interrupted()
    assert terminal.text == "Build\nHalf a sen\n", "another line may follow"
    terminal.printer.frame(hello)
    terminal.delta("tence.", 10)
    terminal.event("InterruptRequested", {"request": "r", "turns": [TURN]}, actor=ANA)
    assert terminal.text == "Build\nHalf a sen\ntence.\n■ stop asked by Ana (phone)\n"


def test_the_number_of_a_turn_is_said_from_the_second_on() -> None:
    terminal = Terminal()
    terminal.event("TurnStarted", {"index": 1})
    terminal.event("TurnStarted", {"index": 2})
    assert terminal.text == "── turn 2\n"


def test_the_history_names_sessions_and_says_when_the_stop_was_asked_as_the_page_does() -> None:
    item = {
        "at": "2026-11-30T04:21:13.100000Z", "settled_ms": 600, "request": "r", "session": "s1", "title": "Words",
        "turn_index": 2, "phase": "tool", "numbers": numbers(), "task": None,
    }  # fmt: skip
    stop = {
        **numbers(), "request": "r", "actor": {"name": "ana", "device": None}, "cause": "person", "reason": None,
        "turns": [item], "background": [],
    }  # fmt: skip
    asked, session = tables.stops([stop]).splitlines()[1].split("  ")[:2]
    assert asked == tables.local_time("2026-11-30T04:21:12.500000Z")
    assert session == "Words, turn 2 of the main agent (s1)"


@pytest.mark.rule("E1", "E8", "E13", "G1")
def test_the_history_shows_a_stop_with_each_agent_s_part_and_what_it_ended_in_the_background() -> None:
    common = {"settled_ms": 600, "request": "r", "session": "s1", "title": "Words", "turn_index": 1, "phase": "gate"}
    main = {
        **common, "at": "2026-11-30T04:21:14Z", "task": None, "phase": "delegate",
        "numbers": numbers(agents=1, steps_kept=1),
    }  # fmt: skip
    child = {
        **common, "at": "2026-11-30T04:21:13Z", "task": "read the\nfirst folder",
        "numbers": numbers(agents=1, steps_kept=2, approvals=1, ended=3, acknowledged_ms=None, ended_by="request"),
    }  # fmt: skip
    killed = {
        "session": "s1", "title": "Words", "command": "npm run dev", "processes": [{"pid": 7, "command": "npm"}] * 2,
        "at": "2026-11-30T04:21:12.4Z", "ended_at": "2026-11-30T04:21:12.7Z", "ms": 300, "surviving": [],
        "unknown": False, "why": None, "actor": {"kind": "person", "name": "ana"}, "cause": "person",
    }  # fmt: skip
    ana = {"actor": {"kind": "person", "name": "ana", "device": None}, "cause": "person"}
    whole = numbers(agents=2, steps_kept=3, approvals=1, ended=5, held=1)
    stop = {**whole, **ana, "request": "r", "reason": "wrong branch", "turns": [main, child], "background": [killed]}
    lost = {
        **numbers(agents=1, acknowledged_ms=None, kept=2), "request": None, "cause": "worker_shutdown", "reason": None,
        "actor": {"kind": "system", "name": "steerweb"}, "background": [],
        "turns": [{**common, "request": None, "at": "2026-11-30T04:20:00Z", "task": "", "numbers": numbers()}],
    }  # fmt: skip
    alone = {**numbers(ended=2), **ana, "request": None, "reason": None, "turns": [], "background": [killed]}
    rows = [re.split(r"  +", row) for row in tables.stops([stop, lost, alone]).splitlines()[1:]]
    asked = tables.local_time("2026-11-30T04:21:12.4Z")
    assert rows == [
        [asked, "2 agents", "ana", "a wait for a sub-agent, an open approval", "20 ms", "0.6 s", "3 steps", "5 ended",
         "1 approval closed, 1 paused", "wrong branch"],
        ["", "Words, turn 1 of the main agent (s1)", "a wait for a sub-agent", "20 ms", "0.6 s", "1 step"],
        ["", "Words, turn 1 of sub-agent “read the first folder” (s1)", "an open approval", "no worker had it", "0.6 s",
         "2 steps", "3 ended", "1 approval closed"],
        ["", "in the background: npm run dev, ended in 0.3 s"],
        [tables.local_time("2026-11-30T04:20:00Z"), "Words, turn 1 of a sub-agent (s1)", "the worker was shut down",
         "an open approval", "0.6 s", "0 steps", "2 left as they were"],
        [asked, "Words (s1): in the background: npm run dev, ended in 0.3 s", "ana"],
    ]  # fmt: skip
