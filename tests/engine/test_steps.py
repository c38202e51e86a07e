"""The commit handshake: what a step leaves in the log, in which order, and whose reports count."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from tests.engine.harness import ANA, WORKER, Memory
from tests.engine.invariants import check


@pytest.mark.rule("B6", "B8", "C2")
def test_a_reply_without_calls_is_one_step_and_ends_the_turn() -> None:
    memory = Memory()
    memory.start()
    assert memory.answer("hi", reasoning="a greeting") == {"marked": False, "outcome": "done"}
    assert memory.types(2) == ["InputQueued", "TurnStarted", "StepDone", "TurnDone", "LoopIdle", "SessionIdle"]
    assert memory.data("StepDone", "TurnDone") == [
        {"text": "hi", "reasoning": "a greeting", "usage": {"output_tokens": 1}},
        {"steps": 1, "usage": {"output_tokens": 1}, "cost": None, "duration_ms": 14},
    ]


@pytest.mark.rule("C2", "B8")
def test_a_step_with_calls_is_planned_then_each_is_started_and_settled_then_the_step_is_done() -> None:
    memory = Memory()
    memory.start()
    assert memory.plan("a", "b", text="two things")["outcome"] == "planned"
    for call in ("a", "b"):
        assert memory.call(call)["outcome"] == "started"
        assert memory.settle(call)["outcome"] == "settled"
    memory.begin()
    memory.answer()
    assert memory.types(4) == [
        "StepPlanned", "ToolStarted", "ToolSettled", "ToolStarted", "ToolSettled", "StepDone",
        "StepDone", "TurnDone", "LoopIdle", "SessionIdle",
    ]  # fmt: skip
    assert [event.step for event in memory.log[4:11]] == [1, 1, 1, 1, 1, 1, 2]
    assert memory.data("StepPlanned")[0]["calls"] == [
        {"call": "a", "tool": "shell", "arguments": {"command": "echo a"}},
        {"call": "b", "tool": "shell", "arguments": {"command": "echo b"}},
    ]
    assert memory.data("TurnDone")[0] | {"duration_ms": 0} == {
        "steps": 2, "usage": {"output_tokens": 2}, "cost": None, "duration_ms": 0,
    }  # fmt: skip


@pytest.mark.rule("C2")
def test_the_next_model_call_waits_until_every_call_is_settled() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    turn = memory.turn
    assert memory.refused(c.BeginStep(turn.id, turn.epoch), WORKER).code == "invalid"
    assert memory.refused(c.FinishModel(turn.id, turn.epoch, 1, "again"), WORKER).code == "stale"
    memory.settle("a")
    assert memory.refused(c.BeginStep(turn.id, turn.epoch), WORKER).code == "invalid"


@pytest.mark.rule("C2")
def test_calls_run_one_at_a_time_in_reply_order() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    turn = memory.turn
    later = c.StartTool(turn.id, turn.epoch, 1, "b", {})
    assert memory.refused(later, WORKER).code == "stale"
    memory.call("a")
    assert memory.refused(later, WORKER).code == "stale"
    memory.settle("a")
    assert memory.call("b")["outcome"] == "started"


@pytest.mark.rule("C2", "C4")
def test_a_call_is_started_once_and_settled_once() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    turn = memory.turn
    settle = c.SettleTool(turn.id, turn.epoch, 1, "a", c.Settlement("ok"))
    assert memory.refused(settle, WORKER).code == "stale", "it has not started"
    memory.call("a")
    assert memory.refused(c.StartTool(turn.id, turn.epoch, 1, "a", {}), WORKER).code == "stale"
    memory.settle("a")
    assert memory.refused(settle, WORKER).code == "stale"
    assert memory.refused(c.StartTool(turn.id, turn.epoch, 1, "nobody", {}), WORKER).code == "stale"
    assert memory.refused(c.StartTool(turn.id, turn.epoch, 2, "b", {}), WORKER).code == "stale"


@pytest.mark.rule("C1")
@pytest.mark.parametrize("kind", ["begin", "finish", "start", "settle", "fail", "end"])
def test_a_report_with_another_epoch_or_of_a_turn_that_is_over_is_refused(kind: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    old, epoch = memory.turn.id, memory.turn.epoch

    def report(turn: str, epoch: int) -> c.Command:
        commands: dict[str, c.Command] = {
            "begin": c.BeginStep(turn, epoch),
            "finish": c.FinishModel(turn, epoch, 1, "late"),
            "start": c.StartTool(turn, epoch, 1, "a", {}),
            "settle": c.SettleTool(turn, epoch, 1, "a", c.Settlement("ok")),
            "fail": c.Fail(turn, epoch, "provider_error", "no"),
            "end": c.EndTurn(turn, epoch, "worker", "worker_lost"),
        }
        return commands[kind]

    assert memory.refused(report(old, epoch + 1), WORKER).code == "stale"
    assert memory.refused(report(old, epoch - 1), WORKER).code == "stale"
    memory.end("sweep", cause="worker_lost")
    memory.start("next")
    assert memory.refused(report(old, epoch), WORKER).code == "stale"
    assert memory.refused(report(old, memory.turn.epoch), WORKER).code == "stale"


@pytest.mark.rule("C1", "J1")
def test_every_claim_raises_the_epoch_and_the_turn_s_number() -> None:
    memory = Memory()
    for number in (1, 2, 3):
        memory.start()
        assert (memory.turn.epoch, memory.turn.index) == (number, number)
        memory.answer()


@pytest.mark.rule("C4")
@pytest.mark.parametrize("outcome", ["ok", "error", "denied", "interrupted", "lost"])
def test_a_settlement_says_all_that_is_known(outcome: Any) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    processes = {"ended": [{"pid": 7, "command": "sleep 9"}], "surviving": [], "background": []}
    memory.settle("a", outcome, "half", exit=143, duration_ms=12, processes=processes, replaced=True)
    assert memory.data("ToolSettled") == [
        {
            "call": "a", "tool": "shell", "outcome": outcome, "output": "half", "duration_ms": 12,
            "processes": processes, "exit": 143, "replaced": True,
        }
    ]  # fmt: skip


@pytest.mark.rule("B6", "C4", "F")
def test_a_failure_settles_what_is_open_and_says_what_it_was() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.fail("provider_error", "HTTP 500")
    assert memory.types(6) == ["ToolSettled", "ToolSettled", "TurnFailed", "LoopIdle", "SessionIdle"]
    assert [settled["outcome"] for settled in memory.data("ToolSettled")] == ["lost", "not_run"]
    assert memory.data("TurnFailed")[0] | {"duration_ms": 0} == {
        "error": {"code": "provider_error", "detail": "HTTP 500"},
        "steps": 1, "usage": {"output_tokens": 1}, "cost": None, "duration_ms": 0,
    }  # fmt: skip


@pytest.mark.rule("C5")
@pytest.mark.parametrize("how", ["stop", "fail", "lost"])
def test_committed_steps_stay_whatever_ends_the_turn(how: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", text="first")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    if how == "stop":
        memory.stop()
        memory.end()
    elif how == "fail":
        memory.fail()
    else:
        memory.end("sweep", cause="worker_lost")
    assert memory.types(4)[:4] == ["StepPlanned", "ToolStarted", "ToolSettled", "StepDone"]
    terminal = memory.data("TurnInterrupted", "TurnFailed")[0]
    assert terminal.get("steps_kept", terminal.get("steps")) == 1
    memory.start("go on")
    check(memory)


@pytest.mark.rule("C2", "D2")
def test_commands_of_people_do_not_touch_a_running_step() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    before = memory.turn
    memory.submit("later")
    memory.steer("left")
    memory.do(c.ChangeSession(title="Another"), ANA)
    assert memory.turn == before
