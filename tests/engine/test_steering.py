"""The soft interrupt: accepted at once, delivered at safe points, never lost, never merged."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.decide import Phase
from tests.engine.harness import ANA, BEN, BOT, Memory
from tests.engine.invariants import check


@pytest.mark.rule("D1")
@pytest.mark.parametrize("character", ["x", "é", "€", "\U0001f680"])
def test_8192_bytes_of_utf8_are_accepted_and_8193_refused(character: str) -> None:
    memory = Memory()
    wide = len(character.encode())
    text = character * (8192 // wide) + "x" * (8192 % wide)
    memory.do(c.SendSteer("most", text), ANA)
    assert memory.data("SteerQueued")[0]["text"] == text
    error = memory.refused(c.SendSteer("more", text + "x"))
    assert (error.code, error.data) == ("too_large", {"size": 8193, "limit": 8192})
    assert memory.steers == ["most"]


@pytest.mark.rule("D1")
def test_sixteen_pend_the_seventeenth_and_a_blank_one_are_refused() -> None:
    memory = Memory()
    assert memory.refused(c.SendSteer("s", " \n")).code == "blank"
    sent = [memory.steer(f"{n}") for n in range(16)]
    error = memory.refused(c.SendSteer("s", "one more"))
    assert (error.code, error.data) == ("steer_full", {"limit": 16})
    assert memory.steers == sent
    assert [data["text"] for data in memory.data("SteerQueued")] == [str(n) for n in range(16)], "none merged"


@pytest.mark.rule("D1", "D8")
def test_held_steers_count_among_the_sixteen() -> None:
    memory = Memory()
    memory.start()
    for _ in range(16):
        memory.steer()
    memory.stop(queue="hold")
    memory.end()
    assert memory.refused(c.SendSteer("s", "more")).code == "steer_full"


@pytest.mark.rule("D3")
def test_all_pending_steers_are_delivered_at_the_safe_point_oldest_first() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    sent = [memory.steer(text) for text in ("left", "right", "stay")]
    before = len(memory.log)
    memory.settle("a")
    assert memory.types(before) == ["ToolSettled", "StepDone"], "a settled call alone is no safe point"
    memory.begin()
    delivered = memory.log[before + 2 :]
    assert [(event.type, event.data, event.step) for event in delivered] == [
        ("SteerDelivered", {"steer": steer}, 2) for steer in sent
    ]
    assert memory.steers == []


@pytest.mark.rule("D4", "D6")
def test_a_final_answer_yields_to_any_pending_steer_and_is_never_committed() -> None:
    memory = Memory()
    memory.start()
    sent = [memory.steer("left"), memory.steer("quick", urgent=True)]
    assert memory.answer("done", reasoning="because")["outcome"] == "superseded"
    assert memory.types(4) == ["SteerQueued", "SteerQueued", "OutputSuperseded", "SteerDelivered", "SteerDelivered"]
    assert memory.data("OutputSuperseded") == [
        {
            "kind": "answer", "text": "done", "reasoning": "because", "calls": [], "steers": sent,
            "usage": {"output_tokens": 1},
        }
    ]  # fmt: skip
    assert [event.step for event in memory.log[6:]] == [1, 2, 2]
    assert (memory.turn.step, memory.turn.kept, memory.turn.usage) == (2, 0, {"output_tokens": 1})
    memory.answer("done now")
    assert memory.data("TurnDone")[0]["steps"] == 1
    assert memory.data("TurnDone")[0]["usage"] == {"output_tokens": 2}, "the withdrawn reply counts against budgets"


@pytest.mark.rule("D4")
def test_a_reply_with_calls_does_not_yield_to_a_normal_steer() -> None:
    memory = Memory()
    memory.start()
    steer = memory.steer("left")
    assert memory.plan("a")["outcome"] == "planned"
    assert memory.steers == [steer]


@pytest.mark.rule("D4", "D6")
def test_a_reply_with_calls_yields_to_an_urgent_steer_and_then_all_are_delivered() -> None:
    memory = Memory()
    memory.start()
    normal, urgent = memory.steer("left"), memory.steer("quick", urgent=True)
    before = len(memory.log)
    assert memory.plan("a", "b", text="I will")["outcome"] == "superseded"
    assert memory.types(before) == ["OutputSuperseded", "SteerDelivered", "SteerDelivered"]
    data = memory.data("OutputSuperseded")[0]
    assert (data["kind"], data["text"], data["steers"]) == ("calls", "I will", [normal, urgent])
    assert [call["call"] for call in data["calls"]] == ["a", "b"]
    assert memory.events("StepPlanned", "ToolStarted", "ToolSettled") == []
    check(memory)


@pytest.mark.rule("D5")
def test_an_urgent_steer_skips_what_has_not_started_and_never_touches_what_has() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b", "c")
    memory.call("a")
    normal, urgent = memory.steer("left"), memory.steer("quick", urgent=True)
    before = len(memory.log)
    memory.settle("a", output="finished all the same")
    assert memory.call("b")["outcome"] == "skipped"
    assert memory.types(before) == [
        "ToolSettled", "ToolSettled", "ToolSettled", "StepDone", "SteerDelivered", "SteerDelivered",
    ]  # fmt: skip
    assert [data["outcome"] for data in memory.data("ToolSettled")] == ["ok", "not_run", "not_run"]
    assert [data["steer"] for data in memory.data("SteerDelivered")] == [normal, urgent]
    check(memory)


@pytest.mark.rule("D5")
def test_a_normal_steer_lets_the_batch_run_to_its_end() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.steer("left")
    memory.settle("a")
    assert memory.call("b")["outcome"] == "started"


@pytest.mark.rule("D7")
def test_a_steer_starts_no_turn() -> None:
    memory = Memory()
    memory.steer("left")
    assert (memory.claim(), memory.loop.turns) == ({"claimed": False}, 0)
    memory.start()
    memory.answer()
    assert (memory.loop.turns, len(memory.events("TurnStarted"))) == (1, 1)


@pytest.mark.rule("D8")
@pytest.mark.parametrize("how", ["idle", "late", "stopped", "failed", "lost"])
def test_a_steer_that_missed_its_turn_waits_for_the_next_one_s_first_safe_point(how: str) -> None:
    memory = Memory()
    if how != "idle":
        memory.start()
    if how in ("failed", "lost"):
        steer = memory.steer("left")
        memory.fail() if how == "failed" else memory.end("sweep", cause="worker_lost")
    elif how == "stopped":
        memory.stop()
        steer = memory.steer("left")
        memory.end()
    else:
        if how == "late":
            memory.answer()
        steer = memory.steer("left")
    assert memory.steers == [steer]
    before = len(memory.log)
    memory.start("next")
    assert memory.types(before) == ["InputQueued", "TurnStarted", "SteerDelivered"]
    assert (memory.log[-1].data, memory.log[-1].turn) == ({"steer": steer}, memory.turn.id)


@pytest.mark.rule("D8")
def test_held_steers_are_delivered_only_after_their_release() -> None:
    memory = Memory()
    memory.start()
    held = memory.steer("left")
    memory.stop(queue="hold")
    memory.end()
    memory.start("next")
    assert memory.events("SteerDelivered") == []
    assert memory.answer()["outcome"] == "done", "an answer does not yield to what is set aside"
    memory.do(c.Release(steers=[held]), ANA)
    memory.start("and now")
    assert [data["steer"] for data in memory.data("SteerDelivered")] == [held]


@pytest.mark.rule("D8")
@pytest.mark.parametrize(("who", "reason"), [(BEN, "sender"), (ANA, "owner")])
def test_a_pending_steer_is_taken_back_with_its_text(who: Any, reason: str) -> None:
    memory = Memory()
    steer = memory.steer("left", who=BEN)
    assert memory.do(c.WithdrawSteer(steer), who).receipt == {"steer": steer, "withdrawn": True}
    assert memory.data("SteerWithdrawn") == [{"steer": steer, "reason": reason, "text": "left"}]
    assert memory.refused(c.WithdrawSteer(steer), who).code == "steer_not_found"


@pytest.mark.rule("D8", "B5")
def test_a_pending_steer_becomes_an_input_at_the_end_of_the_queue() -> None:
    memory = Memory()
    memory.submit("first")
    steer = memory.steer("left")
    receipt = memory.do(c.EditSteer(steer, as_input=True, input="new"), ANA).receipt
    assert receipt == {"steer": steer, "input": "new", "position": 1}
    data = {"input": "new", "text": "left", "agency": "human", "delivery": "queue", "position": 1}
    assert [(event.type, event.data) for event in memory.log[-2:]] == [
        ("SteerWithdrawn", {"steer": steer, "reason": "as_input", "text": "left"}),
        ("InputQueued", {**data, "author": {"kind": "person", "id": "b", "name": "Ben"}}),
    ]
    assert memory.loop.inbox[-1].author.name == "Ben"
    for _ in range(62):
        memory.submit()
    other = memory.steer("right")
    assert memory.refused(c.EditSteer(other, as_input=True, input="more")).code == "queue_full"
    assert memory.steers == [other]


@pytest.mark.rule("A5", "B4", "F")
def test_an_agent_s_words_stay_a_machine_s_whoever_moves_them() -> None:
    """From the queue to a steer and back by Ana: no path makes them a person's."""
    memory = Memory()
    one = memory.submit("nightly", BOT)
    memory.do(c.EditInput(one, promote="normal", steer="s"), ANA)
    memory.do(c.EditSteer("s", as_input=True, input="back"), ANA)
    assert (memory.loop.inbox[0].agency, memory.loop.inbox[0].author.kind) == ("machine", "agent")


@pytest.mark.rule("D1", "D8")
def test_an_edited_steer_keeps_its_place_and_its_sender() -> None:
    memory = Memory()
    one, two = memory.steer("left", who=BEN), memory.steer("right", who=BEN)
    memory.do(c.EditSteer(one, text="left, then left"), BEN)
    assert memory.steers == [one, two]
    assert [steer.author.name for steer in memory.loop.steers] == ["Ben", "Ben"]
    assert memory.refused(c.EditSteer(one, text="x" * 8193), BEN).code == "too_large"
    assert memory.refused(c.EditSteer(one, text=""), BEN).code == "blank"
    assert memory.refused(c.EditSteer(one)).code == "invalid"
    check(memory)


@pytest.mark.rule("D9")
def test_the_receipt_says_where_it_will_land() -> None:
    memory = Memory()
    idle = memory.do(c.SendSteer("s1", "left"), ANA).receipt
    turn = memory.start()
    memory.phases[turn] = Phase("tool", 38_000)
    tool = memory.do(c.SendSteer("s2", "left"), ANA).receipt
    memory.stop()
    marked = memory.do(c.SendSteer("s3", "left"), ANA).receipt
    assert [idle["lands"], tool["lands"], marked["lands"]] == [
        {"when": "next_turn"},
        {"when": "safe_point", "after": "tool", "running_ms": 38_000},
        {"when": "next_turn"},
    ]


@pytest.mark.rule("D10")
def test_a_steer_for_a_turn_that_does_not_run_is_handed_back() -> None:
    memory = Memory()
    turn = memory.start()
    error = memory.refused(c.SendSteer("s", "left", turn="another"))
    assert (error.code, error.data) == ("turn_mismatch", {"text": "left", "running": turn})
    memory.stop()
    marked = memory.refused(c.SendSteer("s", "left", turn=turn))
    assert (marked.code, marked.data) == ("turn_mismatch", {"text": "left", "running": None})
    memory.end()
    assert memory.refused(c.SendSteer("s", "left", turn=turn)).code == "turn_mismatch"
    assert memory.steers == []


@pytest.mark.rule("D10", "D8")
def test_an_accepted_steer_for_a_turn_survives_that_turn() -> None:
    memory = Memory()
    turn = memory.start()
    memory.do(c.SendSteer("s", "left", turn=turn), ANA)
    assert memory.data("SteerQueued") == [{"steer": "s", "text": "left", "urgent": False, "for_turn": turn}]
    memory.end("sweep", cause="worker_lost")
    memory.start("next")
    assert memory.data("SteerDelivered") == [{"steer": "s"}]


@pytest.mark.rule("A5", "D3")
def test_an_agent_may_steer_and_is_named() -> None:
    memory = Memory()
    memory.start()
    memory.steer("left", who=BOT)
    memory.begin()
    assert (memory.events("SteerQueued")[0].actor.kind, memory.steers) == ("agent", [])
