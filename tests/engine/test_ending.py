"""What becomes of what waited, cell by cell of the table of section F, and the one order of a turn's end."""

from collections.abc import Callable
from typing import Any

import pytest

from sessions_app.engine import commands as c
from tests.engine.harness import ANA, BEN, BOT, LOOP, WORKER, Memory
from tests.engine.invariants import check

SURVIVOR = {"ended": [], "surviving": [{"pid": 7, "command": "sleep 9"}], "background": []}


def stopped(queue: Any) -> Callable[[Memory], object]:
    def end(memory: Memory) -> None:
        memory.stop(queue=queue)
        memory.end()

    return end


def survived(queue: Any) -> Callable[[Memory], object]:
    def end(memory: Memory) -> None:
        memory.stop(queue=queue)
        memory.end(settlements={"a": c.Settlement("interrupted", processes=SURVIVOR)})

    return end


def closed(memory: Memory) -> None:
    memory.close(BEN)
    memory.end()


def closed_while_stopping(memory: Memory) -> None:
    memory.stop(queue="hold")
    memory.close(BEN)
    memory.end()


def done(memory: Memory) -> None:
    memory.settle("a")
    memory.begin()
    memory.answer()


COLUMNS: dict[str, Callable[[Memory], object]] = {
    "run": stopped("run"),
    "hold": stopped("hold"),
    "clear": stopped("clear"),
    "default": stopped(None),
    "failed": lambda memory: memory.fail(),
    "worker lost": lambda memory: memory.end("sweep", cause="worker_lost"),
    "worker shutdown": lambda memory: memory.end(cause="worker_shutdown"),
    "fenced": lambda memory: (memory.stop(queue="clear"), memory.end("fence", cause="worker_lost")),
    "survivor, run": survived("run"),
    "survivor, clear": survived("clear"),
    "unknown": lambda memory: memory.end("sweep", cause="worker_lost", unknown=True),
    "closed": closed,
    "closed while stopping": closed_while_stopping,
    "done": done,
}
TABLE = {
    #                          human input       machine input        steer pending
    "run":                   ("kept",           "turn_interrupted", "kept"),
    "hold":                  ("held",           "turn_interrupted", "held"),
    "clear":                 ("cleared",        "turn_interrupted", "cleared"),
    "default":               ("kept",           "turn_interrupted", "kept"),
    "failed":                ("held",           "turn_failed",      "kept"),
    "worker lost":           ("kept",           "turn_interrupted", "kept"),
    "worker shutdown":       ("kept",           "turn_interrupted", "kept"),
    "fenced":                ("cleared",        "turn_interrupted", "cleared"),
    "survivor, run":         ("held",           "held",             "held"),
    "survivor, clear":       ("held",           "held",             "held"),
    "unknown":               ("held",           "held",             "held"),
    "closed":                ("session_closed", "session_closed",   "session_closed"),
    "closed while stopping": ("session_closed", "session_closed",   "session_closed"),
    "done":                  ("kept",           "kept",             "kept"),
}  # fmt: skip


def fate(memory: Memory, id: str) -> str:
    if id in (*memory.inbox, *memory.steers):
        return "kept"
    if f"-{id}" in (*memory.inbox, *memory.steers):
        return "held"
    left = [
        data for data in memory.data("InputCancelled", "SteerWithdrawn") if id in (data.get("input"), data.get("steer"))
    ]
    return str(left[0]["reason"])


def in_a_call() -> Memory:
    """A turn whose call `a` has started."""
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    return memory


@pytest.mark.rule("F", "B5", "D8", "E12")
@pytest.mark.parametrize("column", list(TABLE))
def test_each_cell(column: str) -> None:
    memory = in_a_call()
    human, machine = memory.submit("human"), memory.submit("machine", BOT)
    steer = memory.steer("left") if column != "done" else ""
    COLUMNS[column](memory)
    if column == "done":
        steer = memory.steer("left")  # a pending one would have superseded the answer (D4)
    assert tuple(fate(memory, id) for id in (human, machine, steer)) == TABLE[column]
    check(memory)


@pytest.mark.rule("F", "D8")
@pytest.mark.parametrize("column", [name for name in TABLE if name != "done"])
def test_what_was_delivered_already_is_part_of_the_turn(column: str) -> None:
    memory = Memory()
    opening = memory.submit("hello")
    memory.resume()
    steer = memory.steer("left")
    memory.begin()
    memory.plan("a")
    memory.call("a")
    COLUMNS[column](memory)
    assert memory.events("InputCancelled", "SteerWithdrawn", "InputHeld") == []
    assert (memory.data("TurnStarted")[0]["input"], memory.data("SteerDelivered")) == (opening, [{"steer": steer}])


@pytest.mark.rule("F", "B5", "A5")
def test_a_cancelled_entry_names_the_ended_turn_its_text_and_whose_stop_it_was() -> None:
    memory = in_a_call()
    turn = memory.turn.id
    memory.submit("later")
    memory.steer("left")
    memory.stop(BEN, queue="clear")
    request = memory.log[-1]
    memory.end()
    gone = memory.events("InputCancelled", "SteerWithdrawn")
    assert [(event.turn, event.data["text"], event.actor, event.cause) for event in gone] == [
        (turn, "later", BEN, request.cause),
        (turn, "left", BEN, request.cause),
    ]


@pytest.mark.rule("E5", "F")
@pytest.mark.parametrize("queue", ["run", "hold", "clear"])
def test_what_came_after_the_stop_is_not_touched_by_it(queue: Any) -> None:
    memory = in_a_call()
    memory.stop(queue=queue)
    late, machine, steer = memory.submit("do X instead"), memory.submit("m", BOT), memory.steer("left")
    memory.end()
    assert [fate(memory, id) for id in (late, machine, steer)] == ["kept", "kept", "kept"]


@pytest.mark.rule("E7", "E12", "F", "J6")
def test_beside_a_survivor_nothing_starts_not_even_what_was_sent_with_the_stop() -> None:
    memory = in_a_call()
    memory.stop(then=c.Then("then", "do X instead"), queue="run")
    late = memory.submit("and Y")
    memory.end(settlements={"a": c.Settlement("interrupted", processes=SURVIVOR)})
    assert memory.inbox == ["-then", f"-{late}"]
    assert memory.data("TurnInterrupted")[0]["note"] == "held_processes"
    assert memory.claim() == {"claimed": False}
    memory.do(c.SurvivorsEnded("t", "loop-1", "a", [{"pid": 7, "command": "sleep 9"}]))
    assert memory.inbox == ["-then", f"-{late}"], "only a person releases it"
    memory.do(c.Release(), ANA)
    memory.resume()
    check(memory)


def left_behind() -> Memory:
    """A turn whose first call has settled with a process that outlived its kill."""
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", "error", "timed out", processes=SURVIVOR)
    memory.begin()
    return memory


@pytest.mark.rule("E7", "F")
@pytest.mark.parametrize("end", ["stop", "done", "failed"])
def test_what_survived_an_earlier_call_holds_the_queue_however_the_turn_ends(end: str) -> None:
    memory = left_behind()
    later = memory.submit("later")
    if end == "stop":
        memory.stop(queue="run")
        memory.end()
    else:
        memory.answer() if end == "done" else memory.fail()
    (terminal,) = memory.events("TurnInterrupted", "TurnDone", "TurnFailed")
    assert terminal.data["processes"]["surviving"] == SURVIVOR["surviving"]
    assert (terminal.data["note"], memory.inbox) == ("held_processes", [f"-{later}"])
    check(memory)


@pytest.mark.rule("A3", "E7")
def test_an_erased_command_of_a_survivor_is_not_told_by_the_terminal() -> None:
    memory = left_behind()
    memory.erase(memory.events("ToolSettled")[0].seq)
    memory.answer()
    assert memory.data("TurnDone")[0]["processes"]["surviving"] == [{"pid": 7, "command": ""}]


@pytest.mark.rule("E7")
def test_a_survivor_that_ended_before_its_turn_holds_nothing() -> None:
    memory = left_behind()
    memory.do(c.SurvivorsEnded(memory.turn.id, LOOP, "a", SURVIVOR["surviving"]))
    later = memory.submit("later")
    memory.answer()
    assert "processes" not in memory.data("TurnDone")[0]
    assert memory.inbox == [later]
    check(memory)


@pytest.mark.rule("E7")
def test_a_survivor_s_end_waits_for_the_settlement_that_names_it() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    early = c.SurvivorsEnded(memory.turn.id, LOOP, "a", SURVIVOR["surviving"])
    refused = memory.refused(early)
    assert (refused.code, refused.retry_after) == ("unavailable", 0.5), "its worker says it again"
    memory.settle("a", processes=SURVIVOR)
    memory.do(early)
    memory.begin()
    later = memory.submit("later")
    memory.answer()
    assert memory.inbox == [later]
    check(memory)


@pytest.mark.rule("C6", "E8")
def test_the_one_order_of_an_end() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.submit("machine", BOT)
    memory.submit("human")
    memory.steer("left")
    memory.stop(queue="hold")
    before = len(memory.log)
    memory.end()
    assert memory.types(before) == [
        "ToolSettled", "ToolSettled", "TurnInterrupted", "InputCancelled", "InputHeld", "LoopIdle", "SessionIdle",
    ]  # fmt: skip


@pytest.mark.rule("E8")
def test_the_terminal_tells_the_whole_of_it() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    memory.plan("b")
    memory.call("b")
    held, machine, steer = memory.submit("human"), memory.submit("machine", BOT), memory.steer("left")
    memory.stop(BEN, reason="wrong branch", queue="hold")
    asked = memory.log[-1]
    ended = [{"pid": 5, "command": "sleep 9"}]
    processes = {"ended": ended, "surviving": [], "background": []}
    memory.end(
        settlements={"b": c.Settlement("interrupted", "half", processes=processes)},
        cut_off={"text": "I was"}, usage={"output_tokens": 3}, acknowledged_ms=5,
    )  # fmt: skip
    [terminal] = memory.events("TurnInterrupted")
    assert (terminal.actor, terminal.cause) == (BEN, asked.cause)
    assert terminal.data == {
        "request": asked.data["request"], "cause": "person", "reason": "wrong branch", "ended_by": "worker",
        "phase": "tool", "acknowledged_ms": 5, "settled_ms": 7, "steps_kept": 2, "cut_off": {"text": "I was"},
        "processes": {"ended": ended, "surviving": [], "unknown": False}, "gates": [],
        "inputs": {"kept": [], "held": [held], "cancelled": [machine]},
        "steers": {"kept": [], "held": [steer], "withdrawn": []},
        "usage": {"output_tokens": 5}, "cost": None,
    }  # fmt: skip


@pytest.mark.rule("E8", "J2")
@pytest.mark.parametrize(
    ("by", "cause"), [("sweep", "worker_lost"), ("fence", "worker_lost"), ("worker", "worker_shutdown")]
)
def test_a_stop_that_was_asked_for_owns_the_end_whoever_writes_it(by: Any, cause: Any) -> None:
    memory = in_a_call()
    memory.stop(BEN, queue="hold")
    memory.end(by, cause=cause)
    [terminal] = memory.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["ended_by"], terminal.actor) == ("person", by, BEN)


@pytest.mark.rule("E8", "J2")
def test_an_end_nobody_asked_for_is_the_program_s() -> None:
    memory = in_a_call()
    memory.end("sweep", cause="worker_lost", phase="tool", settled_ms=900)
    [terminal] = memory.events("TurnInterrupted")
    assert "request" not in terminal.data
    assert terminal.actor.kind == "system"
    assert (terminal.data["cause"], terminal.data["phase"], terminal.data["settled_ms"]) == ("worker_lost", "tool", 900)


@pytest.mark.rule("E2", "E8")
def test_a_turn_that_is_not_marked_is_not_ended_without_a_cause() -> None:
    memory = in_a_call()
    turn = memory.turn
    assert memory.refused(c.EndTurn(turn.id, turn.epoch, "worker")).code == "invalid"


@pytest.mark.rule("C4", "E8")
def test_a_call_that_finished_before_its_kill_is_ok() -> None:
    memory = in_a_call()
    memory.stop()
    assert memory.settle("a", "ok", "done in time") == {"marked": True, "outcome": "settled"}
    memory.end()
    assert [data["outcome"] for data in memory.data("ToolSettled")] == ["ok"]
    assert memory.types()[-4:] == ["ToolSettled", "TurnInterrupted", "LoopIdle", "SessionIdle"]


@pytest.mark.rule("A3", "E8")
def test_a_reason_that_was_erased_meanwhile_does_not_stop_the_end() -> None:
    memory = in_a_call()
    memory.stop(reason="a pasted key")
    memory.erase(len(memory.log))
    memory.end()
    assert "reason" not in memory.data("TurnInterrupted")[0]


@pytest.mark.rule("B6", "E7")
def test_later_facts_refer_to_the_terminal_and_change_nothing() -> None:
    memory = in_a_call()
    turn = memory.turn.id
    memory.stop()
    request = memory.data("InterruptRequested")[0]["request"]
    memory.end()
    before = memory.state
    memory.do(c.GiveReason(turn, request, "loop-1", "it was wrong"), ANA)
    memory.do(c.SurvivorsEnded(turn, "loop-1", "a", [{"pid": 7, "command": "sleep"}]))
    assert memory.types()[-2:] == ["InterruptReasonGiven", "ProcessesEnded"]
    assert [event.turn for event in memory.log[-2:]] == [turn, turn]
    assert memory.state == before


# -- closing (K1)


@pytest.mark.rule("K1")
def test_closing_an_idle_session_gives_everything_back_and_ends_with_session_closed() -> None:
    memory = Memory()
    one, steer = memory.submit("later"), memory.steer("left")
    assert memory.close() == {"closed": True}
    assert [(event.type, event.data) for event in memory.log[4:]] == [
        ("SessionChanged", {"closing": True}),
        ("InputCancelled", {"input": one, "reason": "session_closed", "text": "later"}),
        ("SteerWithdrawn", {"steer": steer, "reason": "session_closed", "text": "left"}),
        ("SessionIdle", {}),
        ("SessionClosed", {}),
    ]
    assert (memory.state.status, memory.loop.status) == ("closed", "closed")
    check(memory)


@pytest.mark.rule("K1", "C6", "A5")
def test_closing_a_running_session_stops_it_first() -> None:
    memory = in_a_call()
    memory.submit("later")
    memory.steer("left")
    before = len(memory.log)
    assert memory.close(BEN) == {"closed": False}
    assert memory.types(before) == ["SessionChanged", "InterruptRequested"]
    memory.end()
    assert memory.types(before + 2) == [
        "ToolSettled", "TurnInterrupted", "InputCancelled", "SteerWithdrawn", "LoopIdle", "SessionIdle",
        "SessionClosed",
    ]  # fmt: skip
    [terminal] = memory.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.actor) == ("closing", BEN)
    assert [event.actor for event in memory.events("InputCancelled", "SteerWithdrawn")] == [BEN, BEN]
    assert memory.state.requests == {}
    check(memory)


@pytest.mark.rule("K1", "E3")
def test_closing_a_session_that_somebody_stops_already_joins_that_stop() -> None:
    memory = in_a_call()
    memory.submit("later")
    memory.stop(ANA, queue="hold")
    before = len(memory.log)
    memory.close(BEN)
    assert memory.types(before) == ["SessionChanged"]
    memory.end()
    assert memory.types(before + 1) == [
        "ToolSettled", "TurnInterrupted", "InputCancelled", "LoopIdle", "SessionIdle", "SessionClosed",
    ]  # fmt: skip
    [terminal] = memory.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.actor) == ("person", ANA)
    assert terminal.data["inputs"] | {"cancelled": []} == {"kept": [], "held": [], "cancelled": []}


@pytest.mark.rule("K1")
def test_a_repeated_close_joins_the_first() -> None:
    memory = in_a_call()
    memory.close()
    before = len(memory.log)
    assert memory.close(BEN) == {"closed": False}
    assert memory.types(before) == []
    memory.end()
    again = memory.do(c.Close("r"), BEN)
    assert (again.receipt, again.events, again.audit) == ({"closed": True}, (), "closed")


@pytest.mark.rule("K1", "E7")
def test_a_survivor_does_not_keep_anything_in_a_closed_session() -> None:
    memory = in_a_call()
    memory.submit("later")
    memory.close()
    memory.end(settlements={"a": c.Settlement("interrupted", processes=SURVIVOR)})
    data = memory.data("TurnInterrupted")[0]
    assert (data["processes"]["surviving"], data.get("note")) == (SURVIVOR["surviving"], None)
    assert memory.events("InputHeld") == []
    assert memory.state.status == "closed"
    check(memory)


@pytest.mark.rule("K1", "M")
@pytest.mark.parametrize("when", ["closing", "closed"])
def test_commands_on_a_closing_session(when: str) -> None:
    memory = in_a_call()
    waiting, steer = memory.submit("later"), memory.steer("left")
    memory.close()
    if when == "closed":
        memory.end()
    refused: list[c.Command] = [
        c.Submit("i", "more"), c.SendSteer("s", "more"), c.Release(), c.EditInput(waiting, text="x"),
        c.EditSteer(steer, text="x"), c.ChangeSession(title="x"), c.Interrupt("r", then=c.Then("i", "more")),
    ]  # fmt: skip
    assert [memory.refused(command).code for command in refused] == ["session_closing"] * len(refused)
    assert memory.claim() == {"claimed": False}
    stop = memory.do(c.Interrupt("r", loop=LOOP), BEN)
    turns = [memory.turn.id] if when == "closing" else []
    assert (stop.receipt, stop.events, stop.audit) == (
        {"accepted": False, "joined": False, "turns": turns, "note": "closing"}, (), "closing",
    )  # fmt: skip


@pytest.mark.rule("A3", "K1")
def test_members_and_erasing_still_work_on_a_closed_session() -> None:
    memory = Memory()
    memory.close()
    memory.do(c.SetMember("b", "observer"), ANA)
    memory.do(c.Erase(1, "a pasted key"), ANA)
    assert memory.do(c.ChangeSession(), ANA).events == ()
    check(memory)


@pytest.mark.rule("C4", "B7")
def test_what_a_worker_knows_of_its_call_is_told_also_when_the_turn_fails_by_another_fault() -> None:
    memory = Memory()
    memory.start()
    waiting = memory.submit("waits")
    memory.plan("a", "b")
    memory.call("a")
    known = c.Settlement("error", "no space left", processes=SURVIVOR)
    memory.do(c.Fail(memory.turn.id, memory.turn.epoch, "internal", "x", settlements={"a": known}), WORKER)
    assert [(each["outcome"], each["output"]) for each in memory.data("ToolSettled")] == [
        ("error", "no space left"), ("not_run", "The turn failed."),
    ]  # fmt: skip
    (terminal,) = memory.data("TurnFailed")
    assert terminal["processes"]["surviving"] == SURVIVOR["surviving"] and terminal["note"] == "held_processes"
    assert memory.inbox == [f"-{waiting}"]
    check(memory)


@pytest.mark.rule("J4", "E8")
@pytest.mark.parametrize("stopped", [False, True])
def test_a_shutdown_says_how_long_it_had_waited_unless_somebody_had_asked_for_the_end(stopped: bool) -> None:
    memory = Memory()
    memory.start()
    if stopped:
        memory.stop()
    memory.end(cause="worker_shutdown", grace_ms=20_000)
    assert memory.data("TurnInterrupted")[0].get("grace_ms") == (None if stopped else 20_000)


@pytest.mark.rule("A5", "G3")
def test_what_waits_for_a_delegate_that_is_stopped_goes_back_as_the_act_of_whoever_stopped_it() -> None:
    memory = Memory()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate("d")
    turn = memory.resume()
    memory.steer("a word on the way")
    memory.stop(BEN, loop=memory.at, queue="run")
    memory.end()
    (back,) = memory.events("SteerWithdrawn")
    assert (back.data["reason"], back.turn, back.actor) == ("loop_closed", turn, BEN)
    assert back.cause == memory.events("InterruptRequested")[0].cause
    check(memory)
