"""Budgets: what a turn may use, and how one that has used it up ends (B7)."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.decide.budgets import shares
from sessions_app.engine.limits import BUDGETS
from tests.engine.harness import ANA, BOT, LOOP, WORKER, Memory
from tests.engine.invariants import check

pytestmark = pytest.mark.rule("B7")


def limited(**limits: float) -> Memory:
    """A running turn under these budgets."""
    memory = Memory()
    if limits:
        memory.do(c.ChangeLoop(None, limits=limits), ANA)
    memory.start()
    return memory


def step(memory: Memory, call: str = "a", **fields: Any) -> dict[str, Any]:
    """One whole step with one call, and the next safe point."""
    memory.plan(call, **fields)
    memory.call(call)
    memory.settle(call)
    return memory.begin()


@pytest.mark.parametrize(
    ("limits", "used", "which"),
    [
        ({"steps": 1}, {}, "steps"),
        ({"tokens": 30}, {"usage": {"input_tokens": 20, "output_tokens": 10}}, "tokens"),
        ({"cost": 0.5}, {"cost": 0.5}, "cost"),
        ({"day_cost": 0.5}, {"cost": 0.5}, "day_cost"),
        ({"wall_s": 0.02}, {}, "wall_s"),
    ],
    ids=lambda value: str(value),
)
def test_what_is_used_up_ends_the_turn_at_its_next_safe_point(limits: Any, used: Any, which: str) -> None:
    memory = limited(**limits)
    human, machine, steer = memory.submit("later"), memory.submit("machine", BOT), memory.steer("left")
    assert step(memory, **used) == {"marked": False, "outcome": "interrupted"}
    (terminal,) = memory.data("TurnInterrupted")
    assert (terminal["cause"], terminal["which"], terminal["ended_by"], terminal["steps_kept"]) == (
        "budget", which, "worker", 1,
    )  # fmt: skip
    assert (terminal["inputs"]["held"], terminal["inputs"]["cancelled"]) == ([human], [machine])
    assert terminal["steers"]["kept"] == [steer]
    assert memory.data("InputCancelled")[0]["reason"] == "turn_failed"
    check(memory)


def test_below_its_budgets_a_turn_goes_on_and_is_told_how_long_it_may() -> None:
    memory = limited(wall_s=60, steps=2, tokens=100, cost=1)
    receipt = step(memory, usage={"input_tokens": 90}, cost=0.9)
    assert receipt["step"] == 2 and 0 < receipt["left_ms"] < 60_000
    check(memory)


@pytest.mark.rule("B7")
@pytest.mark.parametrize(
    "usage", [{"input_tokens": 100}, {"output_tokens": 100}, {"input_tokens": 40, "output_tokens": 60}]
)
def test_tokens_are_those_read_and_those_written(usage: dict[str, int]) -> None:
    memory = limited(tokens=1000)
    assert shares(memory.state, memory.loop, memory.now_ms)["tokens"] == 0
    memory.answer("", calls=(c.PlannedCall("a", "shell", {}),), usage=usage)
    assert shares(memory.state, memory.loop, memory.now_ms)["tokens"] == 0.1


def test_waits_at_gates_are_no_work() -> None:
    memory = limited(wall_s=60)
    memory.mode("ask")
    step(memory)
    memory.plan("b")
    gate = memory.ask("b")
    memory.now_ms += 3_600_000
    memory.resolve(gate)
    memory.call("b", c.Effect("command", "git push origin"))
    memory.settle("b")
    assert memory.begin()["left_ms"] > 59_000
    check(memory)


def test_a_mark_beats_a_budget() -> None:
    memory = limited(steps=1)
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.stop()
    assert memory.begin() == {"marked": True}
    memory.end(cause="budget", which="steps")
    assert memory.data("TurnInterrupted")[0]["cause"] == "person"
    check(memory)


def test_a_worker_ends_a_turn_in_the_middle_when_its_time_is_over() -> None:
    memory = limited(wall_s=60)
    memory.plan("a")
    memory.call("a")
    memory.end(cause="budget", which="wall_s", settlements={"a": c.Settlement("interrupted", "half")}, phase="tool")
    assert memory.data("ToolSettled")[0]["outcome"] == "interrupted"
    assert memory.data("TurnInterrupted")[0]["which"] == "wall_s"
    check(memory)


def test_changed_budgets_bind_the_next_turn() -> None:
    memory = limited(steps=1)
    memory.do(c.ChangeLoop(None, limits={"steps": 5}), ANA)
    assert step(memory)["outcome"] == "interrupted"
    memory.start()
    assert "outcome" not in step(memory)


def test_a_day_s_cost_is_of_the_session_and_begins_anew_each_day() -> None:
    memory = limited(day_cost=1)
    step(memory, cost=0.6)
    memory.answer(cost=0.1)
    memory.start()
    assert step(memory, cost=0.3)["outcome"] == "interrupted"
    memory.now_ms += 24 * 3600 * 1000
    memory.start()
    assert "outcome" not in step(memory, cost=0.3)
    assert memory.state.spent.cost == pytest.approx(1.3)


def test_an_unknown_price_is_not_nothing() -> None:
    memory = limited()
    step(memory, cost=0.6)
    memory.answer()
    assert memory.data("TurnDone")[0]["cost"] is None
    memory.start()
    step(memory, cost=0.6)
    memory.answer(cost=0.2)
    assert memory.data("TurnDone")[1]["cost"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"stepps": 1}, "limits.stepps"), ({"steps": 0}, "limits.steps"), ({"cost": True}, "limits.cost"),
     ({"wall_s": "1"}, "limits.wall_s"), ({"tokens": float("nan")}, "limits.tokens")],
    ids=str,
)  # fmt: skip
def test_budgets_that_are_none_are_refused(limits: Any, field: str) -> None:
    refused = Memory().refused(c.ChangeLoop(None, limits=limits))
    assert (refused.code, refused.data["field"]) == ("invalid", field)


def asked(memory: Memory, *commands: str, urgent: bool = False) -> dict[str, Any]:
    """The model asks for these commands in one reply."""
    turn = memory.turn
    calls = tuple(c.PlannedCall(memory.new_id("call"), "shell", {"command": command}) for command in commands)
    return memory.do(c.FinishModel(turn.id, turn.epoch, turn.step, "again", calls=calls), WORKER).receipt


def run_all(memory: Memory) -> None:
    for call in memory.turn.calls or ():
        memory.call(call.call)
        memory.settle(call.call)
    memory.begin()


@pytest.mark.parametrize("replies", [[["x"], ["x"], ["x"]], [["x", "x"], ["x"]], [["y", "x"], ["x", "x"]]], ids=str)
def test_the_same_call_three_times_in_a_row_fails_the_turn(replies: list[list[str]]) -> None:
    memory = limited()
    for reply in replies[:-1]:
        assert asked(memory, *reply)["outcome"] == "planned"
        run_all(memory)
    assert asked(memory, *replies[-1])["outcome"] == "failed"
    (failed,) = memory.data("TurnFailed")
    assert failed["error"]["code"] == "repeated_call" and failed["cut_off"]["text"] == "again"
    check(memory)


def test_another_call_in_between_or_a_new_turn_begins_to_count_anew() -> None:
    memory = limited()
    for command in ("x", "x", "y", "x", "x"):
        assert asked(memory, command)["outcome"] == "planned"
        run_all(memory)
    memory.answer()
    memory.start()
    assert asked(memory, "x")["outcome"] == "planned"
    check(memory)


@pytest.mark.rule("D6")
def test_a_withdrawn_reply_counts_against_the_cost_and_not_as_a_repetition() -> None:
    memory = limited(cost=1)
    for _ in range(2):
        asked(memory, "x")
        run_all(memory)
    memory.steer("no", urgent=True)
    assert asked(memory, "x")["outcome"] == "superseded"
    assert asked(memory, "x")["outcome"] == "failed", "the withdrawn one did not reset the guard"
    assert BUDGETS["repeats"] == 3


@pytest.mark.rule("B7", "G3", "C2")
def test_a_safe_point_in_the_middle_of_a_step_is_none_whatever_is_used_up() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"steps": 1}), ANA)
    memory.start()
    memory.plan_delegates("d")
    memory.delegate()
    assert memory.refused(c.BeginStep(memory.turn.id, memory.turn.epoch), WORKER).code == "invalid"


@pytest.mark.rule("B7")
def test_the_steps_of_delegates_count_for_their_parents() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(LOOP, limits={"steps": 5}), ANA)
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate("d")
    memory.at = child
    memory.resume()
    for call in ("a", "b"):
        memory.plan(call)
        memory.call(call)
        memory.settle(call)
        memory.begin()
    assert shares(memory.state, memory.state.loops[LOOP], memory.now_ms)["steps"] == 3 / 5
    memory.answer("found")
    memory.at = LOOP
    assert memory.turn.steps_below == 3
    assert memory.begin()["step"] == 2
    memory.plan("e")
    memory.call("e")
    memory.settle("e")
    assert memory.begin()["outcome"] == "interrupted"
    assert memory.data("TurnInterrupted")[0]["which"] == "steps"


@pytest.mark.rule("B7")
def test_the_steps_of_a_delegates_delegates_count_too() -> None:
    memory = Memory()
    memory.start()
    for _ in range(2):
        memory.plan_delegates("d")
        memory.at = memory.delegate("d")
        memory.resume()
    step(memory)
    memory.answer("found")
    memory.at = memory.loop.parent or ""
    memory.begin()
    step(memory)
    memory.answer("found, too")
    memory.at = LOOP
    assert memory.turn.steps_below == 5, "of each delegate its step and its answer, and one step that delegated"


@pytest.mark.rule("B7", "G3")
def test_a_delegate_may_work_no_longer_than_those_above_it() -> None:
    memory = limited(wall_s=60)
    memory.plan_delegates("d", "e")
    memory.now_ms += 50_000
    memory.at = memory.delegate("d")
    first = memory.at
    assert memory.claim()["claimed"]
    assert 9_000 < memory.begin()["left_ms"] < 10_000
    memory.now_ms += 4_000
    memory.at = LOOP
    memory.at = memory.delegate("e")
    assert memory.claim()["claimed"]
    assert 5_000 < memory.begin()["left_ms"] < 6_000, "what a sibling works counts too"
    memory.hand_over()
    assert 4_000 < memory.claim()["left_ms"] < 6_000
    memory.answer()
    memory.at = first
    memory.answer()
    memory.at = LOOP
    assert 4_000 < memory.begin()["left_ms"] < 6_000
    check(memory)


@pytest.mark.rule("B7", "C2")
def test_a_call_that_starts_says_how_long_its_turn_may_work_on() -> None:
    memory = limited(wall_s=60)
    memory.mode("ask")
    step(memory)
    turn = memory.turn
    calls = (c.PlannedCall("d", "delegate", {}), c.PlannedCall("a", "shell", {}))
    memory.do(c.FinishModel(turn.id, turn.epoch, turn.step, "", calls=calls), WORKER)
    child = memory.delegate("d")
    memory.at = child
    memory.resume()
    memory.now_ms += 20_000
    memory.answer()
    memory.at = LOOP
    gate = memory.ask("a")
    memory.now_ms += 3_600_000
    memory.resolve(gate)
    started = memory.call("a", c.Effect("command", "git push origin"))
    assert (started["marked"], started["outcome"]) == (False, "started") and 39_000 < started["left_ms"] < 40_000
    check(memory)


@pytest.mark.rule("B7")
@pytest.mark.parametrize("how", ["fail", "stop", "hand_over"])
def test_a_model_call_without_a_reply_is_paid_for_all_the_same(how: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", cost=1.0)
    memory.call("a")
    memory.settle("a")
    memory.begin()
    turn = memory.turn
    used: dict[str, Any] = {"usage": {"output_tokens": 5}, "cost": 0.5}
    if how == "fail":
        memory.do(c.Fail(turn.id, turn.epoch, "x", "y", **used), WORKER)
        terminal = memory.data("TurnFailed")[0]
    elif how == "stop":
        memory.stop()
        memory.end(**used)
        terminal = memory.data("TurnInterrupted")[0]
    else:
        memory.hand_over("model", attempt=2, **used)
        assert (memory.turn.cost, memory.turn.usage) == (1.5, {"output_tokens": 6})
        memory.resume()
        memory.stop()
        memory.end()
        terminal = memory.data("TurnInterrupted")[0]
    assert terminal["cost"] == memory.state.spent.cost == memory.state.spent.day_cost == 1.5
    check(memory)


@pytest.mark.rule("B7")
def test_the_first_model_call_of_a_turn_is_paid_for_though_it_has_no_reply() -> None:
    memory = Memory()
    memory.start()
    memory.stop()
    memory.end(usage={"output_tokens": 5}, cost=0.5)
    assert memory.data("TurnInterrupted")[0]["cost"] == memory.state.spent.cost == memory.state.spent.day_cost == 0.5


@pytest.mark.rule("B7")
def test_what_a_delegate_of_known_price_cost_leaves_the_total_known() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d", cost=0.25)
    memory.at = memory.delegate("d")
    memory.resume()
    memory.answer("found", cost=0.5)
    memory.at = LOOP
    memory.begin()
    memory.answer("done", cost=0.25)
    assert memory.data("TurnDone")[-1]["cost"] == 1.0


@pytest.mark.rule("B7")
def test_a_cut_off_call_of_unknown_price_makes_the_total_unknown() -> None:
    memory = Memory()
    memory.start()
    memory.stop()
    memory.end(usage={"output_tokens": 5})
    assert memory.data("TurnInterrupted")[0]["cost"] is None
    assert "known_cost" not in memory.data("TurnInterrupted")[0]


@pytest.mark.rule("B7")
@pytest.mark.parametrize("how", ["answer", "fail", "stop"])
def test_beside_an_unknown_price_the_known_ones_count_on_for_those_above(how: str) -> None:
    memory = limited(cost=1)
    memory.plan_delegates("d", cost=0.1)
    memory.at = memory.delegate("d")
    memory.resume()
    step(memory)
    step(memory, cost=0.5)
    turn = memory.turn
    used: dict[str, Any] = {"usage": {"output_tokens": 5}, "cost": 0.25}
    if how == "answer":
        memory.answer(**used)
    elif how == "fail":
        memory.do(c.Fail(turn.id, turn.epoch, "x", "y", **used), WORKER)
    else:
        memory.stop(turn=turn.id)
        memory.end(**used)
    terminal = memory.data("TurnDone", "TurnFailed", "TurnInterrupted")[0]
    assert (terminal["cost"], terminal["known_cost"]) == (None, 0.75)
    memory.at = LOOP
    assert memory.turn.unpriced and memory.turn.cost == pytest.approx(0.85)
    assert memory.state.spent.cost == memory.state.spent.day_cost == pytest.approx(0.85)
    memory.begin()
    assert step(memory, cost=0.15)["outcome"] == "interrupted"
    (end,) = [each for each in memory.data("TurnInterrupted") if each["cause"] == "budget"]
    assert (end["which"], end["cost"], end["known_cost"]) == ("cost", None, 1.0)
    check(memory)
