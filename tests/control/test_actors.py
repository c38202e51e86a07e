"""Who did it: every event and every refused attempt names its actor, and nobody becomes a person by accident."""

from typing import Any

import psycopg
import pytest

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.models import Person
from sessions_app.people.principals import Principal, principal_for_person
from sessions_app.people.tokens import create_token, principal_from_token
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def world() -> World:
    return World.create()


def token(name: str, label: str, *, agent: bool = False) -> Principal:
    """A principal by an API token of that person."""
    principal = principal_from_token(create_token(Person.objects.get(username=name), label, agent=agent))
    assert principal is not None
    return principal


def admin(name: str) -> Principal:
    return principal_for_person(Person.objects.create(username=name, is_superuser=True))


@pytest.mark.rule("A5")
def test_an_event_names_who_from_which_device_and_by_which_command(world: World) -> None:
    ben, id = person("ben", "phone"), new_id()
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    control.submit(ben, world.session, id, text="hello")
    [queued] = world.events("InputQueued")
    assert queued.cause == id
    assert queued.actor == ben.actor
    assert queued.actor.json() == {
        "kind": "person", "id": str(ben.person), "name": "ben", "device": {"kind": "phone", "name": "ben's phone"},
    }  # fmt: skip


@pytest.mark.rule("A5")
def test_agency_is_fixed_by_how_one_signed_in(world: World) -> None:
    world.submit("by hand")
    world.submit("by a script of hers", token("ana", "CI"))
    world.submit("by an agent of hers", token("ana", "nightly", agent=True))
    queued = world.events("InputQueued")
    assert [(event.actor.kind, event.data["agency"]) for event in queued] == [
        ("person", "human"), ("token", "human"), ("agent", "machine"),
    ]  # fmt: skip
    assert [entry["agency"] for entry in world.state()["inbox"]] == ["human", "human", "machine"]


@pytest.mark.rule("A5", "E8")
@pytest.mark.parametrize("how", ["person", "token", "agent", "admin"])
def test_each_kind_of_stop_has_its_cause_and_its_actor(world: World, how: str, sql: Sql) -> None:
    stopper = {
        "person": lambda: world.owner,
        "token": lambda: token("ana", "CI"),
        "agent": lambda: token("ana", "nightly", agent=True),
        "admin": lambda: admin("kim"),
    }[how]()
    world.start()
    assert world.stop(stopper, reason="wrong")["accepted"]
    world.end()
    [terminal] = world.events("TurnInterrupted")
    cause = "token" if how == "agent" else how
    assert (terminal.data["cause"], terminal.actor.kind, terminal.actor.id) == (cause, how, stopper.actor.id)
    [row] = sql.execute("SELECT actor, cause, reason, phase FROM interruption").fetchall()
    assert (row["actor"], row["cause"], row["reason"], row["phase"]) == (terminal.actor.json(), cause, "wrong", "model")


@pytest.mark.rule("A5", "M")
def test_an_administrator_among_strangers_stops_closes_and_erases_and_nothing_else(world: World) -> None:
    kim = admin("kim")
    world.submit("hello")
    [queued] = world.events("InputQueued")
    refused: list[Any] = [
        lambda: world.submit("x", kim),
        lambda: world.steer("x", who=kim),
        lambda: control.retract_input(kim, world.session, new_id(), queued.data["input"]),
        lambda: control.release(kim, world.session, new_id()),
        lambda: control.change_session(kim, world.session, new_id(), title="x"),
        lambda: control.set_member(kim, world.session, new_id(), person="kim", role="owner"),
    ]
    for command in refused:
        with pytest.raises(Refused, match="not_allowed"):
            command()
    control.erase(kim, world.session, new_id(), queued.seq, "a pasted key")
    world.stop(kim)
    control.close(kim, world.session, new_id())
    acts = world.events("ContentErased", "InterruptRequested", "SessionClosed")
    assert [event.actor.kind for event in acts] == ["admin", "admin", "admin"]
    own = control.create_session(kim, new_id())
    control.submit(kim, own["id"], new_id(), text="in her own session she is a person")
    assert World(kim, own["id"], own["loop"]).events("InputQueued")[0].actor.kind == "person"


@pytest.mark.rule("A5")
def test_what_a_worker_and_the_program_do_is_theirs(world: World) -> None:
    world.start()
    world.plan("a")
    world.start_tool("a")
    world.settle("a")
    world.begin()
    world.answer()
    work = [event for event in world.events() if event.turn is not None or event.type in ("LoopIdle", "SessionIdle")]
    assert {(event.actor.kind, event.actor.id) for event in work} == {("system", WORKER)}
    assert all(event.cause for event in work)


@pytest.mark.rule("A9", "E3")
def test_a_stop_that_found_nothing_or_joined_is_an_audit_row_and_no_event(world: World, sql: Sql) -> None:
    ben = person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    before, id = len(world.events()), new_id()
    assert control.interrupt(world.owner, world.session, id)["note"] == "idle"
    assert len(world.events()) == before
    turn = world.start()
    world.stop()
    world.stop(ben)
    world.end()
    world.stop(ben, turn=turn)
    rows = sql.execute("SELECT * FROM audit ORDER BY id").fetchall()
    assert [(row["attempt"], row["outcome"], row["actor"]["name"]) for row in rows] == [
        ("Interrupt", "idle", "ana"), ("Interrupt", "joined", "ben"), ("Interrupt", "turn_over", "ben"),
    ]  # fmt: skip
    assert (str(rows[0]["session"]), rows[0]["data"]) == (world.session, {"id": id})


@pytest.mark.rule("A9", "M")
def test_a_refused_command_is_an_audit_row_in_its_sender_s_name(world: World, sql: Sql) -> None:
    kim = person("kim")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="observer")
    world.start()
    world.stop()
    turn = world.turn
    before = len(world.events())
    refused: list[Any] = [
        lambda: world.submit("x", kim),
        lambda: world.stop(kim),
        lambda: control.set_member(kim, world.session, new_id(), person="kim", role="owner"),
        lambda: control.erase(kim, world.session, new_id(), 1, "why"),
        lambda: control.give_reason(kim, turn, new_id(), "why"),
        lambda: world.steer(" "),
        lambda: control.steer(world.owner, world.session, new_id(), text="x", turn=turn),
        lambda: control.set_member(world.owner, world.session, new_id(), person="nobody", role="owner"),
        lambda: control.set_member(world.owner, world.session, new_id(), person="ana", role="observer"),
    ]
    world.end()
    for command in refused:
        with pytest.raises(Refused):
            command()
    assert world.types(before) == ["TurnInterrupted", "LoopIdle", "SessionIdle"]
    rows = sql.execute("SELECT attempt, outcome, actor ->> 'name' AS name FROM audit ORDER BY id").fetchall()
    assert [tuple(row.values()) for row in rows] == [
        ("submit", "not_allowed", "kim"), ("interrupt", "not_allowed", "kim"), ("members", "not_allowed", "kim"),
        ("erase", "not_allowed", "kim"), ("reason", "not_allowed", "kim"), ("steer", "blank", "ana"),
        ("steer", "turn_mismatch", "ana"), ("members", "not_found", "ana"), ("members", "invalid", "ana"),
    ]  # fmt: skip


@pytest.mark.rule("A9", "M")
def test_what_comes_too_late_is_an_audit_row_that_says_what_its_sender_was_told(world: World, sql: Sql) -> None:
    gate = world.ask()
    steered = world.steer("soon")
    taken, back = world.events("TurnStarted")[-1].data["input"], world.submit("later")
    control.resolve(world.owner, world.session, new_id(), gate, decision="deny")
    world.start_tool("c1", commands.Effect("command", "git push origin"), "git push origin")
    world.begin()  # the steer is delivered

    def retract(input: str) -> dict[str, Any]:
        return control.retract_input(world.owner, world.session, new_id(), input)

    assert retract(back)["retracted"] is True
    assert retract(back)["retracted"] is False
    late: list[tuple[str, Any]] = [
        ("resolve", lambda: control.resolve(world.owner, world.session, new_id(), gate, decision="allow")),
        ("retract", lambda: retract(taken)),
        ("edit", lambda: control.edit_input(world.owner, world.session, new_id(), back, text="x")),
        ("edit", lambda: control.edit_steer(world.owner, world.session, new_id(), steered, text="x")),
        ("withdraw", lambda: control.withdraw_steer(world.owner, world.session, new_id(), steered)),
        ("interrupt", lambda: world.stop(then={"input": taken})),
        ("retract", lambda: retract(new_id())),
    ]
    told = []
    for attempt, command in late:
        with pytest.raises(Refused) as refused:
            command()
        told.append((attempt, refused.value.code))
    assert [code for _, code in told] == ["gate_closed", *["already_taken"] * 5, "input_not_found"]
    rows = sql.execute("SELECT attempt, outcome FROM audit ORDER BY id").fetchall()
    assert [tuple(row.values()) for row in rows] == [("retract", "unchanged"), *told]


@pytest.mark.rule("A9", "M")
def test_a_stranger_learns_nothing_and_leaves_no_row(world: World, sql: Sql) -> None:
    stranger, sentences = person("ben"), set()
    for session in (world.session, new_id(), "nonsense"):
        with pytest.raises(Refused, match="session_not_found") as refused:
            control.submit(stranger, session, new_id(), text="x")
        sentences.add(refused.value.detail)
    assert len(sentences) == 1, "existing or not, it reads the same"
    assert sql.execute("SELECT * FROM audit").fetchall() == []


@pytest.mark.rule("A9")
def test_the_audit_is_append_only(world: World, sql: Sql) -> None:
    world.stop()
    for statement in ("UPDATE audit SET outcome = 'x'", "DELETE FROM audit", "TRUNCATE audit"):
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
            sql.execute(statement)
    assert len(sql.execute("SELECT * FROM audit").fetchall()) == 1


@pytest.mark.rule("B6")
def test_a_reason_may_be_given_afterwards_by_who_stopped_within_a_day(world: World, sql: Sql) -> None:
    ben = person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    turn = world.start()
    world.stop()
    world.end()
    [terminal] = world.events("TurnInterrupted")
    with pytest.raises(Refused, match="not_allowed"):
        control.give_reason(ben, turn, new_id(), "not his to give")
    id = new_id()
    control.give_reason(world.owner, turn, id, "wrong branch")
    control.give_reason(world.owner, turn, id, "wrong branch")
    [given] = world.events("InterruptReasonGiven")
    assert (given.turn, given.data) == (
        turn, {"request": terminal.data["request"], "turn": turn, "reason": "wrong branch"},
    )  # fmt: skip
    assert sql.execute("SELECT reason FROM interruption").fetchall() == [{"reason": "wrong branch"}]
    sql.execute("UPDATE interruption SET at = at - interval '25 hours'")
    with pytest.raises(Refused, match="not_allowed"):
        control.give_reason(world.owner, turn, new_id(), "too late")
