"""The inbox: admitted before anything runs, one turn each in order, changed until taken, gone exactly once."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.decide.inputs import title_from
from sessions_app.engine.limits import FAILED_KEPT
from sessions_app.engine.transcript import Transcript
from tests.engine.harness import ANA, BEN, BOT, LOOP, Memory
from tests.engine.invariants import check


@pytest.mark.rule("B1", "A5")
def test_a_submit_is_admitted_with_its_place_before_anything_runs() -> None:
    memory = Memory()
    first = memory.do(c.Submit("one", "first"), ANA)
    second = memory.do(c.Submit("two", "second"), BOT)
    assert memory.types(2) == ["InputQueued", "InputQueued"]
    assert [first.receipt, second.receipt] == [{"input": "one", "position": 0}, {"input": "two", "position": 1}]
    assert memory.data("InputQueued") == [
        {"input": "one", "text": "first", "agency": "human", "delivery": "queue", "position": 0},
        {"input": "two", "text": "second", "agency": "machine", "delivery": "queue", "position": 1},
    ]
    assert memory.loop.status == "idle"


@pytest.mark.rule("B1")
@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u2003"])
def test_blank_text_is_refused(text: str) -> None:
    assert Memory().refused(c.Submit("one", text)).code == "blank"


@pytest.mark.rule("B1")
def test_a_mebibyte_of_utf8_is_the_most_and_nothing_is_cut() -> None:
    memory = Memory()
    most = "\u20ac" * (1024 * 1024 // 3) + "x"
    assert len(most.encode()) == 1024 * 1024
    memory.do(c.Submit("one", most), ANA)
    assert memory.data("InputQueued")[0]["text"] == most
    error = memory.refused(c.Submit("two", most + "x"))
    assert (error.code, error.data) == ("too_large", {"size": 1024 * 1024 + 1, "limit": 1024 * 1024})


@pytest.mark.rule("A6", "B1")
def test_sizes_count_text_as_it_will_be_stored() -> None:
    """Half an emoji is replaced by a sign of three bytes; two halves side by side are one emoji of four."""
    memory = Memory()
    memory.do(c.Submit("one", "x" * (1024 * 1024 - 3) + "\ud83d"), ANA)
    memory.do(c.Submit("two", "x" * (1024 * 1024 - 4) + "\ud83d\ude80"), ANA)
    assert memory.refused(c.Submit("three", "x" * (1024 * 1024 - 2) + "\ud83d")).code == "too_large"


@pytest.mark.rule("B1")
def test_the_sixty_fifth_waiting_input_is_refused() -> None:
    memory = Memory()
    for _ in range(64):
        memory.submit()
    error = memory.refused(c.Submit("late", "one more"))
    assert (error.code, error.data) == ("queue_full", {"limit": 64})
    memory.resume()
    memory.submit("there is room again")


@pytest.mark.rule("B2")
def test_only_a_claim_starts_a_turn_and_only_one_worker_gets_it() -> None:
    memory = Memory()
    memory.submit()
    assert (memory.loop.status, memory.loop.runnable()) == ("idle", True)
    assert memory.claim()["claimed"]
    before = memory.types()
    assert memory.claim() == {"claimed": False}
    assert memory.types() == before
    assert memory.loop.status == "running"


@pytest.mark.rule("B2")
def test_an_empty_loop_an_unknown_one_and_one_with_held_inputs_only_are_not_claimed() -> None:
    memory = Memory()
    assert memory.claim() == {"claimed": False}
    memory.submit()
    memory.stop(queue="hold")
    assert memory.claim() == {"claimed": False}
    assert memory.do(c.Claim("no such loop", "t", "w")).receipt == {"claimed": False}


@pytest.mark.rule("B6", "F")
def test_each_input_gets_one_turn_in_order() -> None:
    memory = Memory()
    entries = [memory.submit(text) for text in ("one", "two", "three")]
    for _ in entries:
        memory.resume()
        memory.answer()
    assert [event.data["input"] for event in memory.events("TurnStarted")] == entries
    assert memory.types(5) == ["TurnStarted", "StepDone", "TurnDone", "LoopIdle", "SessionIdle"] * 3
    assert memory.inbox == []


@pytest.mark.rule("B4")
def test_a_waiting_input_is_edited_in_its_place_and_moved_with_its_text() -> None:
    memory = Memory()
    one, two, three = (memory.submit(text) for text in ("one", "two", "three"))
    memory.do(c.EditInput(two, text="two, better"), BEN)
    memory.do(c.EditInput(three, position=0), BEN)
    assert memory.inbox == [three, one, two]
    changes = [(data["input"], data["text"], data["position"]) for data in memory.data("InputChanged")]
    assert changes == [(two, "two, better", 1), (three, "three", 0)]
    assert [entry.author.name for entry in memory.loop.inbox] == ["Ana", "Ana", "Ana"]
    memory.do(c.EditInput(one, position=99), ANA)
    assert memory.inbox == [three, two, one]


@pytest.mark.rule("B4")
def test_an_edit_that_changes_nothing_or_is_not_allowed_is_refused() -> None:
    memory = Memory()
    one = memory.submit()
    assert memory.refused(c.EditInput(one)).code == "invalid"
    assert memory.refused(c.EditInput(one, position=0)).code == "invalid"
    assert memory.refused(c.EditInput(one, text=" ")).code == "blank"
    assert memory.refused(c.EditInput(one, text="x" * (1024 * 1024 + 1))).code == "too_large"
    assert memory.refused(c.EditInput("nobody", text="x")).code == "input_not_found"


@pytest.mark.rule("B4", "B5", "D1")
@pytest.mark.parametrize("how", ["normal", "urgent"])
def test_a_promoted_input_is_a_steer_with_its_text(how: Any) -> None:
    memory = Memory()
    memory.start()
    one = memory.submit("use the staging database")
    receipt = memory.do(c.EditInput(one, promote=how, steer="s"), BEN).receipt
    assert receipt == {"input": one, "steer": "s"}
    text, author = "use the staging database", {"kind": "person", "id": "a", "name": "Ana"}
    assert [(event.type, event.data) for event in memory.log[-2:]] == [
        ("InputCancelled", {"input": one, "reason": "promoted", "text": text}),
        ("SteerQueued", {"steer": "s", "text": text, "urgent": how == "urgent", "author": author}),
    ]
    assert memory.loop.steers[0].author.name == "Ana", "Ben moved it, Ana wrote it"
    assert (memory.inbox, memory.steers) == ([], ["s"])


@pytest.mark.rule("B4", "D1")
def test_a_promotion_that_a_steer_s_limits_refuse_leaves_the_input_where_it_was() -> None:
    memory = Memory()
    long, short = memory.submit("x" * 8193), memory.submit("short")
    assert memory.refused(c.EditInput(long, promote="normal", steer="s")).code == "too_large"
    for _ in range(16):
        memory.steer()
    assert memory.refused(c.EditInput(short, promote="urgent", steer="s")).code == "steer_full"
    assert memory.inbox == [long, short]


@pytest.mark.rule("A3", "B4")
def test_an_erased_input_can_be_moved_and_run_but_not_made_a_steer() -> None:
    memory = Memory()
    one, two = memory.submit("a pasted key"), memory.submit("two")
    memory.erase(3)
    assert memory.refused(c.EditInput(one, promote="normal", steer="s")).code == "invalid"
    memory.do(c.EditInput(one, position=1), ANA)
    assert memory.inbox == [two, one]
    assert memory.data("InputChanged")[0]["text"] == {"erased": True}


@pytest.mark.rule("B4", "B5")
def test_a_waiting_input_is_taken_back_once() -> None:
    memory = Memory()
    one = memory.submit("never mind")
    assert memory.do(c.RetractInput(one), BEN).receipt == {"retracted": True}
    assert memory.data("InputCancelled") == [{"input": one, "reason": "client_retracted", "text": "never mind"}]
    assert memory.log[-1].turn is None, "one taken back names no turn"
    assert memory.refused(c.RetractInput(one)).code == "input_not_found"


@pytest.mark.rule("B4")
def test_an_input_that_was_taken_is_not_changed_any_more() -> None:
    memory = Memory()
    memory.start()
    taken = memory.turn.opening.id
    commands: list[c.Command] = [
        c.EditInput(taken, text="x"), c.EditInput(taken, promote="normal", steer="s"), c.RetractInput(taken),
    ]  # fmt: skip
    assert [memory.refused(command).code for command in commands] == ["input_not_found"] * 3


@pytest.mark.rule("E12")
def test_a_release_names_what_it_lets_go_or_takes_all() -> None:
    memory = Memory()
    one, two = memory.submit("one"), memory.submit("two")
    memory.stop(queue="hold")
    steer = memory.steer()
    assert memory.inbox == [f"-{one}", f"-{two}"]
    assert memory.do(c.Release(inputs=[two]), BEN).receipt == {"inputs": [two], "steers": []}
    assert memory.inbox == [f"-{one}", two]
    assert memory.do(c.Release(), BEN).receipt == {"inputs": [one], "steers": []}
    assert (memory.inbox, memory.steers) == ([one, two], [steer])
    nothing = memory.do(c.Release(), BEN)
    assert (nothing.events, nothing.audit) == ((), "nothing_held")


@pytest.mark.rule("E12", "B5")
def test_a_release_to_the_authors_gives_texts_back() -> None:
    memory = Memory()
    memory.start()
    waiting, steer = memory.submit("later"), memory.steer("left")
    memory.stop(queue="hold")
    memory.end()
    memory.do(c.Release(to="authors"), BEN)
    assert [(event.type, event.data) for event in memory.log[-2:]] == [
        ("InputCancelled", {"input": waiting, "reason": "cleared", "text": "later"}),
        ("SteerWithdrawn", {"steer": steer, "reason": "cleared", "text": "left"}),
    ]
    check(memory)


@pytest.mark.rule("E12")
def test_a_release_of_what_does_not_wait_is_refused_whole() -> None:
    memory = Memory()
    one = memory.submit()
    memory.stop(queue="hold")
    assert memory.refused(c.Release(inputs=[one, "gone"])).data == {"inputs": ["gone"]}
    refused = memory.refused(c.Release(steers=["lost", "gone"]))
    assert (refused.code, refused.data) == ("steer_not_found", {"steers": ["gone", "lost"]})
    assert memory.inbox == [f"-{one}"]


@pytest.mark.rule("M")
def test_unknown_and_closed_loops_have_their_own_codes() -> None:
    memory = Memory()
    assert memory.refused(c.Submit("one", "x", "nowhere")).code == "loop_not_found"
    assert memory.refused(c.SendSteer("s", "x", loop="nowhere")).code == "loop_not_found"
    assert memory.refused(c.Interrupt("r", "nowhere")).code == "loop_not_found"
    memory.do(c.Submit("one", "x", LOOP), ANA)


@pytest.mark.rule("B3")
def test_folding_inputs_join_the_running_turn_at_its_next_safe_point_up_to_the_first_other() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    one, two = memory.submit("one", delivery="fold"), memory.submit("two", BOT, delivery="fold")
    other, late = memory.submit("other"), memory.submit("late", delivery="fold")
    steer = memory.steer("left")
    memory.settle("a")
    before = len(memory.log)
    memory.begin()
    assert [(event.type, *event.data.values()) for event in memory.log[before:]] == [
        ("SteerDelivered", steer), ("TurnFoldedInto", one), ("TurnFoldedInto", two),
    ]  # fmt: skip
    assert memory.inbox == [other, late]
    transcript = Transcript()
    transcript.feed(memory.log)
    assert [str(getattr(entry, "text", "")) for entry in transcript.entries[-2:]] == ["one", "two"]
    check(memory)


@pytest.mark.rule("B3", "D3", "D6")
@pytest.mark.parametrize("how", ["superseded", "skipped"])
def test_a_safe_point_that_a_steer_makes_is_the_folding_inputs_too(how: str) -> None:
    memory = Memory()
    memory.start()
    if how == "skipped":
        memory.plan("a", "b")
        memory.call("a")
        memory.settle("a")
    joins, other = memory.submit("joins", delivery="fold"), memory.submit("other")
    steer = memory.steer("left", urgent=True)
    before = len(memory.log)
    assert (memory.call("b") if how == "skipped" else memory.answer())["outcome"] == how
    landed = ["SteerDelivered", "TurnFoldedInto"]
    made = ["OutputSuperseded"] if how == "superseded" else ["ToolSettled", "StepDone"]
    assert memory.types(before) == [*made, *landed]
    assert [event.step for event in memory.log[-2:]] == [2, 2]
    assert (memory.data("SteerDelivered"), memory.data("TurnFoldedInto")) == ([{"steer": steer}], [{"input": joins}])
    memory.begin()
    assert memory.inbox == [other] and memory.types()[-2:] == landed
    check(memory)


@pytest.mark.rule("B3")
def test_a_folding_input_never_joins_after_a_final_answer_and_then_opens_its_own_turn() -> None:
    memory = Memory()
    turn = memory.start()
    late = memory.submit("late", delivery="fold")
    memory.answer()
    assert memory.events("TurnFoldedInto") == []
    assert memory.resume() != turn
    assert memory.turn.opening.id == late
    check(memory)


@pytest.mark.rule("B3", "E2", "E12")
def test_a_marked_turn_takes_no_fold_and_what_is_set_aside_does_not_join() -> None:
    memory = Memory()
    memory.start()
    held = memory.submit("held", delivery="fold")
    memory.stop(queue="hold")
    assert memory.begin() == {"marked": True}
    memory.end()
    memory.start()
    memory.plan("a")
    memory.call("a")
    joins = memory.submit("joins", delivery="fold")
    memory.settle("a")
    memory.begin()
    assert [data["input"] for data in memory.data("TurnFoldedInto")] == [joins]
    assert memory.inbox == [f"-{held}"]
    check(memory)


@pytest.mark.rule("B9")
def test_a_turn_that_failed_before_its_first_step_leaves_its_message_out_and_offers_it_again() -> None:
    memory = Memory()
    memory.start("first")
    memory.answer("one")
    memory.start("asked in vain", BEN)
    failed = memory.turn.opening.id
    waiting = memory.submit("waiting")
    memory.fail()
    transcript = Transcript()
    transcript.feed(memory.log)
    assert [str(getattr(entry, "text", "")) for entry in transcript.entries] == ["first", "one"]
    assert memory.do(c.Retry(failed, "again"), ANA).receipt == {"input": "again", "position": 0}
    assert memory.data("InputQueued")[-1] == {
        "input": "again", "text": "asked in vain", "agency": "human", "delivery": "queue", "position": 0,
        "retries": failed, "author": {"kind": "person", "id": "b", "name": "Ben"},
    }  # fmt: skip
    assert memory.inbox == ["again", f"-{waiting}"]
    assert memory.refused(c.Retry(failed, "twice")).code == "input_not_found"
    memory.resume()
    assert (memory.turn.opening.id, memory.turn.opening.author.name) == ("again", BEN.name)
    check(memory)


@pytest.mark.rule("B9")
def test_a_turn_that_failed_later_keeps_its_message_and_offers_nothing() -> None:
    memory = Memory()
    memory.start("ask")
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    memory.fail()
    assert not memory.loop.failed
    memory.start("next")
    memory.fail()
    assert [entry.id for entry in memory.loop.failed] == [memory.data("TurnStarted")[-1]["input"]]


@pytest.mark.rule("B9")
def test_what_failed_may_be_tried_again_whatever_has_run_since_and_each_once() -> None:
    memory = Memory()
    memory.start("A")
    first = memory.turn.opening.id
    memory.fail()
    memory.start("B")
    memory.answer("about B")
    memory.start("C")
    second = memory.turn.opening.id
    memory.fail()
    memory.start("D")
    memory.do(c.Retry(first, "again"), ANA)
    memory.answer("about D")
    memory.resume()
    transcript = Transcript()
    transcript.feed(memory.log)
    assert [str(getattr(entry, "text", "")) for entry in transcript.entries] == ["B", "about B", "D", "about D", "A"]
    assert memory.refused(c.Retry(first, "twice")).code == "input_not_found"
    memory.fail()
    assert [entry.id for entry in memory.loop.failed] == [second, "again"], "the second try may be tried again itself"
    check(memory)


@pytest.mark.rule("B9")
def test_of_many_that_failed_the_newest_may_be_tried_again() -> None:
    memory = Memory()
    ids = []
    for _ in range(FAILED_KEPT + 1):
        memory.start("in vain")
        ids.append(memory.turn.opening.id)
        memory.fail()
    assert [entry.id for entry in memory.loop.failed] == ids[1:]
    check(memory)


@pytest.mark.rule("B1")
@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n  Make   it\tblue \nand green", "Make it blue"),
        ("x" * 70, "x" * 70),
        ("x" * 71, "x" * 70 + " …"),
        ("one two " + "x" * 70, "one two …"),
        ("one " + "x" * 65 + " three", "one " + "x" * 65 + " …"),
    ],
)
def test_a_title_is_the_first_line_of_a_message_cut_at_its_last_word(text: str, title: str) -> None:
    assert title_from(text) == title


@pytest.mark.rule("B1", "E12")
def test_a_message_says_how_many_paused_ones_before_it_do_not_hold_it_up() -> None:
    memory = Memory()
    memory.start()
    memory.submit("one")
    memory.submit("two")
    memory.stop(queue="hold")
    memory.end()
    assert memory.do(c.Submit("i", "three"), ANA).receipt["paused"] == 2
    memory.do(c.Release(), ANA)
    assert "paused" not in memory.do(c.Submit("j", "four"), ANA).receipt
