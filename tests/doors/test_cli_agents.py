"""Several agents in one terminal: who speaks is named, and nothing is written twice."""

from typing import Any

import pytest

from sessions_app.cli.printer import SILENT_S
from tests.doors.terminals import LOOP, TURN, Terminal

CHILD, OTHER = (f"0197a1c2-0000-7000-8000-00000000000{each}" for each in "bc")
INSIDE, ASIDE = (f"0197a1c2-0000-7000-8000-00000000001{each}" for each in "bc")
"""The turns of these delegates."""
ABOVE = {"kind": "agent", "id": LOOP, "name": "assistant", "device": None}
SETTLED: dict[str, Any] = {"outcome": "ok", "duration_ms": 12_000}
DELEGATED: dict[str, Any] = {"tool": "delegate", "outcome": "ok", "duration_ms": 0}
"""A settlement of a sub-agent's call says nothing of how long that took."""
LATER = "2026-11-30T04:21:24.000000Z"


def delegating(*tasks: str) -> Terminal:
    """The main agent hands out these tasks, and each delegate has begun."""
    terminal = Terminal()
    calls = [{"call": f"d{at}", "tool": "delegate", "arguments": {"task": task}} for at, task in enumerate(tasks)]
    terminal.event("StepPlanned", {"text": "I hand it out.", "calls": calls})
    for at, (task, loop, turn) in enumerate(zip(tasks, (CHILD, OTHER), (INSIDE, ASIDE), strict=False)):
        terminal.event("ToolStarted", {"call": f"d{at}", "tool": "delegate", "arguments": {"task": task}})
        terminal.event("LoopStarted", {"parent": LOOP, "call": f"d{at}", "task": task}, loop=loop)
        terminal.event("InputQueued", {"input": f"i{at}", "text": task, "agency": "machine"}, actor=ABOVE, loop=loop)
        terminal.event("TurnStarted", {"index": 1, "input": f"i{at}"}, loop=loop, turn=turn)
    terminal.text = ""
    return terminal


def test_whoever_speaks_is_named_when_that_changes_and_an_answer_stands_once() -> None:
    terminal = delegating("count the words")
    terminal.delta("There are ", 0, loop=CHILD, turn=INSIDE)
    terminal.delta("nine.", 10, loop=CHILD, turn=INSIDE)
    terminal.event("StepDone", {"text": "There are nine."}, loop=CHILD, turn=INSIDE)
    terminal.event("TurnDone", {"steps": 1, "duration_ms": 12_000}, loop=CHILD, turn=INSIDE)
    terminal.event("ToolSettled", {"call": "d0", "output": "There are nine.", **DELEGATED}, at=LATER)
    terminal.delta("Nine ", 0, step=2)
    terminal.event("StepDone", {"text": "Nine words."}, step=2)
    assert terminal.text.splitlines() == [
        "── sub-agent “count the words”",
        "There are nine.",
        "── done: 1 step, 12 s",
        "── main agent",
        "[sub-agent “count the words”: ok, 12 s]",
        "Nine words.",
    ]


def test_a_sub_agent_is_named_by_the_start_of_its_task_and_told_all_of_it() -> None:
    terminal = Terminal()
    task = "count the words of every file below the folder of the manual, and say which is the longest"
    terminal.event("ToolStarted", {"call": "d0", "tool": "delegate", "arguments": {"task": task}})
    terminal.event("LoopStarted", {"parent": LOOP, "call": "d0", "task": task}, loop=CHILD)
    terminal.event("InputQueued", {"input": "i", "text": task, "agency": "machine"}, actor=ABOVE, loop=CHILD)
    terminal.event("TurnStarted", {"index": 1, "input": "i"}, loop=CHILD, turn=INSIDE)
    assert terminal.text.splitlines() == [
        "delegate: count the words of every file below the…",
        "── sub-agent “count the words of every file below the…”",
        f"main agent: {task}",
    ]
    assert terminal.text.count(task) == 1


def test_what_another_agent_tells_a_sub_agent_is_told_with_its_author() -> None:
    terminal = delegating("count the words")
    outside = {"kind": "agent", "id": "7", "name": "claude on CI", "device": {"kind": "api", "name": "ci"}}
    aside = {"kind": "agent", "id": OTHER, "name": "assistant", "device": None}
    for actor, text in ((outside, "only the short ones"), (aside, "count the words")):
        data = {"input": "i", "text": text, "agency": "machine"}
        terminal.event("InputQueued", data, actor=actor, loop=CHILD)
    assert terminal.text.splitlines()[1:] == ["claude on CI: only the short ones", "assistant: count the words"]


def test_those_with_the_same_task_are_numbered() -> None:
    terminal = delegating("look", "look")
    terminal.event("StepDone", {"text": "First."}, loop=CHILD, turn=INSIDE)
    terminal.event("StepDone", {"text": "Second."}, loop=OTHER, turn=ASIDE)
    assert terminal.text.splitlines() == ["── sub-agent “look” 1", "First.", "── sub-agent “look” 2", "Second."]


@pytest.mark.rule("L2")
def test_two_that_write_at_once_are_not_mixed() -> None:
    terminal = delegating("one", "two")
    terminal.delta("Half ", 0, loop=CHILD, turn=INSIDE)
    terminal.delta("Other ", 0, loop=OTHER, turn=ASIDE)
    terminal.delta("and half.", 5, loop=CHILD, turn=INSIDE)
    terminal.delta("half", 6, loop=OTHER, turn=ASIDE)
    terminal.event("StepDone", {"text": "Half and half."}, loop=CHILD, turn=INSIDE)
    assert terminal.text.endswith("Half and half.\n── sub-agent “two”\nOther half")
    terminal.event("StepDone", {"text": "Other half."}, loop=OTHER, turn=ASIDE)
    assert terminal.text.endswith("Other half.\n")


@pytest.mark.rule("L2")
def test_who_is_silent_lets_the_others_write_and_goes_on_later() -> None:
    terminal = delegating("one", "two")
    terminal.delta("building", 0, kind="tool", loop=CHILD, turn=INSIDE)
    terminal.now += SILENT_S / 2
    terminal.delta("Other ", 0, loop=OTHER, turn=ASIDE)
    assert "Other" not in terminal.text
    terminal.now += SILENT_S / 2
    terminal.printer.frame({"t": "beat", "head": 1})
    terminal.delta("words", 6, loop=OTHER, turn=ASIDE)
    terminal.delta(" on", 8, kind="tool", loop=CHILD, turn=INSIDE)
    terminal.delta(".", 11, loop=OTHER, turn=ASIDE)
    terminal.now += SILENT_S
    terminal.printer.frame({"t": "beat", "head": 1})
    terminal.event("ToolSettled", {"call": "c1", "output": "building on", **SETTLED}, loop=CHILD, turn=INSIDE)
    terminal.event("StepDone", {"text": "Other words."}, loop=OTHER, turn=ASIDE)
    assert terminal.text.splitlines() == [
        "── sub-agent “one”", "building", "── sub-agent “two”", "Other words.", "── sub-agent “one”", " on",
        "[ok, 12 s]",
    ]  # fmt: skip


@pytest.mark.rule("L2")
def test_a_command_that_never_stops_writing_does_not_hold_the_others_back() -> None:
    terminal = delegating("one", "two")
    said = other = ""
    for number in range(200):
        terminal.now += SILENT_S / 4
        terminal.delta("tick\n", len(said), kind="tool", loop=CHILD, turn=INSIDE)
        said += "tick\n"
        piece = f"{number}, "
        terminal.delta(piece, len(other), loop=OTHER, turn=ASIDE)
        other += piece
    assert "0, 1, 2" in terminal.text
    assert 2 <= terminal.text.count("── sub-agent") < 20, "they do not alternate at each piece"
    terminal.event("ToolSettled", {"call": "c1", "output": said, **SETTLED}, loop=CHILD, turn=INSIDE)
    terminal.event("StepDone", {"text": other}, loop=OTHER, turn=ASIDE)
    lines = [line for line in terminal.text.splitlines() if not line.startswith(("──", "["))]
    assert lines.count("tick") == 200
    assert "".join(line for line in lines if line != "tick") == other


@pytest.mark.rule("L2")
def test_pieces_of_what_is_finished_are_not_written_again() -> None:
    terminal = Terminal()
    live = {"steps": [Terminal.piece("Hello", 0), Terminal.piece("out", 0, kind="tool")]}
    terminal.printer.frame({"t": "hello", "session": {"id": "x", "title": "Build"}, "head": 1, "live": live})
    terminal.event("ToolSettled", {"call": "c1", "outcome": "ok", "output": "out\n", "duration_ms": 100})
    terminal.event("StepDone", {"text": "Hello"})
    terminal.printer.frame({"t": "caught_up", "seq": 3})
    terminal.delta("Hello", 0)
    terminal.event("TurnDone", {"steps": 1, "duration_ms": 100})
    terminal.delta("late", 0, step=2)
    assert terminal.text.splitlines() == ["Build", "out", "[ok, 0.1 s]", "Hello", "── done: 1 step, 0.1 s"]


@pytest.mark.rule("H1")
def test_an_approval_names_the_call_of_the_agent_that_asks() -> None:
    terminal = delegating("one", "two")
    for loop, turn, command in ((CHILD, INSIDE, "git push"), (OTHER, ASIDE, "git pull")):
        call = {"call": "c1", "tool": "shell", "arguments": {"command": command}}
        terminal.event("StepPlanned", {"text": "", "calls": [call]}, loop=loop, turn=turn)
    terminal.event("GateOpened", {"gate": "g", "call": "c1", "tool": "shell"}, loop=CHILD, turn=INSIDE)
    assert terminal.text == "── sub-agent “one”\n? waits for approval: $ git push\n"


def test_a_watcher_who_comes_later_is_told_the_names() -> None:
    terminal = Terminal()
    terminal.printer.known({"loop": CHILD, "data": {"parent": LOOP, "call": "d0", "task": "count the words"}})
    terminal.event("StepDone", {"text": "Nine."}, loop=CHILD, turn=INSIDE)
    terminal.event("ToolSettled", {"call": "d0", "output": "Nine.", **DELEGATED}, turn=TURN)
    assert terminal.text.splitlines() == [
        "── sub-agent “count the words”", "Nine.", "── main agent",
        "[sub-agent “count the words”: ok]",  # since when it had worked nobody told
    ]  # fmt: skip
