"""The smaller verbs: exactly which event each of them writes, and which receipt its sender gets."""

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.rules import offers
from tests.engine.harness import ANA, BEN, LOOP, WORKER, Memory


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
