"""Turns from submit to terminal, through the real verbs and the real database."""

import pytest

from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.rule("B1", "B2", "B6", "C2", "C6")
def test_a_turn_without_calls_is_one_step_and_one_terminal() -> None:
    world = World.create()
    before = len(world.events())
    world.start()
    assert world.answer("hi")["outcome"] == "done"
    assert world.types(before) == ["InputQueued", "TurnStarted", "StepDone", "TurnDone", "LoopIdle", "SessionIdle"]
    assert [event.seq for event in world.events()] == list(range(1, before + 7))


@pytest.mark.rule("C2", "C4", "C5", "C6", "E8")
def test_a_stop_in_a_call_settles_everything_and_keeps_committed_steps() -> None:
    world = World.create()
    world.start()
    world.plan("a", "b")
    world.start_tool("a")
    before = len(world.events())
    receipt = world.stop(reason="wrong branch", queue="hold")
    assert receipt["accepted"] and receipt["turns"] == [world.turn]
    world.end(acknowledged_ms=3)
    assert world.types(before) == [
        "InterruptRequested", "ToolSettled", "ToolSettled", "TurnInterrupted", "LoopIdle", "SessionIdle",
    ]  # fmt: skip
    settled = {event.data["call"]: event.data["outcome"] for event in world.events("ToolSettled")}
    assert settled == {"a": "lost", "b": "not_run"}
    terminal = world.events("TurnInterrupted")[0]
    assert terminal.actor.name == "ana" and terminal.data["reason"] == "wrong branch"
    assert (terminal.data["cause"], terminal.data["phase"], terminal.data["steps_kept"]) == ("person", "tool", 1)
