"""Roles: who may do what, strangers learn nothing, and a dead credential may do nothing from the next command on."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from sessions_app.engine.actors import Device
from sessions_app.engine.errors import Refused
from sessions_app.models import Device as DeviceRow
from sessions_app.models import Member, Person, Token
from sessions_app.people.accounts import create_person, restore, suspend
from sessions_app.people.authenticate import from_bearer
from sessions_app.people.devices import sign_out_everywhere
from sessions_app.people.members import find_person, members_of
from sessions_app.people.principals import SYSTEM, Principal, for_admin, principal_for_person
from sessions_app.people.roles import CAN, ROLES, require, role_of, standings
from sessions_app.people.tokens import create_token, revoke
from tests.support.people import people, session_row, signed_in

Cur = psycopg.Cursor[tuple[object, ...]]


@pytest.fixture
def cur(database: str) -> Iterator[Cur]:
    """A plain psycopg cursor as the control uses it; each statement sees what is committed."""
    with psycopg.connect(database, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def code(cur: Cur, principal: Principal, session: object, verb: str) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        require(cur, principal, str(session), verb)
    return refused.value.code, refused.value.detail


def from_token(person: Person, *, agent: bool = False) -> Principal:
    principal = from_bearer(create_token(person, "ci", agent=agent))
    assert principal is not None
    return principal


@pytest.mark.rule("A5")
@pytest.mark.usefixtures("database")
def test_only_a_persons_own_token_is_at_the_terminal_its_client_names() -> None:
    [ana] = people("Ana")
    for agent, named, device in (
        (False, "steerweb-cli (desk-1)", Device("cli", "desk-1")),
        (False, "steerweb-cli (desk-1) and more", Device("api", "ci")),
        (True, "steerweb-cli (desk-1)", Device("api", "ci")),
    ):
        found = from_bearer(create_token(ana, "ci", agent=agent), named)
        assert found is not None and found.actor.device == device


def at_browser(person: Person) -> Principal:
    signed_in(person)
    return principal_for_person(person, DeviceRow.objects.get(person=person))


@pytest.mark.rule("M")
def test_every_verb_for_every_role(cur: Cur) -> None:
    ana, ben, kim = people("Ana", "Ben", "Kim")
    session = session_row(ana, Ben="operator", Kim="observer")
    work = {"submit", "edit", "retract", "release", "steer", "withdraw", "interrupt", "resolve", "set_mode"}
    everything = work | {"close", "change", "members", "erase", "withdraw_any"}
    assert CAN["owner"] == everything
    for person, role, may in ((ana, "owner", everything), (ben, "operator", work), (kim, "observer", set[str]())):
        principal = principal_for_person(person)
        assert require(cur, principal, session.id, "read") == role
        for verb in may:
            assert require(cur, principal, session.id, verb) == role
        for verb in everything - may:
            assert code(cur, principal, session.id, verb)[0] == "not_allowed"


@pytest.mark.rule("M")
def test_a_session_of_others_is_like_none(cur: Cur) -> None:
    ana, ben = people("Ana", "Ben")
    session = session_row(ana)
    for verb in ("read", *CAN["owner"]):
        answers = {code(cur, principal_for_person(ben), which, verb) for which in (session.id, uuid4(), "x", "", "\0")}
        assert len(answers) == 1
        assert answers.pop()[0] == "session_not_found"
        assert code(cur, from_token(ben), session.id, verb)[0] == "session_not_found"


@pytest.mark.rule("A5")
def test_an_administrator_may_read_stop_close_and_erase_where_they_are_no_member(cur: Cur) -> None:
    (ana,) = people("Ana")
    kim = create_person("Kim", admin=True)
    session = session_row(ana)
    principal = principal_for_person(kim, Device("desk", "Chrome on Linux"))
    for verb in ("read", "interrupt", "close", "erase"):
        assert require(cur, principal, session.id, verb) == "admin"
    for verb in CAN["owner"] - CAN["admin"]:
        assert code(cur, principal, session.id, verb)[0] == "not_allowed"
    assert code(cur, principal, uuid4(), "read")[0] == "session_not_found"
    actor = for_admin(principal).actor
    assert (actor.kind, actor.id, actor.name, actor.agency) == ("admin", str(kim.id), "Kim", "human")
    Member.objects.create(session=session, person=kim, role="observer")
    assert role_of(cur, principal, session.id) == "observer"
    assert code(cur, principal, session.id, "interrupt")[0] == "not_allowed"
    Person.objects.filter(pk=kim.pk).update(is_superuser=False)
    Member.objects.filter(person=kim).delete()
    assert role_of(cur, principal, session.id) is None


@pytest.mark.rule("A5")
def test_who_acts_is_fixed_by_the_credential(cur: Cur) -> None:
    kim = create_person("Kim", admin=True)
    person, token, agent = at_browser(kim), from_token(kim), from_token(kim, agent=True)
    assert [(p.actor.kind, p.actor.agency) for p in (person, token, agent)] == [
        ("person", "human"), ("token", "human"), ("agent", "machine"),
    ]  # fmt: skip
    assert [p.actor.name for p in (person, token, agent)] == ["Kim", "Kim via ci", "ci (agent of Kim)"]
    assert [p.key.split(":")[0] for p in (person, token, agent)] == ["person", "token", "token"]
    assert len({p.key for p in (person, token, agent)}) == 3
    assert person.actor.id == str(kim.id)
    assert {token.actor.id, agent.actor.id} == {str(row.id) for row in Token.objects.all()}
    assert (person.is_admin, token.is_admin, agent.is_admin) == (True, True, False)
    session = session_row(*people("Ana"))
    assert role_of(cur, agent, session.id) is None
    assert role_of(cur, token, session.id) == "admin"
    assert role_of(cur, SYSTEM, session.id) is None


def test_suspending_ends_every_credential_at_the_next_command(cur: Cur) -> None:
    (ana,) = people("Ana")
    session = session_row(ana)
    mine = [at_browser(ana), from_token(ana), from_token(ana, agent=True), principal_for_person(ana)]
    assert [s.role for s in standings(cur, mine, session.id)] == ["owner"] * 4
    suspend(ana)
    for principal in mine:
        assert code(cur, principal, session.id, "steer")[0] == "unauthenticated"
        assert role_of(cur, principal, session.id) is None
    restore(ana)
    assert [s.role for s in standings(cur, mine, session.id)] == [None, "owner", "owner", "owner"]


def test_signing_out_and_revoking_end_one_credential(cur: Cur) -> None:
    (ana,) = people("Ana")
    session = session_row(ana)
    browser, token, other = at_browser(ana), from_token(ana), from_token(ana)
    revoke(Token.objects.filter(person=ana).exclude(pk=str(other.token)))
    sign_out_everywhere(ana.id)
    assert code(cur, browser, session.id, "interrupt")[0] == "unauthenticated"
    assert code(cur, token, session.id, "interrupt")[0] == "unauthenticated"
    assert require(cur, other, session.id, "interrupt") == "owner"


def test_a_downgrade_and_a_removal_count_at_once(cur: Cur) -> None:
    ana, ben = people("Ana", "Ben")
    session = session_row(ana, Ben="owner")
    principal = principal_for_person(ben)
    assert require(cur, principal, session.id, "steer") == "owner"
    Member.objects.filter(session=session, person=ben).update(role="observer")
    assert code(cur, principal, session.id, "steer")[0] == "not_allowed"
    assert require(cur, principal, session.id, "read") == "observer"
    Member.objects.filter(session=session, person=ben).delete()
    assert code(cur, principal, session.id, "read")[0] == "session_not_found"


def test_many_standings_come_in_order_with_one_query(cur: Cur) -> None:
    ana, ben, kim = people("Ana", "Ben", "Kim")
    session = session_row(ana, Ben="observer")
    asked = [principal_for_person(p) for p in (kim, ben, ana, ben)] + [SYSTEM]
    found = standings(cur, asked, session.id)
    assert [(s.signed_in, s.role) for s in found] == [
        (True, None), (True, "observer"), (True, "owner"), (True, "observer"), (False, None),
    ]  # fmt: skip
    assert standings(cur, [], session.id) == []


def test_members_are_listed_owners_first(cur: Cur) -> None:
    ana, _, _ = people("Kim", "Ben", "ana")
    session = session_row(ana, Ben="observer", ana="owner")
    assert [m.json()["name"] for m in members_of(cur, session.id)] == ["ana", "Kim", "Ben"]
    assert {m.role for m in members_of(cur, str(session.id))} <= set(ROLES)


def test_people_are_found_by_name_in_any_case_and_by_id(cur: Cur) -> None:
    (ana,) = people("Ana")
    for who in ("Ana", "ana", " ANA ", str(ana.id), str(ana.id).upper()):
        found = find_person(cur, who)
        assert found is not None
        assert (found.person, found.name) == (ana.id, "Ana")
    for nobody in ("", "An", "%", "Ana\0", str(uuid4())):
        assert find_person(cur, nobody) is None


def test_a_name_that_looks_like_an_id_does_not_stand_in_for_its_person(cur: Cur) -> None:
    (ana,) = people("Ana")
    create_person(str(ana.id))
    found = find_person(cur, str(ana.id))
    assert found is not None
    assert found.name == "Ana"
