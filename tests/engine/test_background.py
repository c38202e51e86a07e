"""Background processes (E13): listed, killed, spared, and gone with what they belong to."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from tests.engine.harness import ANA, BEN, LOOP, WORKER, Memory
from tests.engine.invariants import check

SERVER = [{"pid": 9, "command": "npm start"}]
KEPT: dict[str, Any] = {"ended": [], "surviving": [], "background": SERVER}


def serving(*, over: bool = True) -> Memory:
    """A server runs in the background; `over`: its turn is over."""
    memory = calling()
    memory.settle("a", processes=KEPT)
    memory.begin()
    if over:
        memory.answer("It serves.")
    return memory


def calling() -> Memory:
    """A call runs."""
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    return memory


def gone(memory: Memory, **fields: Any) -> None:
    turn = memory.events("ToolSettled")[0].turn or ""
    memory.do(c.BackgroundEnded(turn, LOOP, "a", SERVER, **fields), WORKER)


@pytest.mark.rule("E13")
def test_a_declared_process_outlives_its_turn_and_is_listed_with_its_age_and_worker() -> None:
    memory = serving()
    (listed,) = memory.loop.background
    assert (listed.call, listed.worker, listed.killer) == ("a", "w", None)
    assert listed.at_ms == memory.events("ToolSettled")[0].at_ms
    check(memory)


@pytest.mark.rule("E13", "A5")
def test_whoever_kills_it_is_who_ended_it() -> None:
    memory = serving()
    memory.do(c.KillProcesses("a"), BEN)
    assert memory.do(c.KillProcesses("a"), ANA).receipt["joined"]
    gone(memory)
    ended = memory.events("ProcessesEnded")[-1]
    assert ended.actor == BEN
    assert ended.cause == memory.events("KillRequested")[-1].cause
    assert memory.loop.background == ()
    refused = memory.refused(c.KillProcesses("a"))
    assert (refused.code, refused.data) == ("not_found", {"call": "a"})
    check(memory)


@pytest.mark.rule("E13")
def test_one_that_ends_by_itself_is_nobodys_act() -> None:
    memory = serving()
    gone(memory)
    assert memory.events("ProcessesEnded")[-1].actor.kind == "system"
    assert memory.loop.background == ()


@pytest.mark.rule("E13")
def test_a_stop_ends_it_too_unless_it_says_otherwise() -> None:
    memory = serving(over=False)
    memory.stop(keep_background=True)
    memory.end()
    assert [each.killer for each in memory.loop.background] == [None]
    memory.start()
    memory.stop()
    memory.end()
    assert [each.killer for each in memory.loop.background] != [None]
    check(memory)


@pytest.mark.rule("E13", "E3")
def test_an_idle_stop_ends_what_runs_in_the_background_and_claims_no_more() -> None:
    memory = serving()
    receipt = memory.stop()
    assert (receipt["turns"], receipt["note"], receipt["accepted"]) == ([], "idle", True)
    assert receipt["background"] == [[memory.events("ToolSettled")[0].turn, "a"]]
    assert memory.types()[-1] == "KillRequested"
    before = len(memory.log)
    memory.stop()
    assert len(memory.log) == before


@pytest.mark.rule("E13", "C4")
@pytest.mark.parametrize("spared", [False, True])
def test_what_settles_into_the_background_while_a_stop_is_due_goes_with_it(spared: bool) -> None:
    memory = calling()
    memory.stop(BEN, keep_background=spared)
    memory.end(settlements={"a": c.Settlement("ok", "serving", processes=KEPT)})
    (listed,) = memory.loop.background
    assert (listed.killer is None) == spared
    if not spared:
        gone(memory)
        assert memory.events("ProcessesEnded")[-1].actor == BEN
    check(memory)


@pytest.mark.rule("E13", "E7")
def test_what_outlives_its_kill_stays_listed_until_it_has_ended() -> None:
    memory = serving()
    memory.do(c.KillProcesses("a"), ANA)
    turn = memory.events("ToolSettled")[0].turn or ""
    memory.do(c.BackgroundEnded(turn, LOOP, "a", [], SERVER), WORKER)
    assert memory.loop.background != ()
    gone(memory)
    assert memory.loop.background == ()


@pytest.mark.rule("E13", "K1")
def test_a_close_ends_it() -> None:
    memory = serving()
    memory.close()
    assert memory.loop.background[0].killer is not None
    gone(memory)
    assert memory.types()[-1] == "ProcessesEnded"
    check(memory)


@pytest.mark.rule("E13", "G3")
def test_what_a_delegate_left_running_is_its_parents_once_it_has_closed() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate()
    memory.resume()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", processes=KEPT)
    memory.begin()
    memory.answer("It serves.")
    assert memory.types()[-4:] == ["LoopIdle", "LoopClosed", "ToolSettled", "StepDone"]
    memory.at = LOOP
    assert [each.call for each in memory.loop.background] == ["a"]
    memory.begin()
    memory.answer("Both serve.")
    turn = memory.events("ToolSettled")[0].turn or ""
    memory.stop()
    memory.do(c.BackgroundEnded(turn, memory.events("ToolSettled")[0].loop or "", "a", SERVER), WORKER)
    assert memory.loop.background == ()
    check(memory)


@pytest.mark.rule("E13", "C1")
def test_an_end_that_is_told_too_early_is_tried_again_and_one_that_is_not_known_is_stale() -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a")
    memory.call("a")
    early = c.BackgroundEnded(turn, LOOP, "a", SERVER)
    refused = memory.refused(early, WORKER)
    assert (refused.code, refused.retry_after) == ("unavailable", 0.5)
    memory.settle("a")
    assert memory.refused(early, WORKER).code == "stale"


@pytest.mark.rule("E13", "K1")
def test_a_close_ends_what_settles_under_a_stop_that_spared_it() -> None:
    memory = calling()
    memory.stop(BEN, keep_background=True)
    memory.close()
    memory.end(settlements={"a": c.Settlement("ok", processes=KEPT)})
    assert memory.types()[-1] == "SessionClosed"
    assert memory.loop.background[0].killer is not None
    check(memory)


@pytest.mark.rule("E13", "E7")
@pytest.mark.parametrize("first", ["survivor", "background"])
def test_what_survives_a_call_and_what_it_left_in_the_background_end_apart(first: str) -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", processes={**KEPT, "surviving": [{"pid": 8, "command": "sleep"}]})
    if first == "survivor":
        memory.do(c.SurvivorsEnded(turn, LOOP, "a", [{"pid": 8, "command": "sleep"}]), WORKER)
        assert (memory.turn.survivors, len(memory.loop.background)) == ((), 1)
    gone(memory)
    assert (len(memory.turn.survivors), memory.loop.background) == (int(first == "background"), ())
    check(memory)


@pytest.mark.rule("E13", "E3")
def test_a_second_stop_ends_what_the_first_one_spared() -> None:
    memory = serving(over=False)
    memory.stop(keep_background=True)
    receipt = memory.stop(BEN)
    assert (receipt["joined"], len(receipt["background"])) == (True, 1)
    assert memory.events("KillRequested")[-1].actor == BEN


@pytest.mark.rule("E13")
def test_calls_of_one_id_are_told_apart_by_their_turns() -> None:
    memory = serving()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", processes=KEPT)
    first, second = (each.turn for each in memory.loop.background)
    assert memory.refused(c.KillProcesses("a")).data == {"field": "turn", "turns": sorted([first, second])}
    memory.do(c.KillProcesses("a", second), ANA)
    assert [each.killer is None for each in memory.loop.background] == [True, False]


@pytest.mark.rule("E13", "E7")
def test_what_outlived_its_kill_is_off_the_list_once_its_warden_says_that_it_has_ended() -> None:
    memory = serving()
    memory.do(c.KillProcesses("a"), BEN)
    turn = memory.events("ToolSettled")[0].turn or ""
    memory.do(c.BackgroundEnded(turn, LOOP, "a", [], SERVER), WORKER)
    memory.do(c.SurvivorsEnded(turn, LOOP, "a", SERVER), WORKER)
    assert memory.loop.background == ()
    assert memory.events("ProcessesEnded")[-1].actor == BEN


@pytest.mark.rule("E13", "A9")
def test_a_kill_s_receipt_names_the_call_and_the_audit_that_it_joined() -> None:
    memory = serving()
    first, second = memory.do(c.KillProcesses("a"), BEN), memory.do(c.KillProcesses("a"), ANA)
    assert (first.receipt, first.audit) == ({"call": "a", "joined": False}, None)
    assert (second.receipt, second.audit) == ({"call": "a", "joined": True}, "joined")


@pytest.mark.rule("E13", "J6")
def test_an_end_that_nobody_can_tell_of_says_so_and_one_that_is_known_does_not() -> None:
    known, lost = serving(), serving()
    gone(known)
    gone(lost, unknown=True)
    assert known.data("ProcessesEnded")[-1]["processes"] == {"ended": SERVER, "surviving": [], "background": []}
    assert lost.data("ProcessesEnded")[-1]["processes"] == {
        "ended": SERVER, "surviving": [], "background": [], "unknown": True,
    }  # fmt: skip


@pytest.mark.rule("E13", "C1")
def test_only_the_named_call_of_the_named_turn_can_be_about_to_settle() -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a", "b")
    memory.call("a")
    for report in (
        c.BackgroundEnded(turn, LOOP, "b", SERVER), c.BackgroundEnded(turn, "gone", "a", SERVER),
        c.BackgroundEnded("another", LOOP, "a", SERVER),
    ):  # fmt: skip
        refused = memory.refused(report, WORKER)
        assert (refused.code, refused.data) == ("stale", {"call": report.call})
    idle = Memory()
    assert idle.refused(c.BackgroundEnded(turn, LOOP, "a", SERVER), WORKER).code == "stale"


@pytest.mark.rule("E13", "E2")
def test_a_stop_names_what_it_ends_in_the_background_whether_a_turn_runs_or_only_waits() -> None:
    for running in (True, False):
        memory = serving()
        turn = memory.events("ToolSettled")[0].turn
        entry = memory.submit("next")
        if running:
            memory.resume()
        receipt = memory.stop(BEN, then=c.Then("n", "this first"))
        assert receipt["background"] == [[turn, "a"]]
        assert receipt["input"] == "n"
        assert receipt["note"] == (None if running else "not_started")
        assert [event.actor for event in memory.events("KillRequested")] == [BEN]
        assert memory.loop.background[0].killer is not None
        assert memory.inbox == (["n"] if running else ["n", f"-{entry}"])


@pytest.mark.rule("E13", "A5")
def test_what_settles_while_a_stop_is_due_is_killed_by_that_stop() -> None:
    memory = calling()
    memory.stop(BEN)
    memory.end(settlements={"a": c.Settlement("ok", "serving", processes=KEPT)})
    (killed,), (stop,) = memory.events("KillRequested"), memory.events("InterruptRequested")
    assert (killed.actor, killed.cause) == (BEN, stop.cause)


@pytest.mark.rule("E13", "E7")
def test_what_outlived_its_kill_ends_in_the_loop_that_started_it() -> None:
    memory = serving()
    memory.do(c.KillProcesses("a"), BEN)
    turn = memory.events("ToolSettled")[0].turn or ""
    memory.do(c.SurvivorsEnded(turn, LOOP, "a", SERVER), WORKER)
    event = memory.events("ProcessesEnded")[-1]
    assert (event.loop, event.turn, event.data["background"]) == (LOOP, turn, True)


@pytest.mark.rule("E13", "G3")
def test_what_a_closed_delegate_left_running_is_killed_once_as_its_parents() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate()
    memory.resume()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", processes=KEPT)
    memory.begin()
    memory.answer("It serves.")
    assert memory.loop.background == ()
    memory.do(c.KillProcesses("a"), BEN)
    assert [event.loop for event in memory.events("KillRequested")] == [LOOP]


@pytest.mark.rule("E13", "E3", "A5")
def test_a_second_stop_ends_what_a_call_is_yet_to_leave_though_the_first_one_spares_it() -> None:
    memory = Memory()
    turn = memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.stop(ANA, keep_background=True)
    memory.stop(BEN, keep_background=True)
    assert not memory.events("KeepRevoked")
    receipt = memory.stop(BEN)
    assert (receipt["joined"], receipt.get("background")) == (True, None)
    before = len(memory.log)
    memory.stop(ANA)
    assert len(memory.log) == before
    memory.end(settlements={"a": c.Settlement("ok", "serving", processes=KEPT)})
    (revoked,), (killed,) = memory.events("KeepRevoked"), memory.events("KillRequested")
    assert (revoked.data, killed.data) == ({"call": "a"}, {"call": "a"})
    assert (revoked.actor, killed.actor, revoked.turn, killed.cause) == (BEN, BEN, turn, revoked.cause)
    assert memory.loop.background[0].killer is not None
    check(memory)


@pytest.mark.rule("E13", "E3")
def test_a_wider_stop_reaches_what_the_calls_under_a_narrower_one_are_yet_to_leave() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate()
    memory.resume()
    memory.plan("a")
    memory.call("a")
    memory.do(c.Interrupt("r1", memory.at, None, keep_background=True), ANA)
    memory.do(c.Interrupt("r2"), BEN)
    (revoked,) = memory.events("KeepRevoked")
    assert (revoked.actor, revoked.loop, revoked.data) == (BEN, memory.at, {"call": "a"})


@pytest.mark.rule("E13")
def test_a_revoked_keeping_comes_to_nothing_where_nothing_is_left() -> None:
    memory = calling()
    memory.stop(ANA, keep_background=True)
    memory.stop(BEN)
    memory.end()
    assert (len(memory.events("KeepRevoked")), memory.events("KillRequested"), memory.loop.background) == (1, [], ())
    check(memory)


@pytest.mark.rule("E13", "A5")
def test_what_ended_it_is_said_only_where_nobody_had_asked_for_its_end() -> None:
    unasked, asked = serving(), serving()
    asked.do(c.KillProcesses("a"), BEN)
    for memory in (unasked, asked):
        gone(memory, why="worker_lost")
    assert unasked.data("ProcessesEnded")[-1]["why"] == "worker_lost"
    assert "why" not in asked.data("ProcessesEnded")[-1]


@pytest.mark.rule("E13", "G3")
def test_what_a_delegate_left_running_outlives_its_parents_end_which_is_no_stop() -> None:
    """What had settled before, and what settles as the delegate ends with its parent, alike."""
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate("d")
    memory.resume()
    memory.plan("a", "b")
    memory.call("a")
    memory.settle("a", processes=KEPT)
    memory.call("b")
    delegate, memory.at = memory.at, LOOP
    assert memory.fail()["outcome"] == "waiting"
    memory.at = delegate
    settlement = c.Settlement("interrupted", processes=KEPT)
    memory.end(settlements={"b": settlement})
    memory.at = LOOP
    memory.fail()
    assert memory.types()[-1] == "SessionIdle" and not memory.events("KillRequested")
    assert [(each.call, each.killer) for each in memory.loop.background] == [("a", None), ("b", None)]
    memory.stop()
    assert all(each.killer for each in memory.loop.background), "a stop ends it"
    check(memory)
