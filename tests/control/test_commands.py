"""A command id is used once: repeated, concurrent, cut off in the middle or refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
import pytest
from psycopg import Cursor

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import chain, db
from sessions_app.log.db import Purpose, Row
from tests.support.together import together
from tests.support.waiting import wait_until
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")


@pytest.fixture
def world() -> World:
    return World.create()


@pytest.mark.rule("A4", "B1")
@pytest.mark.scenario("D17")
def test_the_same_id_and_content_give_the_first_receipt_and_change_nothing(world: World) -> None:
    """A client whose acknowledgement was lost sends again after its reconnect: stored once, one turn starts (D17)."""
    id = new_id()
    first = control.submit(world.owner, world.session, id, text="hello")
    head = len(world.events())
    assert control.submit(world.owner, world.session, id, text="hello") == first
    assert control.submit(world.owner, world.session.upper(), id, text="hello") == first
    assert len(world.events()) == head
    assert world.claim()
    assert control.submit(world.owner, world.session, id, text="hello") == first
    assert not world.claim()
    assert len(world.events("InputQueued")) == len(world.events("TurnStarted")) == 1


@pytest.mark.rule("A4", "M")
def test_the_same_id_for_something_else_is_refused(world: World) -> None:
    id, other = new_id(), World.create("ben")
    control.submit(world.owner, world.session, id, text="hello")
    again: list[Any] = [
        lambda: control.submit(world.owner, world.session, id, text="other text"),
        lambda: control.steer(world.owner, world.session, id, text="hello"),
        lambda: control.submit(world.owner, world.session, id, text="hello", loop=world.loop),
    ]
    for command in again:
        with pytest.raises(Refused) as refused:
            command()
        assert (refused.value.code, refused.value.status) == ("command_id_reused", 409)
    control.submit(other.owner, other.session, id, text="another person's id is another id")
    assert len(world.events("InputQueued", "SteerQueued")) == 1


@pytest.mark.rule("A4")
def test_one_id_for_two_sessions_at_once_lands_in_one_of_them(world: World) -> None:
    made = control.create_session(world.owner, new_id())
    id = new_id()

    def submit(session: str) -> str:
        try:
            return str(control.submit(world.owner, session, id, text="hello")["input"])
        except Refused as refused:
            return refused.code

    outcomes = together([lambda: submit(world.session), lambda: submit(made["id"])])
    assert sorted(outcome == "command_id_reused" for outcome in outcomes) == [False, True]


@pytest.mark.rule("A4")
def test_a_refusal_is_not_kept(world: World) -> None:
    steers = [world.steer(f"{n}") for n in range(16)]
    id = new_id()
    with pytest.raises(Refused, match="steer_full"):
        control.steer(world.owner, world.session, id, text="more")
    control.withdraw_steer(world.owner, world.session, new_id(), steers[0])
    assert control.steer(world.owner, world.session, id, text="more")["lands"] == {"when": "next_turn"}


@pytest.mark.rule("A4")
def test_permission_is_checked_again_when_a_command_is_repeated(world: World) -> None:
    kim, id = person("kim"), new_id()
    control.set_member(world.owner, world.session, new_id(), person="kim", role="owner")
    control.submit(kim, world.session, id, text="hello")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="observer")
    with pytest.raises(Refused, match="not_allowed"):
        control.submit(kim, world.session, id, text="hello")
    control.set_member(world.owner, world.session, new_id(), person="kim", role=None)
    with pytest.raises(Refused, match="session_not_found"):
        control.submit(kim, world.session, id, text="hello")


@pytest.mark.rule("A4", "A1")
def test_permission_is_read_under_the_lock(world: World, database: str) -> None:
    """A removal that has the lock first wins over a command that came before its commit."""
    kim = person("kim")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="owner")
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (world.session,))
        other.execute("DELETE FROM member WHERE person_id = %s", (kim.person,))

        def submit() -> str:
            with pytest.raises(Refused) as refused:
                control.submit(kim, world.session, new_id(), text="hello")
            return refused.value.code

        def commit_once_it_waits() -> str:
            wait_until(lambda: waiting_for_the_lock(database), "the command waiting for the lock")
            other.commit()
            return ""

        assert together([submit, commit_once_it_waits])[0] == "session_not_found"


def waiting_for_the_lock(database: str) -> list[int]:
    """The server processes that wait for a lock."""
    with psycopg.connect(database, autocommit=True) as connection:
        rows = connection.execute(
            """SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.rule("A4")
def test_the_same_id_from_eight_threads_lands_once(world: World) -> None:
    id, create = new_id(), new_id()
    receipts = together([lambda: control.submit(world.owner, world.session, id, text="hello")] * 8)
    assert receipts == [receipts[0]] * 8
    assert len(world.events("InputQueued")) == 1
    made = together([lambda: control.create_session(world.owner, create, title="One")] * 8)
    assert made == [made[0]] * 8
    assert len(chain.sessions()) == 2


@pytest.mark.rule("A4", "E3")
def test_a_repeated_interrupt_has_the_outcome_of_the_first(world: World) -> None:
    world.start()
    id = new_id()
    first = control.interrupt(world.owner, world.session, id, reason="stop")
    assert control.interrupt(world.owner, world.session, id, reason="stop") == first
    assert control.stop_outcome(world.session, first) is None
    world.end()
    again = control.interrupt(world.owner, world.session, id, reason="stop")
    assert control.wait_stopped(world.session, again, 1) == {
        "stopped": True, "joined": False, "turns": [world.turn], "note": None,
    }  # fmt: skip
    assert len(world.events("InterruptRequested")) == 1


@pytest.mark.rule("A4", "C1")
def test_a_repeated_report_lands_once(world: World) -> None:
    world.start()
    world.plan("a", "b")
    assert world.plan("a", "b") == {"marked": False, "outcome": "planned"}
    start = commands.StartTool(world.turn, world.epoch, world.step, "a", {"command": "echo a"}, gate=new_id())
    for _ in range(2):
        assert world.report(start)["outcome"] == "started"
    for _ in range(2):
        assert world.settle("a")["outcome"] == "settled"
    world.start_tool("b")
    world.settle("b")
    world.begin()
    world.begin()
    for _ in range(2):
        assert world.answer()["outcome"] == "done"
    assert world.types(3) == [
        "InputQueued", "TurnStarted", "StepPlanned", "ToolStarted", "ToolSettled", "ToolStarted", "ToolSettled",
        "StepDone", "StepDone", "TurnDone", "LoopIdle", "SessionIdle",
    ]  # fmt: skip


@pytest.mark.rule("A4", "C6")
def test_a_repeated_end_lands_once_and_one_of_eight_at_once_too(world: World) -> None:
    world.start()
    world.stop()
    outcomes = together([lambda: world.end()] * 8)
    assert outcomes == [outcomes[0]] * 8
    assert len(world.events("TurnInterrupted")) == 1


@pytest.mark.rule("J1", "A4", "B2")
def test_of_eight_claims_at_once_one_gets_the_turn(world: World) -> None:
    world.submit()
    claims = together([lambda: reports.claim(world.session, world.loop, WORKER)] * 8)
    assert sorted(claim["claimed"] for claim in claims) == [False] * 7 + [True]
    assert len(world.events("TurnStarted")) == 1


@pytest.mark.rule("A4")
def test_a_command_whose_connection_is_cut_while_it_waits_is_tried_again_and_lands_once(
    world: World, database: str
) -> None:
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (world.session,))

        def cut() -> None:
            [waiting] = wait_until(lambda: waiting_for_the_lock(database), "the command waiting for the lock")
            other.execute("SELECT pg_terminate_backend(%s)", (waiting,))
            other.commit()

        together([lambda: world.submit("hello"), cut])
    assert len(world.events("InputQueued")) == 1
    assert list(chain.verify(world.session)) == []


@contextmanager
def losing(monkeypatch: pytest.MonkeyPatch, *, after_commit: bool) -> Iterator[list[int]]:
    """The next transaction's connection is lost: in its middle, or after its commit and before anybody heard of it."""
    real, cut = db.cursor, [0]

    @contextmanager
    def cursor(purpose: Purpose, *, together: bool = False) -> Iterator[Cursor[Row]]:
        lose, cut[0] = cut[0] == 0, cut[0] + 1
        with real(purpose, together=together) as cur:
            yield cur
            if lose and not after_commit:
                cur.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        if lose:
            raise psycopg.OperationalError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr("sessions_app.control.transact.db.cursor", cursor)
        yield cut


@pytest.mark.rule("A4")
@pytest.mark.parametrize("after_commit", [False, True])
def test_a_command_whose_connection_is_lost_is_tried_again_and_lands_once(
    world: World, monkeypatch: pytest.MonkeyPatch, after_commit: bool
) -> None:
    with losing(monkeypatch, after_commit=after_commit) as tries:
        world.submit("hello")
    assert tries == [2]
    with losing(monkeypatch, after_commit=after_commit):
        made = control.create_session(world.owner, new_id(), title="Another")
    assert sorted(chain.sessions()) == sorted([world.session, made["id"]])
    with losing(monkeypatch, after_commit=after_commit):
        assert world.claim()
    with losing(monkeypatch, after_commit=after_commit):
        world.stop()
    with losing(monkeypatch, after_commit=after_commit):
        world.end()
    assert world.types(3) == [
        "InputQueued", "TurnStarted", "InterruptRequested", "TurnInterrupted", "LoopIdle", "SessionIdle",
    ]  # fmt: skip
    assert list(chain.verify()) == []


@pytest.mark.rule("A4", "L5")
def test_when_every_pooled_connection_was_cut_the_next_command_still_lands(world: World, database: str) -> None:
    """As after a restart of the server: ten stale connections, five tries."""
    together([lambda: world.submit("fill the pool")] * 10)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'steerweb %'"""
        )
    before = len(world.events())
    world.submit("after the restart")
    assert len(world.events()) == before + 1


@pytest.mark.rule("M", "A4")
def test_what_the_database_cannot_do_is_unavailable_with_a_hint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(purpose: Purpose, *, together: bool = False) -> NoReturn:
        raise psycopg.OperationalError("no server")

    with monkeypatch.context() as patch:
        patch.setattr("sessions_app.control.transact.db.cursor", gone)
        patch.setattr("sessions_app.control.transact.time.sleep", lambda seconds: None)
        with pytest.raises(Refused) as refused:
            world.submit("hello")
    assert (refused.value.code, refused.value.status, refused.value.retry_after) == ("unavailable", 503, 2)


@pytest.mark.rule("C1", "M")
def test_a_stale_report_is_refused_and_nothing_is_kept_of_it(world: World) -> None:
    world.start()
    with pytest.raises(Refused) as refused:
        world.report(commands.FinishModel(world.turn, world.epoch + 1, 1, "late"))
    assert refused.value.code == "stale"
    assert world.answer()["outcome"] == "done"


@pytest.mark.rule("M")
@pytest.mark.parametrize("id", ["", "nonsense", "0192f3a4-0000-7000-8000-00000000000g", "\ud800", "\0"])
def test_an_id_that_cannot_be_one_names_nothing(world: World, id: str) -> None:
    calls: list[tuple[str, Any]] = [
        ("session_not_found", lambda: control.submit(world.owner, id, new_id(), text="x")),
        ("input_not_found", lambda: control.edit_input(world.owner, world.session, new_id(), id, text="x")),
        ("input_not_found", lambda: control.retract_input(world.owner, world.session, new_id(), id)),
        ("steer_not_found", lambda: control.edit_steer(world.owner, world.session, new_id(), id, text="x")),
        ("steer_not_found", lambda: control.withdraw_steer(world.owner, world.session, new_id(), id)),
        ("loop_not_found", lambda: control.steer(world.owner, world.session, new_id(), text="x", loop=id)),
        ("loop_not_found", lambda: world.stop(loop=id)),
        ("input_not_found", lambda: world.stop(then={"input": id})),
        ("not_found", lambda: control.give_reason(world.owner, id, new_id(), "why")),
    ]
    for code, call in calls:
        with pytest.raises(Refused) as refused:
            call()
        assert (refused.value.code, refused.value.status) == (code, 404)


@pytest.mark.rule("B1", "E12")
def test_the_receipt_of_a_message_says_how_many_before_it_are_paused_and_do_not_hold_it_up() -> None:
    world = World.create("ana")
    world.start()
    world.submit("paused")
    world.stop(queue="hold")
    world.end()
    receipt = control.submit(world.owner, world.session, new_id(), text="new")
    assert (receipt["position"], receipt["paused"]) == (1, 1)
    assert world.claim()
    assert world.events("TurnStarted")[-1].data["input"] == receipt["input"]
