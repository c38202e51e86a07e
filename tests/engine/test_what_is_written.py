"""The smaller verbs: exactly which event each of them writes, and which receipt its sender gets."""

from dataclasses import replace
from typing import Literal

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.actors import agency_of
from sessions_app.engine.decide import Phase
from sessions_app.engine.fold import fold
from sessions_app.engine.limits import BUDGETS, INPUTS_WAITING, LARGEST_BUDGET
from sessions_app.engine.rules import offers
from sessions_app.engine.state import Mode, active_ms
from tests.engine.harness import ANA, BEN, BOT, LOOP, WORKER, Memory

SLEEP = {"pid": 7, "command": "sleep"}
SURVIVOR = {"ended": [], "surviving": [SLEEP], "background": []}


@pytest.mark.rule("B6")
def test_a_reason_given_afterwards_names_the_request_the_turn_and_its_loop() -> None:
    memory = Memory()
    turn = memory.start()
    memory.stop(BEN)
    memory.end()
    request = memory.data("TurnInterrupted")[0]["request"]
    decision = memory.do(c.GiveReason(turn, request, LOOP, "wrong way"), BEN)
    event = memory.events("InterruptReasonGiven")[0]
    assert event.data == {"request": request, "turn": turn, "reason": "wrong way"}
    assert (event.loop, event.turn, decision.receipt) == (LOOP, turn, {"id": turn})
    assert "reason" in memory.refused(c.GiveReason(turn, request, LOOP, " "), BEN).detail


@pytest.mark.rule("A3")
def test_an_erasure_says_which_event_and_why() -> None:
    memory = Memory()
    decision = memory.do(c.Erase(2, "a key"), ANA)
    assert memory.data("ContentErased") == [{"seq": 2, "reason": "a key"}]
    assert decision.receipt == {"seq": 2}
    assert memory.refused(c.Erase(2, "")).code == "blank"


@pytest.mark.rule("A5")
def test_a_member_s_role_is_the_event_and_the_receipt() -> None:
    memory = Memory()
    decision = memory.do(c.SetMember("b", "observer"), ANA)
    assert memory.data("MemberChanged") == [{"person": "b", "role": "observer"}] == [decision.receipt]


@pytest.mark.rule("M")
def test_settings_are_refused_by_name_with_what_there_is() -> None:
    memory = Memory()
    unknown = memory.refused(c.ChangeSession(settings={"colour": "red"}))
    assert (unknown.code, unknown.data["field"]) == ("invalid", "settings.colour")
    assert unknown.data["known"] == ["keep_partial_reply", "stop_queue"]
    assert "colour" in unknown.detail
    wrong = memory.refused(c.ChangeSession(settings={"stop_queue": "later"}))
    assert (wrong.code, wrong.data["field"]) == ("invalid", "settings.stop_queue")
    assert "clear" in wrong.detail
    memory.do(c.ChangeSession(title="New", settings={"stop_queue": "hold"}), ANA)
    assert memory.data("SessionChanged") == [{"title": "New", "settings": {"stop_queue": "hold"}}]
    assert memory.state.settings == {"stop_queue": "hold"}


@pytest.mark.rule("B9")
def test_a_message_tried_again_keeps_its_author_and_stands_first() -> None:
    memory = Memory()
    first = memory.submit("hello", BEN)
    memory.resume()
    memory.fail()
    waiting = memory.submit("next")
    decision = memory.do(c.Retry(first, "again"), ANA)
    assert decision.receipt == {"input": "again", "position": 0}
    data = memory.data("InputQueued")[-1]
    assert data == {
        "input": "again", "text": "hello", "agency": "human", "delivery": "queue", "position": 0, "retries": first,
        "author": {"kind": "person", "id": "b", "name": "Ben"},
    }  # fmt: skip
    assert memory.inbox == ["again", waiting]
    refused = memory.refused(c.Retry(first, "once more"))
    assert (refused.code, refused.data) == ("input_not_found", {"input": first})


@pytest.mark.rule("H3")
def test_a_rule_that_was_not_named_is_the_narrowest_and_one_that_was_not_offered_is_refused() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    gate = memory.ask("a", "git push origin")
    refused = memory.refused(c.Resolve(gate, "allow_rule", c.RuleSpec("command_prefix", "rm"), rule_id="r"))
    assert (refused.code, refused.data["field"]) == ("invalid", "rule")
    assert refused.data["offers"] == [
        {"kind": "command", "value": "git push origin"}, {"kind": "command_prefix", "value": "git push"},
    ]  # fmt: skip
    receipt = memory.resolve(gate, "allow_rule")
    assert (receipt["gate"], receipt["decision"]) == (gate, "allow_rule")
    rule = memory.data("GateResolved")[-1]["rule"]
    assert (rule["kind"], rule["value"], rule["tool"]) == ("command", "git push origin", "shell")
    revoked = memory.do(c.RevokeRule(rule["id"]), ANA)
    assert memory.data("RuleRevoked") == [{"rule": rule["id"]}] == [revoked.receipt]
    assert memory.state.rules == ()
    assert memory.refused(c.RevokeRule(rule["id"])).data == {"rule": rule["id"]}


@pytest.mark.rule("H3")
def test_a_path_is_offered_itself_and_with_its_folder() -> None:
    assert offers(c.Effect("path", "docs/a.md")) == (c.RuleSpec("path", "docs/a.md"), c.RuleSpec("path", "docs/"))
    assert offers(c.Effect("path", "a.md")) == (c.RuleSpec("path", "a.md"),)
    assert offers(c.Effect("path", "../a.md")) == ()


@pytest.mark.rule("J4")
def test_a_hand_over_says_from_whom_and_where_and_its_worker_is_told() -> None:
    memory = Memory()
    memory.start()
    assert memory.hand_over("back_off") == {"marked": False, "outcome": "handed_over"}
    event = memory.events("TurnHandedOver")[0]
    assert (event.data, event.loop, event.step) == ({"from_worker": "w", "at": "back_off"}, LOOP, 1)
    claim = memory.do(c.Claim(LOOP, "t", "w2"), WORKER).receipt
    assert (claim["index"], claim["left_ms"] > 0, claim["delegated"]) == (1, True, [])


@pytest.mark.rule("D11", "H2")
def test_a_question_that_an_urgent_message_finds_open_closes_for_that_reason() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    gate = memory.ask("a")
    memory.steer("not that", urgent=True)
    assert memory.data("GateClosed") == [{"gate": gate, "call": "a", "reason": "steer"}]
    assert memory.call("a", c.Effect("command", "git push origin")) == {"marked": False, "outcome": "skipped"}
    assert [each["outcome"] for each in memory.data("ToolSettled")] == ["not_run", "not_run"]


@pytest.mark.rule("B7", "M")
def test_budgets_are_refused_by_name_with_what_there_is_and_the_largest_is_allowed() -> None:
    memory = Memory()
    refused = memory.refused(c.ChangeLoop(LOOP, limits={"colour": 1}))
    assert (refused.code, refused.data["field"]) == ("invalid", "limits.colour")
    assert refused.data["known"] == list(BUDGETS)
    assert ", ".join(BUDGETS) in refused.detail
    assert memory.refused(c.ChangeLoop(LOOP, limits={"steps": LARGEST_BUDGET * 2})).data == {"field": "limits.steps"}
    assert memory.do(c.ChangeLoop(LOOP, limits={"steps": LARGEST_BUDGET}), ANA).receipt == {"loop": LOOP}
    assert memory.data("LoopChanged") == [{"limits": {"steps": LARGEST_BUDGET}}]


@pytest.mark.rule("A2")
def test_a_state_stored_and_read_and_a_fold_that_goes_on_from_one_are_the_same() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    memory.resolve(memory.ask("a"), "allow_rule")
    memory.stop(BEN, then=c.Then("n", "this first"))
    assert memory.state.requests
    assert memory.state.rules
    assert memory.round_trip() == memory.state
    assert fold(memory.log[4:], fold(memory.log[:4])) == memory.state == fold(memory.log)
    (request,) = memory.state.requests.values()
    assert request.keep_background is False


@pytest.mark.rule("B1")
def test_a_title_that_was_chosen_is_not_made_from_the_first_message() -> None:
    memory = Memory()
    memory.state = replace(memory.state, titled=False)
    titled = []
    for change in (c.ChangeSession(settings={"stop_queue": "hold"}), c.ChangeSession(title="Chosen")):
        memory.do(change, ANA)
        titled.append(memory.state.titled)
    assert titled == [False, True]
    memory.submit("hello")
    assert [each.get("title") for each in memory.data("SessionChanged")] == [None, "Chosen"]


@pytest.mark.rule("D8", "D9")
def test_an_edited_steer_keeps_the_turn_it_is_for_and_goes_back_in_its_last_words() -> None:
    memory = Memory()
    turn = memory.start()
    other = memory.steer("stay")
    memory.do(c.SendSteer("s", "left", loop=LOOP, turn=turn), BEN)
    decision = memory.do(c.EditSteer("s", "right"), BEN)
    assert decision.receipt == {"steer": "s"}
    assert memory.data("SteerQueued")[-1] == {"steer": "s", "text": "right", "urgent": False, "for_turn": turn}
    assert [each.for_turn for each in memory.loop.steers] == [None, turn]
    memory.do(c.WithdrawSteer("s"), BEN)
    memory.do(c.WithdrawSteer(other), BEN)
    assert [each["text"] for each in memory.data("SteerWithdrawn")] == ["right", "stay"]


@pytest.mark.rule("D2")
def test_a_steer_s_receipt_says_where_it_lands_as_far_as_is_known() -> None:
    memory = Memory()
    turn = memory.start()
    assert memory.do(c.SendSteer("s", "left"), BEN).receipt["lands"] == {"when": "safe_point"}
    memory.phases[turn] = Phase("model", 0)
    lands = memory.do(c.SendSteer("t", "left"), BEN).receipt["lands"]
    assert lands == {"when": "safe_point", "after": "model", "running_ms": 0}


@pytest.mark.rule("J4", "B7")
def test_a_wait_for_an_answer_is_no_work_whoever_has_the_turn_meanwhile() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    gate = memory.ask("a")
    worked = active_ms(memory.turn, memory.now_ms)
    memory.now_ms += 10_000
    memory.hand_over("gate")
    given_back = memory.turn
    assert given_back.worker == ""
    memory.now_ms += 10_000
    receipt = memory.claim()
    assert (memory.turn.epoch, memory.loop.epoch) == (receipt["epoch"], receipt["epoch"]) == (2, 2)
    assert memory.turn.asked_ms == given_back.asked_ms, "it goes on waiting for the answer"
    memory.now_ms += 10_000
    memory.resolve(gate)
    assert active_ms(memory.turn, memory.now_ms) == worked
    assert memory.turn.asked_ms is None
    memory.hand_over("call")
    memory.now_ms += 10_000
    memory.claim()
    assert memory.turn.asked_ms is None, "nothing is asked any more"
    memory.now_ms += 5
    assert active_ms(memory.turn, memory.now_ms) == worked + 7 + 5


@pytest.mark.rule("B7")
def test_an_answer_in_the_same_millisecond_was_not_waited_for() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    gate = memory.ask("a")
    memory.now_ms -= 7
    memory.resolve(gate)
    assert memory.turn.waited_ms == 0


@pytest.mark.rule("H3")
def test_a_rule_is_chosen_among_those_that_were_offered_whatever_was_written_since() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    gate = memory.ask("a")
    memory.steer("later")
    memory.resolve(gate, "allow_rule")
    assert memory.data("GateResolved")[-1]["rule"]["value"] == "git push origin"


@pytest.mark.rule("H3")
def test_where_no_rule_is_offered_none_can_be_chosen() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a")
    gate = str(memory.call("a", c.Effect("other", "browser"))["gate"])
    refused = memory.refused(c.Resolve(gate, "allow_rule", rule_id="r"))
    assert (refused.code, refused.data) == ("invalid", {"field": "rule", "offers": []})


@pytest.mark.rule("H3")
def test_a_rule_of_one_tool_covers_no_other_tool() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.answer("", calls=(c.PlannedCall("a", "shell", {}), c.PlannedCall("b", "terminal", {})))
    memory.resolve(memory.ask("a"), "allow_rule")
    memory.call("a", c.Effect("command", "git push origin"))
    memory.settle("a")
    assert memory.call("b", c.Effect("command", "git push origin"))["outcome"] == "asked"


@pytest.mark.rule("H1", "I1")
@pytest.mark.parametrize(("mode", "question"), [("auto", "risk"), ("ask", "effect")])
def test_a_question_says_what_it_is_about_and_its_worker_that_it_was_asked(mode: Mode, question: str) -> None:
    memory = Memory()
    memory.mode(mode)
    memory.start()
    memory.plan("a")
    receipt = memory.call("a", c.Effect("command", "git push", risky=True))
    (opened,) = memory.data("GateOpened")
    assert opened["question"] == question
    assert receipt == {"marked": False, "outcome": "asked", "gate": opened["gate"]}


@pytest.mark.rule("A9")
def test_the_audit_says_why_nothing_changed() -> None:
    memory = Memory()
    assert memory.do(c.SetMode(LOOP, "auto"), ANA).audit == "unchanged"
    memory.start()
    memory.close()
    assert (memory.do(c.Close("again"), ANA).audit, memory.data("SessionClosed")) == ("closing", [])
    memory.end()
    assert memory.do(c.Close("again"), ANA).audit == "closed"


@pytest.mark.rule("L2", "J4")
def test_a_dropped_model_call_is_counted_until_the_step_is_over() -> None:
    memory = Memory()
    memory.start()
    memory.hand_over("model", attempt=2)
    assert memory.data("TurnHandedOver") == [{"from_worker": "w", "at": "model", "attempt": 2}]
    assert memory.claim()["attempt"] == 2
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    assert memory.turn.attempt == 1


@pytest.mark.rule("D4")
def test_a_superseded_reply_s_worker_is_told() -> None:
    memory = Memory()
    memory.start()
    memory.steer("left")
    assert memory.answer("right") == {"marked": False, "outcome": "superseded"}


@pytest.mark.rule("C6", "B7")
@pytest.mark.parametrize("failed", [False, True])
def test_a_turn_that_ends_in_the_millisecond_it_began_took_none(failed: bool) -> None:
    memory = Memory()
    memory.start()
    memory.now_ms = memory.turn.at_ms - 7
    if failed:
        memory.fail()
    else:
        memory.answer()
    assert memory.data("TurnDone", "TurnFailed")[0]["duration_ms"] == 0


@pytest.mark.rule("B7", "E3")
@pytest.mark.parametrize(
    ("usage", "cost", "total"),
    [({"output_tokens": 3}, 0.25, 0.75), ({"output_tokens": 3}, None, None), ({}, None, 0.5)],
)
def test_a_failed_turn_says_what_it_used_and_cost(usage: dict[str, int], cost: float | None, total: float) -> None:
    """What failed without a usage was not paid for; what was used at an unknown price makes the sum unknown."""
    memory = Memory()
    memory.mode("ask")
    turn = memory.start()
    memory.plan("a", "b", cost=0.5)
    gate = memory.ask("a")
    fail = c.Fail(turn, memory.turn.epoch, "provider_error", "no", usage, cost=cost)
    assert memory.do(fail, WORKER).receipt == {"marked": False, "outcome": "failed"}
    (data,) = memory.data("TurnFailed")
    assert (data["usage"], data["cost"]) == ({"output_tokens": 1 + usage.get("output_tokens", 0)}, total)
    assert memory.data("GateClosed") == [{"gate": gate, "call": "a", "reason": "ended"}]
    assert [(each["outcome"], each["output"]) for each in memory.data("ToolSettled")] == [
        ("not_run", "The turn failed.")
    ] * 2


@pytest.mark.rule("C4")
def test_what_is_said_of_a_call_that_has_not_started_does_not_count_and_a_started_one_says_no_more_than_known() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.stop()
    memory.end(settlements={"b": c.Settlement("ok", "made up")})
    assert [(each["call"], each["outcome"], each["output"]) for each in memory.data("ToolSettled")] == [
        ("a", "lost", ""), ("b", "not_run", "Not run: the turn ended first."),
    ]  # fmt: skip


@pytest.mark.rule("E7", "F")
def test_the_end_of_a_turn_with_survivors_names_them() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", processes=SURVIVOR)
    memory.begin()
    memory.answer()
    (data,) = memory.data("TurnDone")
    assert data["processes"] == {"ended": [], "surviving": [SLEEP], "unknown": False}
    assert data["note"] == "held_processes"


@pytest.mark.rule("E7")
def test_survivors_of_a_settled_call_end_whatever_the_other_calls_do_and_an_unstarted_one_has_none() -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a", "b")
    refused = memory.refused(c.SurvivorsEnded(turn, LOOP, "a", [SLEEP]), WORKER)
    assert (refused.code, refused.data) == ("invalid", {"call": "a"})
    memory.call("a")
    memory.settle("a", processes=SURVIVOR)
    memory.do(c.SurvivorsEnded(turn, LOOP, "a", [SLEEP]), WORKER)  # while b is planned
    memory.call("b")
    memory.do(c.SurvivorsEnded(turn, LOOP, "a", [SLEEP]), WORKER)  # while b runs
    assert [each["call"] for each in memory.data("ProcessesEnded")] == ["a", "a"]


@pytest.mark.rule("E2", "B6", "E12")
def test_a_stop_that_ends_a_turn_nobody_has_says_its_reason_whatever_comes_with_it() -> None:
    memory = Memory()
    memory.start()
    memory.hand_over()
    memory.stop(BEN, reason="wrong way", then=c.Then("n", "this first"))
    (data,) = memory.data("TurnInterrupted")
    assert (data["reason"], data["phase"], data["ended_by"]) == ("wrong way", "waiting", "request")


@pytest.mark.rule("E12")
def test_a_waiting_message_that_a_stop_moves_keeps_its_words() -> None:
    memory = Memory()
    memory.start()
    memory.submit("first")
    second = memory.submit("second")
    memory.stop(BEN, then=c.Then(second))
    (moved,) = memory.data("InputChanged")
    assert (moved["input"], moved["text"], moved["position"]) == (second, "second", 0)


@pytest.mark.rule("E12", "E4")
def test_a_stop_that_came_too_late_says_so() -> None:
    memory = Memory()
    memory.start()
    refused = memory.refused(c.Interrupt("r", not_after_ms=memory.now_ms - 1))
    assert refused.code == "too_late"
    assert refused.detail == "This stop arrived later than its sender allowed, so it stopped nothing."


@pytest.mark.rule("B4")
def test_an_edited_message_stands_where_its_receipt_says_at_most_last() -> None:
    memory = Memory()
    first, second = memory.submit(), memory.submit()
    assert memory.do(c.EditInput(first, position=99), ANA).receipt == {"input": first, "position": 1}
    assert memory.data("InputChanged")[-1]["position"] == 1
    assert memory.inbox == [second, first]


@pytest.mark.rule("D11", "B4")
@pytest.mark.parametrize("urgent", [False, True])
def test_only_an_urgent_message_withdraws_what_is_asked(urgent: bool) -> None:
    promoted, released = Memory(), Memory()
    released.steer("left", urgent=urgent)
    released.submit()
    released.stop(queue="hold")
    assert released.steers[0].startswith("-")
    released.do(c.Release(inputs=[entry.id for entry in released.loop.inbox]), ANA)
    for memory in (promoted, released):
        memory.mode("ask")
    promoted.start()
    released.resume()
    for memory in (promoted, released):
        memory.plan("a", "b")
        memory.ask("a")
    entry = promoted.submit("left")
    promoted.do(c.EditInput(entry, promote="urgent" if urgent else "normal", steer="s"), ANA)
    released.do(c.Release(), ANA)
    for memory in (promoted, released):
        assert len(memory.data("GateClosed")) == int(urgent)


@pytest.mark.rule("E12", "G3", "A9")
@pytest.mark.parametrize("to", ["run", "authors"])
def test_what_is_held_in_several_loops_is_released_as_one(to: Literal["run", "authors"]) -> None:
    memory = Memory()
    memory.submit()
    memory.steer()
    memory.stop(queue="hold")
    above = [entry.id for entry in memory.loop.inbox], [steer.id for steer in memory.loop.steers]
    memory.start()
    memory.plan_delegates("d")
    child = memory.at = memory.delegate("d")
    memory.resume()
    entry = memory.submit("and the folders?")
    memory.answer("seven files")
    steer = memory.steer("left")
    memory.stop(BEN, loop=child, queue="hold", then=c.Then("n", "this first"))
    held = [entry], [steer]
    assert (memory.inbox, memory.steers) == (["n", f"-{entry}"], [f"-{steer}"])
    before = len(memory.log)
    decision = memory.do(c.Release(to=to), ANA)
    assert decision.audit is None
    assert decision.receipt == {"inputs": [*above[0], *held[0]], "steers": [*above[1], *held[1]]}
    written = [event.data for event in memory.log[before:]]
    if to == "run":
        assert written == [{"inputs": above[0], "steers": above[1]}, {"inputs": held[0], "steers": held[1]}]
    else:
        assert sorted(each.get("input") or each["steer"] for each in written) == sorted(
            [*above[0], *above[1], *held[0], *held[1]]
        )
    assert memory.do(c.Release(), ANA).audit == "nothing_held"


@pytest.mark.rule("M")
def test_a_refusal_names_what_it_is_about() -> None:
    memory = Memory()
    assert memory.refused(c.RetractInput("nobody")).data == {"input": "nobody"}
    assert memory.refused(c.WithdrawSteer("nobody")).data == {"steer": "nobody"}
    memory.start()
    memory.plan("a", "b")
    assert memory.refused(c.SettleTool(memory.turn.id, memory.turn.epoch, 1, "a", c.Settlement("ok", ""))).data == {
        "call": "a"
    }
    memory.call("a")
    memory.settle("a")
    memory.call("b")
    memory.settle("b")
    memory.begin()
    memory.plan_delegates("d")
    memory.delegate("d")
    turn = memory.turn
    refused = memory.refused(c.SettleTool(turn.id, turn.epoch, turn.step, "d", c.Settlement("ok", "")))
    assert (refused.code, refused.data) == ("invalid", {"call": "d"})
    steer = memory.steer("left")
    for number in range(INPUTS_WAITING):
        memory.submit(str(number))
    assert memory.refused(c.EditSteer(steer, as_input=True, input="new")).data == {"limit": INPUTS_WAITING}


@pytest.mark.rule("A3")
def test_words_that_were_erased_are_neither_tried_again_nor_made_a_steer() -> None:
    memory = Memory()
    first = memory.submit("a pasted key")
    seq = len(memory.log)
    memory.resume()
    memory.fail()
    memory.erase(seq)
    refused = memory.refused(c.Retry(first, "again"))
    assert (refused.code, refused.data) == ("invalid", {"input": first})
    other = memory.submit("another key")
    memory.erase(len(memory.log))
    refused = memory.refused(c.EditInput(other, promote="normal", steer="s"))
    assert (refused.code, refused.data) == ("invalid", {"input": other})


@pytest.mark.rule("H3")
def test_the_note_of_a_denial_that_was_erased_since_is_not_told() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a")
    gate = memory.ask("a")
    memory.resolve(gate, "deny", message="not with this key")
    memory.erase(memory.events("GateResolved")[-1].seq)
    memory.call("a", c.Effect("command", "git push origin"))
    (settled,) = memory.data("ToolSettled")
    assert (settled["outcome"], settled["output"]) == ("denied", "")


@pytest.mark.rule("B7")
def test_a_turn_ended_for_repeating_itself_says_how_often_and_what_that_cost() -> None:
    memory = Memory()
    memory.start()
    same = (c.PlannedCall("x", "shell", {"command": "ls"}),)
    for number in range(int(BUDGETS["repeats"]) - 1):
        planned = tuple(replace(call, call=f"x{number}") for call in same)
        assert memory.answer("", calls=planned, cost=0.25) == {"marked": False, "outcome": "planned"}
        assert memory.call(f"x{number}")["outcome"] == "started"
        memory.settle(f"x{number}")
        memory.begin()
    memory.answer("", calls=same, cost=0.25)
    (failed,) = memory.data("TurnFailed")
    assert str(BUDGETS["repeats"]) in failed["error"]["detail"]
    assert failed["cost"] == 0.25 * BUDGETS["repeats"]
    assert failed["usage"] == {"output_tokens": BUDGETS["repeats"]}


@pytest.mark.rule("B1")
def test_the_first_message_names_a_session_that_nobody_has_named() -> None:
    memory = Memory()
    created = replace(memory.log[0], data={**memory.log[0].data, "untitled": True})
    memory.state = memory.forgetful = fold([created, memory.log[1]])
    titled = [memory.state.titled]
    for text in ("Make it blue", "And green"):
        memory.submit(text)
        titled.append(memory.state.titled)
    assert titled == [False, True, True]
    assert memory.data("SessionChanged") == [{"title": "Make it blue"}]


@pytest.mark.rule("B2", "C1")
def test_a_worker_learns_what_it_has_and_at_which_step() -> None:
    memory = Memory()
    memory.submit()
    receipt = memory.claim()
    assert {key: receipt[key] for key in ("claimed", "turn", "epoch", "step", "index")} == {
        "claimed": True, "turn": memory.turn.id, "epoch": memory.turn.epoch, "step": 1, "index": 1,
    }  # fmt: skip
    begun = memory.begin()
    assert (begun["marked"], begun["step"]) == (False, 1)


@pytest.mark.rule("G1", "G4")
def test_a_delegate_has_its_parent_s_limits_and_is_forgotten_with_its_parent_s_turn() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(LOOP, limits={"steps": 7}), ANA)
    memory.start()
    memory.plan_delegates("d")
    child = memory.delegate("d")
    assert memory.state.loops[child].limits == {"steps": 7}
    memory.at = child
    memory.resume()
    memory.answer("found")
    assert memory.closed(child) and child in memory.state.loops
    memory.at = LOOP
    memory.begin()
    memory.answer("done")
    assert set(memory.state.loops) == {LOOP}


@pytest.mark.rule("B4")
def test_who_is_no_person_is_a_machine() -> None:
    assert [agency_of(kind) for kind in ("person", "agent", "system")] == ["human", "machine", "machine"]


@pytest.mark.rule("A3")
def test_a_reply_with_signs_that_the_log_cannot_hold_says_that_it_was_altered() -> None:
    memory = Memory()
    memory.start()
    memory.answer("a", replaced=True)
    assert memory.data("StepDone")[-1]["replaced"] is True


@pytest.mark.rule("A5", "D3", "B4")
def test_nobody_s_words_are_changed_by_a_machine_and_a_steer_s_only_by_who_wrote_it() -> None:
    memory = Memory()
    memory.start()
    mine, machine = memory.submit("mine"), memory.submit("its own", BOT)
    steer = memory.steer("left", who=BEN)
    assert memory.refused(c.EditInput(mine, text="other"), BOT).code == "not_allowed"
    memory.do(c.EditInput(machine, text="other"), BOT)
    memory.do(c.EditInput(mine, text="better"), BEN)
    for other in (ANA, BOT):
        assert memory.refused(c.EditSteer(steer, text="right"), other).code == "not_allowed"
    memory.do(c.EditSteer(steer, text="right"), BEN)


@pytest.mark.rule("H3", "A5")
def test_an_agent_makes_a_mode_stricter_and_not_looser() -> None:
    memory = Memory()
    memory.mode("ask")
    assert memory.refused(c.SetMode(LOOP, "auto"), BOT).code == "not_allowed"
    assert memory.mode("plan", BOT)["changed"]


@pytest.mark.rule("A3")
def test_a_steer_whose_words_were_erased_becomes_no_message() -> None:
    memory = Memory()
    memory.start()
    steer = memory.steer("a pasted key")
    memory.erase(len(memory.log))
    assert memory.refused(c.EditSteer(steer, as_input=True, input="new"), BEN).data == {"steer": steer}
