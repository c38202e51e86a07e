"""Handing a turn over (J4): the same turn, nothing repeated, whoever goes on with it."""

import pytest

from sessions_app.engine import commands as c
from tests.engine.harness import ANA, LOOP, WORKER, Memory
from tests.engine.invariants import check


def given_back(at: str = "safe_point") -> Memory:
    """A turn with one step behind it that nobody has."""
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.hand_over(at)
    return memory


@pytest.mark.rule("J4", "C1")
def test_a_turn_that_was_given_back_is_the_same_turn_for_whoever_claims_it() -> None:
    memory = given_back()
    turn, epoch = memory.turn.id, memory.turn.epoch
    assert memory.state.runnable()
    claim = memory.do(c.Claim(LOOP, "t-new", "w2"), WORKER).receipt
    assert (claim["turn"], claim["epoch"], claim["step"], claim["resumed"]) == (turn, epoch + 1, 2, True)
    resumed = memory.events("TurnResumed")[-1]
    assert (resumed.turn, resumed.data) == (turn, {"worker": "w2", "epoch": epoch + 1})
    memory.begin()
    memory.answer("done")
    assert len(memory.events("TurnStarted")) == 1
    check(memory)


@pytest.mark.rule("J4", "C1")
def test_who_gave_a_turn_back_can_say_nothing_more_of_it() -> None:
    memory = given_back()
    turn = memory.turn
    for command in (
        c.BeginStep(turn.id, turn.epoch),
        c.FinishModel(turn.id, turn.epoch, 2, "late"),
        c.EndTurn(turn.id, turn.epoch, "sweep", "worker_lost"),
        c.HandOver(turn.id, turn.epoch, "gate"),
    ):
        assert memory.refused(command, WORKER).code == "stale"
    memory.claim()
    assert memory.refused(c.BeginStep(turn.id, turn.epoch), WORKER).code == "stale"


@pytest.mark.rule("J4")
def test_a_worker_without_the_workspace_does_not_get_the_turn() -> None:
    memory = given_back()
    assert memory.do(c.Claim(LOOP, "t", "w2", resume=False), WORKER).receipt == {"claimed": False}
    assert memory.turn.given_back()


@pytest.mark.rule("J4", "E2")
def test_a_turn_that_nobody_has_is_ended_by_the_stop_itself() -> None:
    memory = given_back()
    waiting = memory.submit("next")
    before = len(memory.log)
    receipt = memory.stop(queue="hold", reason="enough")
    assert (receipt["accepted"], receipt["note"]) == (True, None)
    assert memory.types(before) == ["InterruptRequested", "TurnInterrupted", "InputHeld", "LoopIdle", "SessionIdle"]
    ended = memory.data("TurnInterrupted")[-1]
    assert (ended["ended_by"], ended["cause"], ended["phase"], ended["reason"]) == (
        "request", "person", "waiting", "enough",
    )  # fmt: skip
    assert ended["inputs"]["held"] == [waiting]
    assert memory.events("TurnInterrupted")[-1].actor == ANA
    assert memory.events("TurnInterrupted")[-1].cause == memory.events("InterruptRequested")[-1].cause
    check(memory)


@pytest.mark.rule("J4", "E2", "E12")
def test_stop_and_send_to_a_turn_that_nobody_has_runs_next() -> None:
    memory = given_back()
    waiting = memory.submit("later")
    memory.stop(queue="hold", then=c.Then("i-then", "first this"))
    assert memory.inbox == ["i-then", f"-{waiting}"]
    check(memory)


@pytest.mark.rule("J4", "K1")
def test_a_close_ends_a_turn_that_nobody_has_at_once() -> None:
    memory = given_back()
    memory.submit("next")
    assert memory.close() == {"closed": True}
    assert memory.types()[-2:] == ["SessionIdle", "SessionClosed"]
    assert memory.data("TurnInterrupted")[-1]["cause"] == "closing"
    check(memory)


@pytest.mark.rule("J4", "E3")
def test_a_stop_beats_a_hand_over_and_a_hand_over_before_it_leaves_nothing_to_wait_for() -> None:
    memory = Memory()
    memory.start()
    memory.stop()
    assert memory.hand_over() == {"marked": True}
    memory.end()
    check(memory)


@pytest.mark.rule("J4", "C4")
def test_a_running_call_is_never_handed_over() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    assert memory.refused(c.HandOver(memory.turn.id, memory.turn.epoch, "call"), WORKER).code == "invalid"
    memory.settle("a")
    memory.hand_over("call")
    memory.claim()
    memory.call("b")
    memory.settle("b")
    assert [event.data["call"] for event in memory.events("ToolStarted")] == ["a", "b"]
    check(memory)


@pytest.mark.rule("J4", "H1")
def test_an_open_gate_moves_with_its_turn_and_is_answered_while_nobody_has_it() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a")
    gate = memory.ask("a")
    memory.hand_over("gate")
    memory.resolve(gate, "allow")
    claim = memory.claim()
    assert claim["delegated"] == []
    assert memory.call("a", c.Effect("command", "git push origin"))["outcome"] == "started"
    memory.settle("a")
    assert [event.type for event in memory.events("GateOpened", "GateResolved", "GateClosed")] == [
        "GateOpened", "GateResolved",
    ]  # fmt: skip
    check(memory)


@pytest.mark.rule("J4", "B7")
def test_time_without_a_worker_is_no_work() -> None:
    memory = Memory()
    memory.start()
    memory.hand_over()
    memory.now_ms += 100 * 3600 * 1000
    memory.claim()
    assert "outcome" not in memory.begin()
    memory.plan("a")
    memory.mode("ask")
    check(memory)


@pytest.mark.rule("J4", "B7", "H1")
def test_a_gate_that_is_answered_without_a_worker_is_waited_at_until_one_comes() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a")
    gate = memory.ask("a")
    memory.hand_over("gate")
    memory.resolve(gate)
    memory.now_ms += 100 * 3600 * 1000
    claim = memory.claim()
    assert claim["left_ms"] > 3 * 3600 * 1000


@pytest.mark.rule("J4", "B7")
def test_a_dropped_model_call_counts_against_the_budget() -> None:
    memory = Memory()
    memory.start()
    memory.hand_over("model", usage={"input_tokens": 7})
    assert memory.turn.usage == {"input_tokens": 7}
    memory.claim()
    memory.begin()
    memory.answer("asked again")
    assert memory.data("TurnDone")[-1]["usage"] == {"input_tokens": 7, "output_tokens": 1}


@pytest.mark.rule("J4", "G3")
def test_a_parent_is_given_back_while_its_child_works_and_ends_with_it() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate()
    memory.hand_over("delegate")
    memory.at = child
    memory.resume()
    memory.at = LOOP
    receipt = memory.stop()
    assert len(receipt["turns"]) == 2
    assert memory.turn.mark is not None
    memory.at = child
    memory.end()
    assert [(event.loop, event.data["ended_by"]) for event in memory.events("TurnInterrupted")] == [
        (child, "worker"), (LOOP, "request"),
    ]  # fmt: skip
    assert memory.types()[-2:] == ["LoopIdle", "SessionIdle"]
    check(memory)


@pytest.mark.rule("J4", "G3")
def test_a_childs_answer_settles_the_call_of_a_parent_that_nobody_has() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate()
    memory.hand_over("delegate")
    memory.at = child
    memory.resume()
    memory.answer("seven")
    memory.at = LOOP
    assert memory.claim()["step"] == 2
    memory.begin()
    memory.answer("There are seven.")
    check(memory)


def given_back_chain() -> tuple[Memory, list[str]]:
    """Three agents above each other, none of whose turns anybody has."""
    memory = Memory()
    memory.start()
    loops = [LOOP]
    for _ in range(2):
        memory.plan_delegates("d")
        child = memory.delegate("d")
        memory.hand_over("delegate")
        memory.at = child
        memory.resume()
        loops.append(child)
    memory.hand_over()
    return memory, loops


@pytest.mark.rule("E2", "J4", "G3")
def test_a_stop_ends_a_whole_family_that_nobody_has_from_below() -> None:
    memory, loops = given_back_chain()
    memory.at = LOOP
    assert len(memory.stop()["turns"]) == 3
    assert [event.loop for event in memory.events("TurnInterrupted")] == loops[::-1]
    assert {each["ended_by"] for each in memory.data("TurnInterrupted")} == {"request"}
    assert memory.types()[-1] == "SessionIdle"
    check(memory)


@pytest.mark.rule("K1", "J4", "G3")
def test_a_close_ends_a_whole_family_that_nobody_has() -> None:
    memory, _ = given_back_chain()
    assert memory.close() == {"closed": True}
    assert memory.types()[-2:] == ["SessionIdle", "SessionClosed"]
    check(memory)


@pytest.mark.rule("J4", "L2")
def test_the_next_model_call_has_the_number_it_was_given_back_with_and_the_step_after_it_begins_anew() -> None:
    memory = Memory()
    memory.start()
    memory.hand_over("model", attempt=4)
    assert memory.claim()["attempt"] == 4
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.hand_over()
    assert memory.claim()["attempt"] == 1


@pytest.mark.rule("B7", "G3")
def test_what_a_delegate_waits_for_is_no_work_of_its_parent_and_what_it_works_is() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate()
    memory.now_ms += 3 * 3600 * 1000  # nobody takes it
    memory.at = child
    memory.resume()
    memory.mode("ask")
    memory.plan("a")
    gate = memory.ask("a")
    memory.now_ms += 5 * 3600 * 1000  # nobody answers
    memory.resolve(gate)
    memory.call("a", c.Effect("command", "git push origin"))
    memory.now_ms += 2 * 3600 * 1000  # it works
    memory.settle("a")
    assert "outcome" not in memory.begin()
    memory.answer("done")
    memory.at = LOOP
    left_ms = memory.begin()["left_ms"]
    assert 1.9 * 3600 * 1000 < left_ms < 2 * 3600 * 1000
