"""The stop: what it selects, what it marks, what its receipt says, and who wins a race."""

from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.actors import SYSTEM, Actor
from sessions_app.engine.decide import Phase
from sessions_app.engine.errors import Refused
from tests.engine.harness import ANA, BEN, BOT, LOOP, WORKER, Memory
from tests.engine.invariants import check

IDLE = {"accepted": False, "joined": False, "turns": [], "note": "idle"}


@pytest.mark.rule("E2", "E3")
def test_a_stop_marks_the_turn_before_anybody_is_told() -> None:
    memory = Memory()
    turn = memory.start()
    memory.phases[turn] = Phase("retry", 3_000)
    receipt = memory.stop(BEN, reason="wrong branch", queue="hold")
    assert receipt == {"accepted": True, "joined": False, "turns": [turn], "note": None}
    [asked] = memory.events("InterruptRequested")
    assert asked.actor == BEN
    assert asked.data == {
        "request": asked.data["request"], "scope": "session", "turns": [turn], "queue": "hold",
        "phases": {turn: "retry"}, "reason": "wrong branch",
    }  # fmt: skip
    assert memory.turn.mark == asked.data["request"]
    assert memory.types(4) == ["InterruptRequested"], "the terminal comes when the work has really ended"


@pytest.mark.rule("E1")
def test_a_stop_of_a_named_loop_says_so() -> None:
    memory = Memory()
    turn = memory.start()
    assert memory.stop(loop=LOOP)["turns"] == [turn]
    assert memory.data("InterruptRequested")[0]["scope"] == LOOP


@pytest.mark.rule("E1", "E2")
@pytest.mark.parametrize("named", [None, LOOP])
def test_a_stop_that_names_only_a_turn_is_one_of_that_turn_s_loop(named: str | None) -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.at = memory.delegate("d")
    turn = memory.resume()
    assert memory.stop(loop=named, turn=turn)["turns"] == [turn]
    assert memory.data("InterruptRequested")[0]["scope"] == child


@pytest.mark.rule("E2", "E8")
@pytest.mark.parametrize(
    ("told", "expected"), [(None, "model"), ("model", "model"), ("retry", "retry"), ("tool", "model")]
)
def test_the_phase_is_what_the_log_proves_and_else_what_the_worker_says(told: str | None, expected: str) -> None:
    memory = Memory()
    turn = memory.start()
    if told is not None:
        memory.phases[turn] = Phase(told, 1)
    memory.stop()
    assert memory.data("InterruptRequested")[0]["phases"] == {turn: expected}


@pytest.mark.rule("E2")
def test_a_started_call_is_the_phase_tool() -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a")
    memory.call("a")
    memory.phases[turn] = Phase("model", 1)
    memory.stop()
    assert memory.data("InterruptRequested")[0]["phases"] == {turn: "tool"}


@pytest.mark.rule("E2", "C3")
@pytest.mark.parametrize("report", ["begin", "answer", "plan"])
def test_a_marked_turn_commits_nothing_more(report: str) -> None:
    memory = Memory()
    memory.start()
    memory.steer("left")
    memory.stop()
    before = len(memory.log)
    reports: dict[str, Callable[[], dict[str, Any]]] = {
        "begin": memory.begin, "answer": memory.answer, "plan": lambda: memory.plan("a"),
    }  # fmt: skip
    assert reports[report]() == {"marked": True}
    assert memory.types(before) == []
    memory.end()
    assert memory.data("TurnInterrupted")[0]["steps_kept"] == 0
    assert memory.events("StepDone", "StepPlanned", "SteerDelivered", "OutputSuperseded") == []


@pytest.mark.rule("E2", "C4")
def test_a_marked_turn_starts_no_call() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.stop()
    assert memory.call("a") == {"marked": True}
    memory.end()
    assert [data["outcome"] for data in memory.data("ToolSettled")] == ["not_run", "not_run"]


@pytest.mark.rule("E3")
def test_a_mark_beats_a_failure_of_the_same_turn() -> None:
    memory = Memory()
    memory.start()
    memory.stop()
    assert memory.fail() == {"marked": True}
    memory.end()
    assert memory.events("TurnFailed") == []


@pytest.mark.rule("E3", "E6")
def test_whoever_is_first_wins_and_a_late_stop_finds_nothing() -> None:
    memory = Memory()
    turn = memory.start()
    memory.answer()
    before = len(memory.log)
    decision = memory.do(c.Interrupt("r", turn=turn), ANA)
    assert decision.receipt == {"accepted": False, "joined": False, "turns": [], "note": "turn_over"}
    assert (memory.types(before), decision.audit) == ([], "turn_over")


@pytest.mark.rule("E5", "A7")
def test_a_stop_that_arrives_after_its_sender_s_limit_is_refused_whole() -> None:
    memory = Memory()
    memory.start()
    late = c.Interrupt("r", then=c.Then("i", "and this"), not_after_ms=memory.now_ms - 1)
    before = len(memory.log)
    with pytest.raises(Refused) as refused:
        memory.do(late, ANA)
    assert (refused.value.code, refused.value.data) == ("too_late", {"now_ms": memory.now_ms})
    assert memory.types(before) == []
    memory.do(c.Interrupt("r", not_after_ms=memory.now_ms + 7), ANA)  # the clock of these tests goes by sevens
    assert memory.types(before) == ["InterruptRequested"]


@pytest.mark.rule("E3", "A9")
def test_an_idle_stop_is_no_event_and_no_error() -> None:
    memory = Memory()
    decision = memory.do(c.Interrupt("r"), ANA)
    assert (decision.receipt, decision.events, decision.audit) == (IDLE, (), "idle")


@pytest.mark.rule("E3")
def test_a_stop_on_a_marked_turn_joins_and_its_choice_is_ignored() -> None:
    memory = Memory()
    turn = memory.start()
    waiting = memory.submit("later")
    memory.stop(ANA, queue="hold")
    before = len(memory.log)
    joined = memory.do(c.Interrupt("r", queue="clear"), BEN)
    assert joined.receipt == {"accepted": False, "joined": True, "turns": [turn], "note": "joined"}
    assert (memory.types(before), joined.audit) == ([], "joined")
    memory.end()
    assert memory.inbox == [f"-{waiting}"]
    assert len(memory.events("TurnInterrupted")) == 1
    assert memory.events("TurnInterrupted")[0].actor == ANA


@pytest.mark.rule("E5")
def test_a_stop_of_a_turn_that_is_over_leaves_the_next_one_alone() -> None:
    memory = Memory()
    old = memory.start()
    memory.answer()
    memory.start("next")
    assert memory.stop(turn=old)["note"] == "turn_over"
    assert memory.turn.mark is None
    assert memory.stop(turn=memory.turn.id)["accepted"]


@pytest.mark.rule("E10")
def test_after_a_hundred_stops_the_next_submit_runs() -> None:
    memory = Memory()
    held = memory.submit("set aside")
    memory.stop(queue="hold")
    for number in range(100):
        memory.start(f"{number}")
        assert memory.stop(queue="run")["accepted"]
        memory.end()
    memory.start("still here")
    memory.answer()
    assert len(memory.events("TurnInterrupted")) == 100
    assert memory.inbox == [f"-{held}"]
    assert memory.state.requests == {}


@pytest.mark.rule("E11")
@pytest.mark.parametrize(("queue", "human"), [(None, "held"), ("hold", "held"), ("clear", "cleared"), ("run", "kept")])
def test_before_a_worker_has_claimed_anything_the_queue_is_held_unless_the_request_says_run(
    queue: Any, human: str
) -> None:
    memory = Memory(settings={"stop_queue": "run"})
    entry, machine, steer = memory.submit("one"), memory.submit("m", BOT), memory.steer("left")
    receipt = memory.stop(queue=queue)
    assert receipt == {"accepted": True, "joined": False, "turns": [], "note": "not_started"}
    asked = memory.data("InterruptRequested")[0]
    assert (asked["turns"], asked["phases"], asked["queue"]) == ([], {}, queue or "hold")
    assert {data["request"] for data in memory.data("InputHeld")} <= {asked["request"]}
    inbox = {"held": [f"-{entry}"], "cleared": [], "kept": [entry]}[human]
    steers = {"held": [f"-{steer}"], "cleared": [], "kept": [steer]}[human]
    assert (memory.inbox, memory.steers) == (inbox, steers)
    cancelled = [(data["input"], data["reason"]) for data in memory.data("InputCancelled")]
    assert (machine, "turn_interrupted") in cancelled
    assert memory.claim()["claimed"] == (human == "kept")
    check(memory)


@pytest.mark.rule("E11", "E12")
def test_before_anything_started_the_text_sent_with_the_stop_runs_first() -> None:
    memory = Memory()
    one = memory.submit("one")
    memory.stop(then=c.Then("then", "do X instead"))
    assert memory.inbox == ["then", f"-{one}"]
    two = memory.submit("two")
    memory.stop(then=c.Then(two))
    assert memory.inbox == [two, "-then", f"-{one}"]
    memory.stop(then=c.Then(one))
    assert memory.inbox == [one, f"-{two}", "-then"]
    check(memory)


@pytest.mark.rule("E12")
@pytest.mark.parametrize(("setting", "queue", "then"), [
    ("run", None, "kept"), ("hold", None, "held"), ("clear", None, "cleared"), ("hold", "run", "kept"),
])  # fmt: skip
def test_a_session_s_setting_is_the_default_and_the_request_s_word_counts(setting: str, queue: Any, then: str) -> None:
    memory = Memory(settings={"stop_queue": setting})
    memory.start()
    waiting = memory.submit("later")
    memory.stop(queue=queue)
    memory.end()
    assert memory.inbox == {"kept": [waiting], "held": [f"-{waiting}"], "cleared": []}[then]


@pytest.mark.rule("E12")
@pytest.mark.parametrize("queue", ["run", "hold", "clear"])
def test_stop_and_send_runs_first_whatever_becomes_of_the_rest(queue: Any) -> None:
    memory = Memory()
    memory.start()
    waiting = memory.submit("later")
    receipt = memory.stop(queue=queue, then=c.Then("then", "do X instead"))
    assert receipt["input"] == "then"
    assert memory.types()[-2:] == ["InterruptRequested", "InputQueued"], "in one transaction"
    memory.end()
    memory.resume()
    assert memory.turn.opening.id == "then"
    assert memory.inbox == {"run": [waiting], "hold": [f"-{waiting}"], "clear": []}[queue]
    check(memory)


@pytest.mark.rule("E12")
@pytest.mark.parametrize("queue", ["run", "hold", "clear"])
def test_stop_and_run_a_waiting_one_first(queue: Any) -> None:
    memory = Memory()
    memory.start()
    one, two = memory.submit("one"), memory.submit("two")
    memory.stop(queue=queue, then=c.Then(two))
    memory.end()
    memory.resume()
    assert memory.turn.opening.id == two
    assert memory.inbox == {"run": [one], "hold": [f"-{one}"], "clear": []}[queue]


@pytest.mark.rule("E12")
def test_a_held_one_sent_with_the_stop_is_released_by_it() -> None:
    memory = Memory()
    held = memory.submit("one")
    memory.stop(queue="hold")
    memory.start("two")
    memory.stop(then=c.Then(held), queue="hold")
    assert memory.types()[-3:] == ["InterruptRequested", "InputChanged", "InputReleased"]
    memory.end()
    assert memory.inbox == [held]


@pytest.mark.rule("E12")
def test_what_is_sent_with_a_stop_is_admitted_beside_the_sixty_four() -> None:
    memory = Memory()
    memory.start()
    for _ in range(64):
        memory.submit()
    memory.stop(then=c.Then("then", "do X instead"))
    assert len(memory.inbox) == 65
    memory.end()
    memory.resume()
    assert memory.turn.opening.id == "then"


@pytest.mark.rule("E12", "E3")
def test_what_a_joined_stop_sends_runs_behind_what_the_first_one_sent() -> None:
    memory = Memory()
    memory.start()
    waiting = memory.submit("later")
    memory.stop(ANA, then=c.Then("first", "X"), queue="hold")
    joined = memory.do(c.Interrupt("r2", then=c.Then("second", "Y"), queue="clear"), BEN)
    assert (joined.receipt["joined"], joined.receipt["input"], joined.audit) == (True, "second", None)
    memory.end()
    assert memory.inbox == ["first", "second", f"-{waiting}"]
    check(memory)


@pytest.mark.rule("E12", "E3", "E5")
@pytest.mark.parametrize("over", [False, True])
def test_what_is_sent_with_a_stop_is_admitted_whatever_the_stop_found(over: bool) -> None:
    memory = Memory()
    old = memory.start()
    memory.answer()
    decision = memory.do(c.Interrupt("r", turn=old if over else None, then=c.Then("then", "X")), ANA)
    assert decision.receipt == {**IDLE, "note": "turn_over" if over else "idle", "input": "then"}
    assert decision.audit is None
    memory.resume()
    assert memory.turn.opening.id == "then"


@pytest.mark.rule("E12", "D1")
@pytest.mark.parametrize(
    ("then", "code"),
    [
        (c.Then("x", " "), "blank"), (c.Then("x", "y" * (1024 * 1024 + 1)), "too_large"),
        (c.Then("gone"), "input_not_found"),
    ],
)  # fmt: skip
def test_an_invalid_one_refuses_the_whole_request_before_anything_is_marked(then: c.Then, code: str) -> None:
    memory = Memory()
    memory.start()
    assert memory.refused(c.Interrupt("r", then=then)).code == code
    assert memory.turn.mark is None


@pytest.mark.rule("E2", "M")
def test_a_reason_has_a_limit() -> None:
    memory = Memory()
    memory.start()
    assert memory.refused(c.Interrupt("r", reason="x" * 2001)).code == "too_large"
    assert memory.stop(reason="x" * 2000)["accepted"]


@pytest.mark.rule("A5", "E8")
@pytest.mark.parametrize(
    ("kind", "cause"), [("person", "person"), ("token", "token"), ("agent", "token"), ("admin", "admin")]
)
def test_the_cause_is_who_asked(kind: Any, cause: str) -> None:
    memory = Memory()
    memory.start()
    memory.stop(Actor(kind, "x", "Kim"))
    memory.end()
    [terminal] = memory.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.actor.kind, terminal.actor.name) == (cause, kind, "Kim")


@pytest.mark.rule("E1")
def test_a_stop_of_one_loop_takes_its_delegates_and_no_other() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d", "e")
    child, sibling = memory.delegate("d"), memory.delegate("e")
    memory.at = sibling
    memory.resume()
    memory.at = child
    turn = memory.resume()
    memory.plan_delegates("d")
    memory.at = memory.delegate("d")
    below = memory.resume()
    assert memory.stop(loop=child)["turns"] == [below, turn], "those below end first"
    assert [loop.id for loop in memory.state.loops.values() if loop.turn and not loop.turn.mark] == [LOOP, sibling]
    check(memory)


@pytest.mark.rule("E3", "E9")
def test_only_one_of_worker_fence_and_sweep_writes_the_terminal() -> None:
    memory = Memory()
    turn = memory.start()
    epoch = memory.turn.epoch
    memory.stop()
    memory.end("fence", cause="worker_lost")
    late: list[c.Command] = [
        c.EndTurn(turn, epoch, "worker"),
        c.EndTurn(turn, epoch, "sweep", "worker_lost"),
        c.Fail(turn, epoch, "x", "y"),
    ]
    assert [memory.refused(command, WORKER).code for command in late] == ["stale"] * 3
    assert len(memory.events("TurnInterrupted")) == 1
    assert memory.events("TurnInterrupted")[0].data["ended_by"] == "fence"
    assert SYSTEM.kind == memory.log[-1].actor.kind


@pytest.mark.rule("E3", "E12")
@pytest.mark.parametrize("waiting", [False, True])
def test_what_comes_with_a_second_stop_stands_behind_what_came_with_the_first_wherever_that_is(waiting: bool) -> None:
    memory = Memory()
    memory.start()
    before = memory.submit("before")
    after = memory.submit("after")
    memory.stop(then=c.Then("x", "first"))
    memory.do(c.EditInput(before, position=0), BEN)
    assert memory.inbox == [before, "x", after]
    memory.stop(BEN, then=c.Then(before) if waiting else c.Then("y", "second"))
    assert memory.inbox == (["x", before, after] if waiting else [before, "x", "y", after])
    memory.end()
    check(memory)
