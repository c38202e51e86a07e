"""Whose words they are stays so, whoever moves them; and a stop that sends something is a submit too (A5, B4, D3)."""

from functools import partial

import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.transcript import Transcript
from sessions_app.ids import new_id
from sessions_app.models import Member, Person
from sessions_app.people.principals import principal_for_person
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.rule("B4", "D3", "A5")
def test_a_promoted_message_keeps_its_author_for_the_model_and_the_state() -> None:
    world, ben = World.create(), person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    world.start()
    entry = world.submit("use the staging database", ben)
    control.edit_input(world.owner, world.session, new_id(), entry, promote="normal")
    assert world.state()["steers"][0]["author"]["name"] == "ben"
    world.answer()
    transcript = Transcript()
    transcript.feed(world.events())
    assert "Message from ben" in transcript.entries[-1].text
    assert world.events("SteerQueued")[0].actor.name == "ana", "the event is still hers"


@pytest.mark.rule("B4", "A5")
def test_a_steer_made_a_message_by_somebody_else_keeps_author_and_agency() -> None:
    world, ben = World.create(), person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    steer = world.steer("later", who=ben)
    control.edit_steer(world.owner, world.session, new_id(), steer, as_input=True)
    waiting = world.state()["inbox"][0]
    assert (waiting["author"]["name"], waiting["agency"]) == ("ben", "human")


@pytest.mark.rule("D8", "D3")
def test_a_steer_is_taken_back_by_its_sender_or_an_owner_and_changed_by_its_sender() -> None:
    world, ben, kim = World.create(), person("ben", "phone"), person("kim")
    for name in ("ben", "kim"):
        control.set_member(world.owner, world.session, new_id(), person=name, role="observer")
    Member.objects.filter(person__username__in=["ben", "kim"]).update(role="operator")
    world.start()
    steer, other = world.steer("left", who=ben), world.steer("right", who=ben)
    for take in (control.withdraw_steer, partial(control.edit_steer, as_input=True)):
        with pytest.raises(Refused) as refused:
            take(kim, world.session, new_id(), steer)
        assert (refused.value.code, refused.value.data) == ("not_allowed", {"role": "operator"})
    with pytest.raises(Refused) as refused:
        control.edit_steer(world.owner, world.session, new_id(), steer, text="right")
    assert refused.value.code == "not_allowed"
    control.edit_steer(ben, world.session, new_id(), steer, text="further left")
    control.withdraw_steer(ben, world.session, new_id(), steer)
    control.withdraw_steer(world.owner, world.session, new_id(), other)
    assert [event.data["reason"] for event in world.events("SteerWithdrawn")] == ["sender", "owner"]


@pytest.mark.rule("A5", "E12")
def test_an_administrator_among_strangers_may_stop_but_not_stop_and_send() -> None:
    world = World.create()
    world.start()
    account, _ = Person.objects.get_or_create(username="kim", defaults={"is_superuser": True, "is_staff": True})
    kim = principal_for_person(account)
    with pytest.raises(Refused) as refused:
        world.stop(kim, then={"text": "do my work"})
    assert refused.value.code == "not_allowed" and not world.events("InterruptRequested")
    assert world.stop(kim)["accepted"] is True
    assert world.events("InterruptRequested")[0].actor.kind == "admin"


@pytest.mark.rule("K1")
def test_a_stop_of_one_loop_of_a_closed_session_is_told_that_it_is_closed() -> None:
    world = World.create()
    control.close(world.owner, world.session, new_id())
    assert world.stop(loop=world.loop)["note"] == "closing"
