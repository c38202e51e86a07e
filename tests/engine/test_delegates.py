"""Delegates (G): a call that makes a child loop, and how the two of them end."""

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.actors import Actor
from sessions_app.engine.transcript import Transcript
from tests.engine.harness import ANA, BEN, BOT, LOOP, WORKER, Memory
from tests.engine.invariants import check

SURVIVOR = {"ended": [], "surviving": [{"pid": 7, "command": "sleep"}], "background": []}


def family(depth: int = 1) -> tuple[Memory, list[str]]:
    """A chain of delegates, each at work; its loops from the top."""
    memory = Memory()
    memory.start()
    loops = [LOOP]
    for _ in range(depth):
        memory.plan_delegates("d")
        memory.at = memory.delegate("d")
        loops.append(memory.at)
        memory.resume()
    return memory, loops


def closing_types(memory: Memory, after: int) -> list[tuple[str, str | None]]:
    return [(event.type, event.loop) for event in memory.log[after:]]


@pytest.mark.rule("G1", "C2")
def test_a_delegating_call_makes_a_child_in_the_same_log() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    before = len(memory.log)
    child = memory.delegate("d", "count the files")
    assert memory.types(before) == ["ToolStarted", "LoopStarted", "InputQueued"]
    started = memory.data("LoopStarted")[-1]
    assert (started["parent"], started["call"], started["task"]) == (LOOP, "d", "count the files")
    queued = memory.events("InputQueued")[-1]
    assert (queued.loop, queued.data["agency"], queued.actor.kind, queued.actor.id) == (child, "machine", "agent", LOOP)
    assert memory.turn.calls is not None
    assert memory.turn.calls[0].child == child
    assert memory.state.claimable(memory.state.loops[child])


@pytest.mark.rule("G3")
def test_a_childs_answer_is_its_parents_result_in_one_transaction() -> None:
    memory, (_, child) = family()
    before = len(memory.log)
    memory.answer("seven files")
    assert closing_types(memory, before) == [
        ("StepDone", child), ("TurnDone", child), ("LoopIdle", child), ("LoopClosed", child),
        ("ToolSettled", LOOP), ("StepDone", LOOP),
    ]  # fmt: skip
    assert memory.data("ToolSettled")[-1]["output"] == "seven files"
    memory.at = LOOP
    memory.begin()
    transcript = Transcript()
    transcript.feed([event for event in memory.log if event.loop in (None, LOOP)])
    assert transcript.entries[-1].text == "seven files"
    memory.answer("There are seven.")
    assert memory.types()[-2:] == ["LoopIdle", "SessionIdle"]
    check(memory)


@pytest.mark.rule("G3")
def test_a_childs_loop_takes_nothing_any_more_once_it_has_closed() -> None:
    memory, (_, child) = family()
    memory.answer("done")
    over = memory.refused(c.Submit("x", "more", child))
    assert (over.code, over.data) == ("loop_closed", {"loop": child})
    assert memory.refused(c.SendSteer("x", "more", loop=child)).code == "loop_closed"


@pytest.mark.rule("G3", "D8")
def test_what_waits_in_a_child_goes_back_when_it_closes_but_human_inputs_run_first() -> None:
    memory, (_, child) = family()
    human = memory.submit("and the folders?")
    memory.submit("machine", BOT)
    memory.answer("seven files")
    assert memory.loop.inbox[0].id == human
    assert memory.types()[-1] == "LoopIdle"
    memory.resume()
    late = memory.steer("too late", who=BEN)
    memory.stop(BEN, loop=child)
    memory.end()
    assert [event.data["reason"] for event in memory.events("InputCancelled")] == ["loop_closed"]
    withdrawn = memory.data("SteerWithdrawn")[-1]
    assert (withdrawn["steer"], withdrawn["reason"], withdrawn["text"]) == (late, "loop_closed", "too late")
    assert memory.types()[-3:] == ["LoopClosed", "ToolSettled", "StepDone"]
    check(memory)


@pytest.mark.rule("G3", "E1")
def test_a_person_stops_a_child_and_its_parent_goes_on() -> None:
    memory, (_, child) = family()
    receipt = memory.stop(BEN, loop=child, reason="wrong way")
    assert receipt["turns"] == [memory.turn.id]
    memory.end()
    settled = memory.data("ToolSettled")[-1]
    assert settled["outcome"] == "interrupted"
    assert "Ben" in settled["output"]
    assert "wrong way" in settled["output"]
    memory.at = LOOP
    assert memory.turn.mark is None
    memory.begin()
    memory.answer("Then without.")
    check(memory)


@pytest.mark.rule("E1", "G3")
def test_a_stop_of_a_subtree_leaves_siblings_and_ancestors_untouched() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b")
    first, second = memory.delegate("a"), memory.delegate("b")
    turns = {}
    for loop in (first, second):
        memory.at = loop
        memory.resume()
        memory.plan_delegates("d")
        turns[loop] = memory.turn.id
    memory.at = first
    memory.at = grandchild = memory.delegate("d")
    memory.resume()
    below = memory.turn.id
    receipt = memory.stop(loop=first)
    assert receipt["turns"] == [below, turns[first]]
    memory.end()
    memory.at = first
    memory.end()
    assert memory.closed(grandchild)
    assert memory.closed(first)
    for loop in (LOOP, second):
        turn = memory.state.loops[loop].turn
        assert turn is not None
        assert turn.mark is None
    check(memory)


@pytest.mark.rule("G3", "E8")
def test_children_end_before_their_parents_whoever_reports_first() -> None:
    memory, (_, child) = family()
    memory.stop()
    memory.at = LOOP
    before = len(memory.log)
    assert memory.end()["outcome"] == "waiting"
    assert len(memory.log) == before
    memory.at = child
    memory.end()
    assert memory.data("ToolSettled")[-1]["outcome"] == "interrupted"
    assert "StepDone" not in memory.types(before)
    memory.at = LOOP
    assert memory.end()["outcome"] == "interrupted"
    assert [event.loop for event in memory.events("TurnInterrupted")] == [child, LOOP]
    assert {each["cause"] for each in memory.data("TurnInterrupted")} == {"person"}
    assert memory.types()[-1] == "SessionIdle"
    check(memory)


@pytest.mark.rule("G3", "E2")
def test_nothing_of_a_marked_parent_starts_a_child() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b")
    child = memory.delegate("a")
    memory.stop()
    memory.at = child
    assert memory.claim() == {"claimed": False}
    memory.at = LOOP
    memory.end()
    assert memory.closed(child)
    assert memory.data("InputCancelled")[-1]["reason"] == "loop_closed"
    assert [each["outcome"] for each in memory.data("ToolSettled")] == ["interrupted", "not_run"]
    check(memory)


@pytest.mark.rule("G3")
@pytest.mark.parametrize("how", ["failed", "lost", "budget"])
def test_any_end_of_a_parent_takes_its_children_along_first(how: str) -> None:
    memory, (_, child) = family()

    def end() -> str:
        memory.at = LOOP
        turn = memory.turn
        if how == "failed":
            command: c.Command = c.Fail(turn.id, turn.epoch, "internal", "no", request="r-system")
        else:
            cause = "worker_lost" if how == "lost" else "budget"
            command = c.EndTurn(turn.id, turn.epoch, "sweep", cause, which="wall_s", request="r-system")  # type: ignore[arg-type]
        return str(memory.do(command, WORKER).receipt["outcome"])

    assert end() == "waiting"
    assert end() == "waiting"
    assert len(memory.events("InterruptRequested")) == 1
    memory.at = child
    memory.end()
    assert memory.data("TurnInterrupted")[-1]["cause"] == "parent"
    assert end() in ("failed", "interrupted")
    assert memory.state.loops[LOOP].turn is None
    check(memory)


@pytest.mark.rule("G3")
def test_a_parent_that_is_about_to_end_keeps_no_child_for_its_waiting_messages() -> None:
    memory, (_, child) = family()
    memory.submit("and then?")
    memory.at = LOOP
    memory.do(c.Fail(memory.turn.id, memory.turn.epoch, "internal", "no", request="r-system"), WORKER)
    memory.at = child
    memory.end()
    assert memory.closed(child)
    assert memory.data("InputCancelled")[-1]["reason"] == "loop_closed"


@pytest.mark.rule("G3", "J2")
def test_a_lost_child_is_lost_and_its_parent_goes_on() -> None:
    memory, _ = family()
    memory.end("sweep", cause="worker_lost")
    memory.at = LOOP
    assert memory.data("ToolSettled")[-1]["outcome"] == "lost"
    assert memory.begin()["step"] == 2


@pytest.mark.rule("G3", "B7")
def test_a_failed_child_and_one_with_a_spent_budget_are_errors_for_their_parent() -> None:
    memory, _ = family()
    memory.fail("provider_error", "no such model")
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "provider_error")
    memory, _ = family()
    memory.end(cause="budget", which="tokens")
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "budget")


@pytest.mark.rule("E11", "G3")
def test_a_child_that_is_stopped_before_it_began_closes_and_its_parent_goes_on() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate()
    receipt = memory.stop(loop=child)
    assert (receipt["note"], receipt["turns"]) == ("not_started", [])
    assert memory.closed(child)
    assert memory.data("ToolSettled")[-1]["outcome"] == "interrupted"
    memory.begin()
    check(memory)


@pytest.mark.rule("E12", "G3", "G5")
def test_stop_and_send_to_a_child_runs_there_before_its_call_is_settled() -> None:
    memory, (_, child) = family()
    memory.stop(loop=child, queue="hold", then=c.Then("i-then", "the other folder"))
    memory.end()
    assert not memory.events("ToolSettled")
    memory.resume()
    assert memory.turn.opening.id == "i-then"
    memory.answer("two files")
    assert memory.data("ToolSettled")[-1]["output"] == "two files"
    check(memory)


@pytest.mark.rule("G4")
def test_depth_is_bounded_and_the_call_over_it_is_a_typed_error() -> None:
    memory, _ = family(3)
    memory.plan_delegates("d")
    assert memory.delegate() == "settled"
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "delegate_limit")
    assert memory.begin()["step"] == 2
    check(memory)


@pytest.mark.rule("G4", "I1")
def test_the_number_is_bounded_by_a_setting_that_children_inherit() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"delegates": 1, "depth": 1}), ANA)
    memory.start()
    memory.plan_delegates("a", "b")
    memory.at = memory.delegate("a")
    memory.resume()
    memory.plan_delegates("c")
    assert memory.delegate("c") == "settled"
    memory.begin()
    memory.answer("done")
    memory.at = LOOP
    assert memory.delegate("b") == "settled"
    assert [each.get("code") for each in memory.data("ToolSettled")] == ["delegate_limit", None, "delegate_limit"]


@pytest.mark.rule("C2", "G1")
def test_delegates_run_beside_each_other_and_nothing_else_does() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b", "c")
    memory.delegate("a")
    memory.delegate("b")
    turn = memory.turn
    assert memory.refused(c.StartTool(turn.id, turn.epoch, 1, "c", {}), WORKER).code == "stale"


@pytest.mark.rule("D5", "G1")
def test_an_urgent_steer_leaves_started_delegates_alone() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b")
    child = memory.delegate("a")
    memory.steer("stop delegating", urgent=True)
    assert memory.delegate("b") == "skipped"
    assert memory.data("ToolSettled")[-1]["outcome"] == "not_run"
    assert not memory.events("SteerDelivered")
    memory.at = child
    memory.resume()
    memory.answer("seven")
    memory.at = LOOP
    assert memory.begin()["step"] == 2
    assert memory.types()[-1] == "SteerDelivered"
    check(memory)


@pytest.mark.rule("B7")
def test_what_children_use_counts_for_their_parents() -> None:
    memory, _ = family()
    memory.plan("x", usage={"output_tokens": 30})
    memory.call("x")
    memory.settle("x")
    memory.begin()
    memory.answer("much", usage={"output_tokens": 30}, cost=0.5)
    memory.at = LOOP
    assert memory.turn.usage == {"output_tokens": 61}
    assert memory.turn.unpriced
    assert memory.turn.cost == 0.5, "what is known of it counts"


@pytest.mark.rule("B7")
def test_a_child_ends_when_its_parents_budget_is_used_up() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"tokens": 50}), ANA)
    memory.start()
    memory.plan_delegates("d", usage={"output_tokens": 45})
    memory.at = memory.delegate()
    memory.resume()
    memory.plan("x", usage={"output_tokens": 6})
    memory.call("x")
    memory.settle("x")
    assert memory.begin()["outcome"] == "interrupted"
    assert memory.data("TurnInterrupted")[-1]["which"] == "tokens"
    memory.at = LOOP
    assert memory.begin()["outcome"] == "interrupted"


@pytest.mark.rule("E7", "G3")
def test_what_survives_in_a_child_is_named_by_its_parent_and_holds_what_waits_there() -> None:
    memory, (_, child) = family()
    memory.plan("x")
    memory.call("x")
    memory.settle("x", processes=SURVIVOR)
    turn = memory.turn.id
    memory.begin()
    memory.answer("done")
    memory.at = LOOP
    waiting = memory.submit("next")
    memory.begin()
    memory.answer("all done")
    done = memory.data("TurnDone")[-1]
    assert (done["note"], done["processes"]["surviving"]) == ("held_processes", SURVIVOR["surviving"])
    assert memory.inbox == [f"-{waiting}"]
    memory.do(c.SurvivorsEnded(turn, child, "x", SURVIVOR["surviving"]), WORKER)
    check(memory)


@pytest.mark.rule("E7", "G3")
def test_a_childs_survivor_that_has_ended_holds_nothing_in_its_parent() -> None:
    memory, (_, child) = family()
    memory.plan("x")
    memory.call("x")
    memory.settle("x", processes=SURVIVOR)
    turn = memory.turn.id
    memory.begin()
    memory.answer("done")
    memory.do(c.SurvivorsEnded(turn, child, "x", SURVIVOR["surviving"]), WORKER)
    memory.at = LOOP
    assert memory.turn.survivors == ()


@pytest.mark.rule("E7", "J6", "G3")
@pytest.mark.parametrize("end", ["answer", "stop"])
def test_what_may_run_on_after_a_childs_worker_holds_what_waits_in_its_parent(end: str) -> None:
    memory, _ = family()
    memory.plan("x")
    memory.call("x")
    memory.end("sweep", cause="worker_lost", settlements={"x": c.Settlement("lost")}, unknown=True)
    memory.at = LOOP
    waiting = memory.submit("next")
    memory.begin()
    if end == "answer":
        memory.answer("done all the same")
    else:
        memory.stop()
        memory.end()
    ended = memory.data("TurnDone" if end == "answer" else "TurnInterrupted")[-1]
    assert (ended["note"], ended["processes"]["unknown"]) == ("held_processes", True)
    assert memory.inbox == [f"-{waiting}"]
    check(memory)


@pytest.mark.rule("K1", "G3")
def test_closing_the_session_ends_a_family_from_below() -> None:
    memory, loops = family(2)
    memory.submit("one more")
    assert memory.close() == {"closed": False}
    for loop in reversed(loops):
        memory.at = loop
        memory.end()
    assert memory.types()[-2:] == ["SessionIdle", "SessionClosed"]
    assert {each["cause"] for each in memory.data("TurnInterrupted")} == {"closing"}
    assert memory.data("InputCancelled")[-1]["reason"] == "session_closed"
    check(memory)


@pytest.mark.rule("E5")
def test_a_stop_that_names_a_parents_turn_takes_its_subtree_and_one_that_names_a_childs_only_that() -> None:
    memory, (_, child) = family()
    above, below = memory.state.loops[LOOP].turn, memory.turn
    assert above is not None
    assert memory.stop(turn=below.id)["turns"] == [below.id]
    memory, (_, child) = family()
    above, below = memory.state.loops[LOOP].turn, memory.turn
    assert above is not None
    assert memory.stop(turn=above.id)["turns"] == [below.id, above.id]
    assert memory.stop(turn=above.id, loop=child)["note"] == "turn_over"


@pytest.mark.rule("G5", "I1")
def test_people_steer_and_change_one_delegate() -> None:
    memory, (_, child) = family()
    memory.steer("left")
    memory.mode("plan")
    assert memory.loop.mode == "plan"
    assert memory.state.loops[LOOP].mode == "auto"
    memory.plan("x")
    memory.call("x")
    memory.settle("x")
    memory.begin()
    assert memory.events("SteerDelivered")[-1].loop == child


@pytest.mark.rule("G1", "I1")
def test_a_child_has_at_most_the_mode_of_its_parent() -> None:
    memory = Memory()
    memory.mode("plan")
    memory.start()
    memory.plan_delegates("d")
    memory.mode("auto")
    child = memory.delegate()
    assert memory.state.loops[child].mode == "plan"


@pytest.mark.rule("G3")
@pytest.mark.parametrize("promoted", [False, True])
def test_a_child_whose_task_is_taken_back_closes_and_its_parent_goes_on(promoted: bool) -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate()
    task = memory.state.loops[child].inbox[0].id
    memory.do(c.EditInput(task, promote="urgent", steer="s") if promoted else c.RetractInput(task), BEN)
    assert memory.state.loops[child].status == "closed"
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], "Ben" in settled["output"]) == ("interrupted", True)
    assert [event.data["steer"] for event in memory.events("SteerWithdrawn")] == (["s"] if promoted else [])
    assert memory.begin()["step"] == 2
    check(memory)


@pytest.mark.rule("G3", "B4")
def test_a_child_whose_last_message_is_taken_back_has_answered_already() -> None:
    memory, (_, child) = family()
    memory.submit("and the folders?")
    more = memory.submit("and the links?")
    memory.answer("seven files")
    memory.resume()
    memory.answer("two folders")
    memory.do(c.RetractInput(more), ANA)
    assert memory.state.loops[child].status == "closed"
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["output"]) == ("ok", "two folders")
    check(memory)


@pytest.mark.rule("G3", "B4")
def test_a_child_that_was_stopped_after_its_answer_has_none() -> None:
    memory, _ = family()
    memory.submit("and the folders?")
    memory.answer("seven files")
    memory.resume()
    memory.stop(loop=memory.at)
    more = memory.submit("and the links?")
    memory.end()
    memory.do(c.RetractInput(more), ANA)
    assert memory.data("ToolSettled")[-1]["outcome"] == "interrupted"
    check(memory)


@pytest.mark.rule("G3", "J4")
def test_a_parent_that_ends_closes_each_loop_below_a_turn_that_nobody_has_once() -> None:
    memory, (_, middle) = family()
    memory.plan_delegates("a", "b")
    memory.delegate("a")
    memory.delegate("b")
    memory.hand_over("delegate")
    memory.at = LOOP
    command = c.Fail(memory.turn.id, memory.turn.epoch, "internal", "no", request="r-system")
    assert memory.do(command, WORKER).receipt["outcome"] == "failed"
    closed = [event.loop for event in memory.events("LoopClosed")]
    assert len(closed) == len(set(closed)) == 3
    assert closed[-1] == middle
    check(memory)


@pytest.mark.rule("G3", "C4")
def test_only_its_child_settles_a_delegating_call() -> None:
    memory, (_, child) = family()
    memory.at = LOOP
    turn = memory.turn
    forged = c.SettleTool(turn.id, turn.epoch, turn.step, "d", c.Settlement("ok", "forged"))
    assert memory.refused(forged, WORKER).code == "invalid"
    memory.stop()
    memory.at = child
    memory.do(c.EndTurn(memory.turn.id, memory.turn.epoch, "worker"), WORKER)
    memory.at = LOOP
    memory.end(settlements={"d": c.Settlement("ok", "forged")})
    assert [each["outcome"] for each in memory.data("ToolSettled")] == ["interrupted"]
    memory.start()
    memory.plan_delegates("d")
    memory.delegate("d")
    memory.end(cause="worker_lost", settlements={"d": c.Settlement("ok", "forged")})
    assert [each["outcome"] for each in memory.data("ToolSettled")] == ["interrupted", "interrupted"]


@pytest.mark.rule("G3", "B9")
def test_a_failed_childs_task_cannot_be_tried_again_in_a_loop_that_has_closed() -> None:
    memory, (_, child) = family()
    memory.fail()
    assert memory.state.loops[child].status == "closed"
    failed = memory.events("TurnFailed")[-1].loop
    entry = memory.events("InputQueued")[-1].data["input"]
    assert (failed, memory.refused(c.Retry(entry, "again")).code) == (child, "loop_closed")


@pytest.mark.rule("E11", "E12", "G3")
@pytest.mark.parametrize("queue", ["run", "hold"])
def test_a_stop_between_a_childs_turns_lets_its_messages_run_if_it_says_so(queue: str) -> None:
    memory, (_, child) = family()
    more = memory.submit("and the folders?")
    memory.answer("seven files")
    assert memory.stop(loop=child, queue=queue)["note"] == "not_started"
    if queue == "run":
        assert memory.inbox == [more]
        assert not memory.events("ToolSettled")
    else:
        assert memory.loop.status == "closed"
        assert memory.data("InputCancelled")[-1]["reason"] == "loop_closed"
        assert memory.data("ToolSettled")[-1]["outcome"] == "interrupted"
    check(memory)


@pytest.mark.rule("E3", "E12", "G3")
def test_what_joins_a_stop_of_a_family_runs_first_in_the_loop_it_is_sent_to() -> None:
    memory, (_, child) = family()
    memory.stop(BEN, loop=child)
    memory.at = LOOP
    waiting = memory.submit("wait for me")
    memory.stop(BEN, queue="hold")
    assert memory.stop(then=c.Then(waiting))["joined"]
    memory.at = child
    memory.end()
    memory.at = LOOP
    memory.end()
    assert memory.inbox == [waiting]
    check(memory)


@pytest.mark.rule("E5", "E12", "G5")
def test_stop_and_send_to_a_named_turn_reaches_the_agent_whose_turn_it_is() -> None:
    memory, (_, child) = family()
    memory.stop(turn=memory.turn.id, then=c.Then("i-then", "the other folder"))
    assert [entry.id for entry in memory.state.loops[child].inbox] == ["i-then"]


@pytest.mark.rule("E5", "G3")
def test_a_stop_of_a_delegates_turn_that_has_just_ended_says_so() -> None:
    memory, (_, child) = family()
    turn = memory.turn.id
    memory.answer("done")
    assert memory.stop(loop=child, turn=turn)["note"] == "turn_over"


@pytest.mark.rule("E12", "G3")
def test_what_a_program_sends_with_its_stop_of_a_delegate_runs_first_too() -> None:
    memory, (_, child) = family()
    memory.stop(BOT, loop=child, then=c.Then("i-then", "the other folder"))
    memory.end()
    memory.resume()
    assert memory.turn.opening.id == "i-then"


@pytest.mark.rule("G4")
def test_the_number_of_delegates_is_that_of_the_whole_family() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"delegates": 2}), ANA)
    memory.start()
    memory.plan_delegates("a", "b")
    memory.at = memory.delegate("a")
    memory.resume()
    memory.plan_delegates("c")
    memory.at = memory.delegate("c")
    memory.at = LOOP
    assert memory.delegate("b") == "settled"
    assert memory.data("ToolSettled")[-1]["code"] == "delegate_limit"


@pytest.mark.rule("A5", "G3")
def test_what_an_idle_delegate_held_goes_back_as_the_act_of_who_stopped_its_parent() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.delegate()
    memory.stop(BEN)
    memory.end()
    assert memory.events("InputCancelled")[-1].actor == BEN


def waiting_child() -> tuple[Memory, str, str]:
    """A delegate has answered and has a person's message left, which has not started: memory, its loop, the message."""
    memory, (_, child) = family()
    human = memory.submit("and the folders?")
    memory.answer("seven files")
    assert memory.loop.status == "idle"
    return memory, child, human


@pytest.mark.rule("G1", "G4")
def test_a_delegating_call_s_answer_says_what_became_of_it() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(LOOP, limits={"delegates": 1}), ANA)
    memory.start()
    memory.plan_delegates("a", "b")
    answers = []
    for call in ("a", "b"):
        child = c.Child(memory.new_id("loop-"), memory.new_id("i"), call)
        start = c.StartTool(memory.turn.id, memory.turn.epoch, 1, call, {"task": call}, child=child)
        answers.append(memory.do(start, WORKER).receipt)
    assert answers == [{"marked": False, "outcome": "started"}, {"marked": False, "outcome": "settled"}]
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "delegate_limit")
    assert "at most 1 sub-agents" in settled["output"]


@pytest.mark.rule("G4", "I1")
def test_a_limit_on_delegates_that_is_changed_counts_from_the_next_turn_on() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b")
    memory.delegate("a")
    memory.do(c.ChangeLoop(LOOP, limits={"delegates": 1}), ANA)
    assert memory.delegate("b") in memory.state.loops


@pytest.mark.rule("G3", "E2")
def test_a_delegate_emptied_under_a_parent_that_is_being_stopped_gives_no_result() -> None:
    memory, child, human = waiting_child()
    memory.stop()
    memory.do(c.RetractInput(human), ANA)
    assert memory.closed(child)
    settled = memory.data("ToolSettled")[-1]
    assert (settled["call"], settled["outcome"], settled["output"]) == ("d", "interrupted", "")
    check(memory)


@pytest.mark.rule("G3", "A3")
def test_a_delegate_s_last_answer_that_was_erased_is_no_result() -> None:
    memory, _, human = waiting_child()
    memory.erase(memory.events("StepDone")[-1].seq)
    memory.do(c.RetractInput(human), ANA)
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["output"]) == ("ok", "")


@pytest.mark.rule("G3", "K1")
def test_what_waits_in_a_delegate_goes_back_because_the_session_or_because_its_loop_closed() -> None:
    for closing in (True, False):
        memory, child, human = waiting_child()
        if closing:
            memory.close()
        else:
            memory.stop()
        memory.at = LOOP
        memory.end()
        event = memory.events("InputCancelled")[-1]
        assert (event.loop, event.data["input"]) == (child, human)
        assert event.data["reason"] == ("session_closed" if closing else "loop_closed")


@pytest.mark.rule("G3")
def test_an_idle_delegate_closes_at_once_though_another_is_still_at_work() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("a", "b")
    first, second = memory.delegate("a"), memory.delegate("b")
    memory.at = first
    memory.resume()
    memory.submit("and the folders?")
    memory.answer("seven files")
    memory.at = second
    memory.resume()
    memory.stop()
    memory.at = LOOP
    assert memory.end() == {"outcome": "waiting"}
    assert memory.closed(first)
    settled = memory.data("ToolSettled")[-1]
    assert (settled["call"], settled["outcome"]) == ("a", "interrupted")
    assert settled["output"] == "It ended with the turn that had delegated it."
    check(memory)


@pytest.mark.rule("G3", "E2")
def test_a_call_whose_delegate_has_only_something_waiting_is_interrupted_with_a_turn_that_nobody_has() -> None:
    memory, child, _ = waiting_child()
    memory.at = LOOP
    memory.hand_over("delegate")
    memory.stop()
    settled = memory.data("ToolSettled")[-1]
    assert (settled["call"], settled["outcome"]) == ("d", "interrupted")
    assert settled["output"] == "It ended with the turn that had delegated it."
    assert memory.closed(child)
    check(memory)


@pytest.mark.rule("G3", "E8")
def test_a_failing_parent_takes_its_delegate_along_by_a_request_that_says_why() -> None:
    memory, (_, child) = family()
    below = memory.turn.id
    memory.at = LOOP
    fail = c.Fail(memory.turn.id, memory.turn.epoch, "provider_error", "no", request="r")
    assert memory.do(fail, WORKER).receipt == {"marked": False, "outcome": "waiting"}
    assert memory.data("InterruptRequested") == [{
        "request": "r", "scope": LOOP, "turns": [below], "queue": "run", "phases": {below: "model"}, "cause": "parent",
        "keep_background": True,
    }]  # fmt: skip
    memory.at = child
    memory.end()
    settled = memory.data("ToolSettled")[-1]
    assert (settled["call"], settled["outcome"], settled["output"]) == ("d", "interrupted", "")


@pytest.mark.rule("G3", "A5")
@pytest.mark.parametrize("who", [BEN, Actor("token", "t", "CI"), Actor("admin", "k", "Kim")])
def test_a_parent_is_told_who_stopped_its_delegate(who: Actor) -> None:
    memory, (_, child) = family()
    memory.stop(who, loop=child)
    memory.end()
    assert memory.data("ToolSettled")[-1]["output"] == f"{who.name} stopped the delegate."


@pytest.mark.rule("G3", "B7")
def test_a_parent_is_told_what_its_delegate_used_up_and_how_it_failed() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate("d")
    memory.do(c.ChangeLoop(memory.at, limits={"steps": 1}), ANA)
    memory.resume()
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "budget")
    assert settled["output"] == "The sub-agent has used up its limit (steps)."
    memory, _ = family()
    memory.fail("provider_error", "no answer")
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["code"]) == ("error", "provider_error")
    assert settled["output"] == "The sub-agent failed: no answer"


@pytest.mark.rule("G3", "J2")
def test_a_parent_is_told_no_person_where_a_delegate_s_worker_was_shut_down() -> None:
    memory, _ = family()
    memory.end("sweep", cause="worker_shutdown")
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["output"]) == ("interrupted", "")


@pytest.mark.rule("G3")
def test_a_delegate_goes_on_for_people_only() -> None:
    memory, (_, child) = family()
    machine = memory.submit("more", BOT)
    memory.answer("seven files")
    assert memory.closed(child)
    assert [each["input"] for each in memory.data("InputCancelled")] == [machine]
    assert memory.data("ToolSettled")[-1]["outcome"] == "ok"


@pytest.mark.rule("B7", "G3")
def test_a_parent_s_time_runs_again_once_its_last_delegate_has_ended() -> None:
    memory, _ = family()
    memory.answer("seven files")
    memory.at = LOOP
    assert memory.turn.asked_ms is None


@pytest.mark.rule("B7", "J4")
def test_a_turn_resumed_while_its_delegate_works_goes_on_waiting() -> None:
    memory, (_, child) = family()
    memory.at = LOOP
    since = memory.turn.asked_ms
    memory.hand_over("delegate")
    assert memory.claim()["claimed"]
    assert memory.turn.asked_ms == since
    memory.at = child
    memory.answer("seven files")
    memory.at = LOOP
    assert memory.turn.asked_ms is None


@pytest.mark.rule("A1", "E2")
def test_a_stop_says_that_a_turn_waits_for_its_delegate() -> None:
    memory, _ = family()
    below = memory.turn.id
    memory.at = LOOP
    above = memory.turn.id
    memory.stop()
    assert memory.data("InterruptRequested")[0]["phases"] == {below: "model", above: "delegate"}


@pytest.mark.rule("E1", "E5")
def test_a_stop_may_name_a_loop_and_a_turn_below_it() -> None:
    memory, (_, child) = family()
    below = memory.turn.id
    memory.at = LOOP
    above = memory.turn.id
    receipt = memory.stop(BEN, loop=LOOP, turn=below, then=c.Then("n", "this first"))
    assert (receipt["accepted"], receipt["turns"]) == (True, [below])
    assert memory.events("InputQueued")[-1].loop == LOOP, "what is sent with it goes to the loop that was named"
    again = memory.stop(ANA, loop=LOOP, turn=below, then=c.Then("m", "and this"))
    assert (again["joined"], again["note"], again["input"]) == (True, "joined", "m")
    assert memory.stop(BEN, loop=child, turn=below)["joined"]
    assert memory.stop(BEN, loop=child, turn=above)["note"] == "turn_over"


@pytest.mark.rule("E3")
def test_a_stop_of_what_is_stopped_in_part_joins_that_part_and_says_so() -> None:
    memory, (_, child) = family()
    below = memory.turn.id
    first = memory.stop(BEN, loop=child)
    memory.at = LOOP
    second = memory.stop(ANA)
    assert (first["note"], second["note"]) == (None, "joined")
    assert (second["accepted"], second["turns"]) == (True, [below, memory.turn.id])


@pytest.mark.rule("E11", "G3")
def test_a_delegate_stopped_before_it_has_started_gives_its_task_back_as_closed() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate("d", "count the files")
    receipt = memory.stop(BEN, loop=child)
    assert receipt["note"] == "not_started"
    assert [each["reason"] for each in memory.data("InputCancelled")] == ["loop_closed"]
    settled = memory.data("ToolSettled")[-1]
    assert (settled["outcome"], settled["output"]) == ("interrupted", "Ben stopped the delegate.")


@pytest.mark.rule("J6", "G3")
def test_what_nobody_knows_of_a_lost_delegate_s_processes_its_parent_s_end_says_too() -> None:
    memory, _ = family()
    memory.end("sweep", cause="worker_lost", unknown=True)
    memory.at = LOOP
    memory.begin()
    memory.answer("Then without.")
    (done,) = memory.data("TurnDone")
    assert done["processes"] == {"ended": [], "surviving": [], "unknown": True}


@pytest.mark.rule("I1")
def test_what_changes_from_the_next_turn_on_is_none_of_the_delegates_of_the_running_one() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"steps": 9}), ANA)
    memory.start()
    memory.do(c.ChangeLoop(None, model="other:", limits={"steps": 2}), ANA)
    memory.plan_delegates("d")
    memory.at = child = memory.delegate("d")
    assert memory.data("LoopStarted")[-1]["model"] == "demo:"
    memory.resume()
    assert memory.turn.limits == {"steps": 9}
    memory.answer("found")
    memory.at = LOOP
    assert memory.closed(child) and memory.begin()["step"] == 2
    memory.answer()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate("d")
    assert memory.data("LoopStarted")[-1]["model"] == "other:"
    memory.resume()
    assert memory.turn.limits == {"steps": 2}
    check(memory)


@pytest.mark.rule("D10", "G5")
def test_a_steer_that_names_a_delegate_s_turn_needs_no_loop_beside_it() -> None:
    memory, (_, child) = family()
    turn = memory.turn.id
    receipt = memory.do(c.SendSteer("s", "left", turn=turn), BEN).receipt
    assert receipt["lands"]["when"] == "safe_point"
    assert [steer.for_turn for steer in memory.state.loops[child].steers] == [turn]
    assert not memory.state.loops[LOOP].steers
    refused = memory.refused(c.SendSteer("x", "left", loop=LOOP, turn=turn))
    assert refused.code == "turn_mismatch", "another agent's turn than the one it names"
    memory.stop(turn=turn)
    assert memory.refused(c.SendSteer("x", "left", turn=turn)).code == "turn_mismatch"
    memory.end()
    assert memory.refused(c.SendSteer("x", "left", turn=turn)).code == "turn_mismatch"
    check(memory)


@pytest.mark.rule("G4")
def test_a_delegate_starts_none_where_the_turn_above_it_may_have_no_more() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(None, limits={"delegates": 1}), ANA)
    memory.start()
    memory.plan_delegates("a")
    memory.at = memory.delegate("a")
    memory.resume()
    memory.plan_delegates("c")
    assert (memory.turn.delegates, memory.delegate("c")) == (0, "settled")
    assert memory.data("ToolSettled")[-1]["code"] == "delegate_limit"


@pytest.mark.rule("E3", "E12", "G3")
@pytest.mark.parametrize("named", ["loop", "turn"])
def test_what_joins_names_the_stop_of_the_agent_it_is_sent_to(named: str) -> None:
    memory, (_, child) = family()
    memory.do(c.Interrupt("of the child", child), BEN)
    memory.do(c.Interrupt("of all"), BEN)
    loop, turn = (child, None) if named == "loop" else (None, memory.turn.id)
    assert memory.stop(loop=loop, turn=turn, then=c.Then("i-then", "the other folder"))["joined"]
    queued = memory.events("InputQueued")[-1]
    assert (queued.loop, queued.data["request"]) == (child, "of the child")


@pytest.mark.rule("B7", "G1", "H1")
def test_a_gate_that_opens_beside_a_delegate_does_not_make_the_wait_any_shorter() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan_delegates("a", "b")
    child, turn = memory.delegate("a"), memory.turn
    memory.now_ms += 3600 * 1000  # nobody takes it
    second = c.StartTool(
        turn.id, turn.epoch, turn.step, "b", {}, c.Effect("command", "git push"), "g", child=c.Child("l", "i", "look")
    )
    assert memory.do(second, WORKER).receipt["outcome"] == "asked"
    memory.now_ms += 3600 * 1000  # nobody answers
    memory.resolve("g", "deny")
    memory.do(second, WORKER)
    memory.at = child
    memory.resume()
    memory.answer()
    memory.at = LOOP
    left_ms = memory.begin()["left_ms"]
    assert 3.9 * 3600 * 1000 < left_ms <= 4 * 3600 * 1000
    check(memory)


@pytest.mark.rule("G3", "B4")
def test_what_is_taken_back_elsewhere_closes_no_delegate() -> None:
    memory = Memory()
    memory.start()
    more = memory.submit("more")
    memory.plan_delegates("a", "b")
    working, waiting = memory.delegate("a"), memory.delegate("b")
    memory.at = working
    memory.resume()
    before = len(memory.log)
    memory.do(c.RetractInput(more), ANA)
    assert memory.types(before) == ["InputCancelled"]
    assert [memory.state.loops[each].status for each in (working, waiting)] == ["running", "idle"]
    check(memory)
