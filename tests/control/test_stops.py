"""The stop through its verbs: durable at once, told to the workers, waited for outside every lock, never in the way."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from sessions_app import control
from sessions_app.control import reports
from sessions_app.control.transact import STOP_CHANNEL
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import bell, chain, db, read
from tests.support.together import together
from tests.support.waiting import wait_until
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]
SURVIVOR = {"ended": [], "surviving": [{"pid": 7, "command": "sleep 9"}], "background": []}
SERVING = [{"pid": 9, "command": "npm start"}]


@pytest.fixture
def world() -> World:
    return World.create()


@pytest.fixture
def ben(world: World) -> Any:
    """A second owner."""
    ben = person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    return ben


@pytest.mark.rule("E2", "E8")
def test_the_mark_is_durable_before_the_workers_hear_of_it(world: World, sql: Sql) -> None:
    turn = world.start()
    sql.execute(f"LISTEN {STOP_CHANNEL}")
    receipt = world.stop(reason="wrong branch")
    [notice] = list(sql.notifies(timeout=5, stop_after=1))
    [asked] = world.events("InterruptRequested")
    assert receipt == {"accepted": True, "joined": False, "turns": [turn], "note": None, "seq": asked.seq}
    assert orjson.loads(notice.payload) == {
        "session": world.session, "request": asked.data["request"], "turns": [turn],
    }  # fmt: skip
    [mark] = sql.execute("SELECT turn::text, session::text, worker::text, request::text FROM turn_mark").fetchall()
    assert tuple(mark.values()) == (turn, world.session, WORKER, asked.data["request"])
    world.end()
    assert sql.execute("SELECT FROM turn_mark").fetchall() == []
    assert sql.execute("SELECT FROM running_turn").fetchall() == []


@pytest.mark.rule("E4", "E13")
def test_a_stop_has_stopped_only_when_what_settled_into_the_background_under_it_has_ended(
    world: World, ben: Any, sql: Sql
) -> None:
    turn = world.start()
    world.plan("a")
    world.start_tool("a")
    first = world.stop(keep_background=True)
    second = world.stop(ben)
    assert "ben's phone" in str(read.snapshot(world.session)["state"])
    assert "ben's phone" not in str(read.snapshot(world.session, "observer")["state"]), "observers see no device's name"
    sql.execute(f"LISTEN {STOP_CHANNEL}")
    left = {"ended": [], "surviving": [], "background": SERVING}
    world.end(settlements={"a": commands.Settlement("ok", "serving", processes=left)})
    [notice] = list(sql.notifies(timeout=5, stop_after=1))
    assert orjson.loads(notice.payload) == {"session": world.session, "calls": [[turn, "a"]]}
    assert [control.stop_outcome(world.session, each) for each in (first, second)] == [None, None]
    reports.background_ended(world.session, commands.BackgroundEnded(turn, world.loop, "a", SERVING), WORKER)
    first_outcome, second_outcome = (control.stop_outcome(world.session, each) for each in (first, second))
    assert first_outcome is not None and second_outcome is not None
    assert (first_outcome["stopped"], second_outcome["joined"]) == (True, True)


@pytest.mark.rule("E3")
def test_workers_are_not_rung_for_a_stop_that_marks_nothing(world: World, sql: Sql) -> None:
    sql.execute(f"LISTEN {STOP_CHANNEL}")
    world.stop()
    world.submit()
    world.stop()
    control.release(world.owner, world.session, new_id())
    world.claim()
    world.stop()
    world.stop()
    notices = list(sql.notifies(timeout=5, stop_after=1))
    notices += list(sql.notifies(timeout=0))
    assert [orjson.loads(notice.payload)["turns"] for notice in notices] == [[world.turn]]


@pytest.mark.rule("E3", "E4", "E8")
def test_stopped_is_said_when_the_work_has_ended_and_not_before(world: World, ben: Any) -> None:
    turn = world.start()
    first, joined = world.stop(), world.stop(ben, then={"text": "do X instead"})
    assert control.stop_outcome(world.session, first) is None
    waits = [
        lambda: control.wait_stopped(world.session, first, 10),
        lambda: control.wait_stopped(world.session, joined, 10),
    ]
    outcomes = together([*waits, lambda: world.end()])
    assert outcomes[:2] == [
        {"stopped": True, "joined": False, "turns": [turn], "note": None},
        {"stopped": False, "joined": True, "turns": [turn], "note": "joined", "input": joined["input"]},
    ]


@pytest.mark.rule("E4", "M")
def test_past_the_deadline_nothing_is_claimed_and_the_stop_goes_on(world: World) -> None:
    turn = world.start()
    receipt = world.stop()
    with pytest.raises(Refused) as refused:
        control.wait_stopped(world.session, receipt, 0.05)
    assert (refused.value.code, refused.value.status, refused.value.data) == ("deadline", 504, {"turns": [turn]})
    world.end()
    assert control.wait_stopped(world.session, receipt, 0.0)["stopped"]


@pytest.mark.rule("E3", "E5", "E11", "E12", "K1")
def test_the_outcome_of_every_kind_of_stop(world: World, ben: Any) -> None:
    def outcome(receipt: dict[str, Any]) -> tuple[bool, bool, list[str], str | None]:
        waited = control.wait_stopped(world.session, receipt, 1)
        return waited["stopped"], waited["joined"], waited["turns"], waited["note"]

    assert outcome(world.stop()) == (False, False, [], "idle")
    waiting = world.submit("one")
    assert outcome(world.stop()) == (False, False, [], "not_started")
    assert [(entry["id"], entry["held"]) for entry in world.state()["inbox"]] == [(waiting, True)]
    old = world.start()
    world.answer()
    assert outcome(world.stop(turn=old)) == (False, False, [], "turn_over")
    turn = world.start()
    world.plan("a")
    world.start_tool("a")
    receipt = world.stop()
    world.end(settlements={"a": commands.Settlement("interrupted", processes=SURVIVOR)})
    assert outcome(receipt) == (True, False, [turn], "held_processes")
    turn = world.start()
    control.close(world.owner, world.session, new_id())
    closing = world.stop(ben)
    assert control.stop_outcome(world.session, closing) is None
    world.end()
    assert outcome(closing) == (False, False, [turn], "closing")
    assert outcome(world.stop()) == (False, False, [], "closing")


@pytest.mark.rule("E9")
def test_the_fence_may_end_a_turn_for_its_worker_and_the_worker_is_late(world: World) -> None:
    turn = world.start()
    world.plan("a")
    world.start_tool("a")
    world.stop()
    asked = []
    command = commands.EndTurn(turn, world.epoch, "fence", "worker_lost")
    reports.end_turn(world.session, command, lambda cur: asked.append(cur.execute("SELECT 1").fetchone()))
    assert asked == [(1,)]
    late: list[Callable[[], object]] = [lambda: world.settle("a"), lambda: world.end(), lambda: world.begin()]
    for report in late:
        with pytest.raises(Refused, match="stale"):
            report()
    [terminal] = world.events("TurnInterrupted")
    assert (terminal.data["ended_by"], terminal.data["cause"], terminal.actor.name) == ("fence", "person", "ana")


@pytest.mark.rule("J2", "E9")
def test_a_worker_that_came_back_under_the_lock_keeps_its_turn(world: World) -> None:
    turn = world.start()

    def alive(cur: Any) -> None:
        raise Refused("stale", "The worker is alive.")

    with pytest.raises(Refused, match="stale"):
        reports.end_turn(world.session, commands.EndTurn(turn, world.epoch, "sweep", "worker_lost"), alive)
    assert world.answer()["outcome"] == "done"


@pytest.mark.rule("E11")
def test_a_stop_and_its_end_do_not_need_the_pool_of_everything_else(world: World) -> None:
    world.start()
    with ExitStack() as taken:
        for _ in range(10):
            taken.enter_context(db.cursor("write"))
        began = time.monotonic()
        receipt = world.stop()
        world.end()
        assert control.wait_stopped(world.session, receipt, 1)["stopped"]
        assert time.monotonic() - began < 2


@pytest.fixture
def redis_that_hangs(redis_url: str, tmp_path: Path) -> Iterator[None]:
    """A Redis that takes connections and never answers."""
    place = str(tmp_path / "redis.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        bell.configure(f"unix://{place}")
        yield
    bell.configure(redis_url)


@pytest.mark.rule("E11", "L5")
def test_a_redis_that_hangs_does_not_hold_up_a_stop(world: World, redis_that_hangs: None) -> None:
    world.start()
    began = time.monotonic()
    receipt = world.stop()
    world.end()
    assert control.wait_stopped(world.session, receipt, 1)["stopped"]
    assert time.monotonic() - began < 2


@pytest.mark.rule("E11", "L5")
def test_a_redis_that_is_gone_does_not_hold_up_a_stop(world: World, redis_url: str) -> None:
    world.start()
    bell.configure("unix:///nowhere/redis.sock")
    try:
        began = time.monotonic()
        receipt = world.stop()
        world.end()
        assert control.wait_stopped(world.session, receipt, 1)["stopped"]
        assert time.monotonic() - began < 2
    finally:
        bell.configure(redis_url)


@pytest.mark.rule("E11", "E12", "K1")
@pytest.mark.parametrize("how", ["stop", "close"])
def test_giving_back_a_huge_queue_copies_no_long_text_under_the_lock(world: World, sql: Sql, how: str) -> None:
    """64 inputs of 1 MiB would take longer to copy than a transaction may take (A8)."""
    world.start()
    long = ["\u4e00" * (1024 * 1024 // 3 - n) for n in range(6)]
    queued = [world.submit(text) for text in (*long, "short")]
    if how == "stop":
        world.stop(queue="clear")
    else:
        control.close(world.owner, world.session, new_id())
    world.end()
    returned = {event.data["input"]: event.data["text"] for event in world.events("InputCancelled")}
    assert list(returned) == queued
    assert returned.pop(queued[-1]) == "short"
    for text, given in zip(long, returned.values(), strict=True):
        assert given["size"] == len(text.encode()) + 2
        assert read.long_text(world.session, given["ref"], 0, 10**9) == {"text": text, "offset": 0, "total": len(text)}
        assert read.long_text(world.session, given["ref"], 5, 3)["text"] == "\u4e00" * 3
    assert list(chain.verify(world.session)) == []
    for ref in ("", "x", "1", "999.text", "1.text", "-1.text", "٣.text", "9" * 30 + ".text"):
        with pytest.raises(Refused, match="not_found"):
            read.long_text(world.session, ref, 0, 10)


@pytest.mark.rule("A8")
def test_a_frozen_process_that_holds_the_lock_is_ended_by_the_server_and_a_stop_gets_through(world: World) -> None:
    world.start()
    holds, thaw = threading.Event(), threading.Event()

    def frozen() -> str:
        try:
            with db.cursor("write") as cur:
                cur.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (world.session,))
                holds.set()
                assert thaw.wait(30)
                cur.execute("SELECT 1")
        except db.LOST as error:
            return type(error).__name__
        return "it was not ended"

    def stop() -> str:
        assert holds.wait(10)
        began = time.monotonic()
        assert world.stop()["accepted"]
        took = time.monotonic() - began
        thaw.set()
        assert took < 6, f"{took:.1f} s"
        return ""

    assert together([frozen, stop])[0] in ("TransactionTimeout", "IdleInTransactionSessionTimeout", "OperationalError")
    world.end()
    assert world.events("TurnInterrupted")


@pytest.mark.rule("A8", "A4")
def test_a_command_that_was_frozen_itself_is_tried_again_when_it_thaws(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was ended meanwhile; to its sender it only took long."""
    waited: list[bool] = []

    def freeze_once(*_: object) -> None:
        if not waited:
            waited.append(True)
            wait_until(lambda: world.types()[-1] == "SteerQueued", "another command getting through")

    monkeypatch.setattr("sessions_app.control.transact.offers.offer_on_commit", lambda appended: None)
    monkeypatch.setattr("sessions_app.control.transact._notify_marks", freeze_once)

    def other() -> str:
        wait_until(lambda: waited, "the first command freezing")
        return world.steer("left")

    together([lambda: world.submit("hello"), other])
    assert world.types(3) == ["SteerQueued", "InputQueued"]


@pytest.mark.rule("A8")
def test_the_server_limits_every_connection_that_may_hold_a_lock(world: World) -> None:
    purposes: tuple[db.Purpose, ...] = ("write", "stop")
    for purpose in purposes:
        with db.cursor(purpose) as cur:
            limits = [
                cur.execute(f"SHOW {name}").fetchone()
                for name in ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
            ]
        assert limits == [("2s",)] * 3


@pytest.mark.rule("D2", "A8")
def test_a_steer_takes_one_short_transaction_whatever_the_turn_does(world: World) -> None:
    world.start()
    world.plan("a")
    world.start_tool("a")
    began = time.monotonic()
    receipt = control.steer(world.owner, world.session, new_id(), text="left")
    assert time.monotonic() - began < 2
    assert receipt["lands"]["when"] == "safe_point"
    assert receipt["lands"]["after"] == "tool"
    assert receipt["lands"]["running_ms"] >= 0
    assert receipt["seq"] == world.events("SteerQueued")[0].seq


@pytest.mark.rule("K1")
def test_closing_through_the_verbs_and_what_still_works_afterwards(world: World, ben: Any) -> None:
    waiting = world.submit("later")
    steer = world.steer("left")
    first = new_id()
    receipt = control.close(world.owner, world.session, first)
    assert receipt["closed"]
    assert control.close(world.owner, world.session, first) == receipt
    assert control.close(ben, world.session, new_id()) == {"closed": True}
    for command in (
        lambda: world.submit("more"),
        lambda: world.steer("more"),
        lambda: control.change_session(world.owner, world.session, new_id(), title="x"),
        lambda: control.release(world.owner, world.session, new_id()),
        lambda: world.stop(then={"text": "more"}),
    ):
        with pytest.raises(Refused) as refused:
            command()
        assert (refused.value.code, refused.value.status) == ("session_closing", 409)
    assert control.retract_input(world.owner, world.session, new_id(), waiting) == {"retracted": False}
    with pytest.raises(Refused, match="already_taken"):
        control.withdraw_steer(world.owner, world.session, new_id(), steer)
    control.change_session(world.owner, world.session, new_id(), archived=True, pinned=True)
    control.set_member(world.owner, world.session, new_id(), person="ben", role="observer")
    assert world.types()[-2:] == ["SessionClosed", "MemberChanged"]
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("B4", "M", "E12")
def test_what_was_taken_is_told_apart_from_what_never_was(world: World) -> None:
    taken, gone = world.submit("one"), world.submit("two")
    assert control.retract_input(world.owner, world.session, new_id(), gone)["retracted"]
    assert world.claim()
    steer = world.steer("left")
    world.begin()
    cases: list[tuple[str, Any]] = [
        ("already_taken", lambda: control.retract_input(world.owner, world.session, new_id(), taken)),
        ("already_taken", lambda: control.edit_input(world.owner, world.session, new_id(), taken, text="x")),
        ("already_taken", lambda: control.edit_input(world.owner, world.session, new_id(), gone, text="x")),
        ("already_taken", lambda: control.edit_input(world.owner, world.session, new_id(), gone, promote="normal")),
        ("already_taken", lambda: world.stop(then={"input": taken})),
        ("already_taken", lambda: control.edit_steer(world.owner, world.session, new_id(), steer, as_input=True)),
        ("already_taken", lambda: control.withdraw_steer(world.owner, world.session, new_id(), steer)),
        ("input_not_found", lambda: control.retract_input(world.owner, world.session, new_id(), new_id())),
        ("input_not_found", lambda: world.stop(then={"input": new_id()})),
        ("steer_not_found", lambda: control.withdraw_steer(world.owner, world.session, new_id(), new_id())),
        ("invalid", lambda: world.stop(then={})),
        ("invalid", lambda: world.stop(then={"text": "x", "input": taken})),
    ]
    for code, case in cases:
        with pytest.raises(Refused) as refused:
            case()
        assert refused.value.code == code
    assert control.retract_input(world.owner, world.session, new_id(), gone) == {"retracted": False}
    assert world.state()["turn"]["mark"] is None
