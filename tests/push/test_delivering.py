"""From an event to a push message that its device can read, once, for whom it is meant, and when it is wanted."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
import pytest
import redis

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.log import bell, db
from sessions_app.models import Device, Person, PushChoice, PushOutbox, PushSettings, PushSubscription
from sessions_app.people import devices
from sessions_app.people.accounts import create_person, suspend
from sessions_app.push import silence
from sessions_app.push.delivering import deliver_due
from sessions_app.push.keys import public_key
from sessions_app.push.quiet import quiet_until
from sessions_app.push.wording import BODY_CHARS
from tests.support.people import signed_in
from tests.support.push_service import PushService
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")


def again() -> None:
    """What waits for a later look is due now."""
    PushOutbox.objects.filter(due_at__isnull=False).update(due_at=datetime(2020, 1, 1, tzinfo=UTC))


def notes() -> list[tuple[str, str]]:
    return list(PushOutbox.objects.order_by("id").values_list("kind", "note"))


def look(world: World, who: str, looking: bool, redis_url: str) -> None:
    """A page of that person is there, as a web process tells it."""
    seat = [str(Person.objects.get(username=who).pk), who, "owner", "device", "desk", looking]
    with redis.Redis.from_url(redis_url) as client:
        client.sadd(bell.WATCHING.format(world.session), "process")
        client.set(f"{bell.WATCHING.format(world.session)}:process", orjson.dumps([seat]))


def test_an_open_approval_reaches_the_owners_device_encrypted_and_signed(service: PushService, settings: Any) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    gate = world.ask(command="git push origin")
    assert deliver_due() == 1
    [message] = service.messages
    assert message.headers["urgency"] == "high"
    assert message.headers["vapid-key"] == public_key(settings.SECRET_KEY)
    assert len(message.headers["topic"]) <= 32
    assert message.data == {
        "kind": "approval", "session": world.session, "seq": world.events("GateOpened")[0].seq, "title": "A test",
        "body": "May it run this command? git push origin", "gate": gate, "url": f"/s/{world.session}#ask-{gate}",
        "actions": ["allow", "deny", "stop"], "queue": "hold",
    }  # fmt: skip
    assert notes() == [("approval", "sent")]
    assert deliver_due() == 0


def test_two_workers_that_race_send_each_message_once(service: PushService) -> None:
    service.subscribe("ana")
    service.subscribe("ana")
    worlds = [World.create("ana") for _ in range(6)]
    for world in worlds:
        world.start()
        world.answer("it is done")
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait()
        with ThreadPoolExecutor(4) as threads:
            deliver_due(threads)

    racing = [threading.Thread(target=work) for _ in range(2)]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    sent = sorted((message.path, message.data["session"]) for message in service.messages)
    assert sent == sorted((path, world.session) for path in ("/push/0", "/push/1") for world in worlds)


def test_ends_are_told_in_words_with_a_link_to_their_turn(service: PushService) -> None:
    service.subscribe("ana")
    done, failed, stopped = (World.create("ana") for _ in range(3))
    done.start()
    done.answer("All tests\npass.")
    failed.start()
    failed.report(commands.Fail(failed.turn, failed.epoch, "provider", "the model is away"))
    stopped.start()
    create_person("ben")
    control.set_member(stopped.owner, stopped.session, new_id(), person="ben", role="owner")
    stopped.stop(person("ben"), reason="wrong branch")
    stopped.end()
    deliver_due()
    said = {message.data["kind"]: message.data for message in service.messages}
    assert said["ended"]["body"].endswith("All tests pass.")
    assert said["ended"]["url"] == f"/s/{done.session}#{done.turn}"
    assert "the model is away" in said["failed"]["body"]
    assert said["stopped"]["body"] == "Stopped by ben from a desk (ben's desk). “wrong branch”"
    assert all("actions" not in data for data in said.values())


def test_nobody_is_told_of_a_stop_of_their_own(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    world.start()
    world.stop()
    world.end()
    deliver_due()
    assert notes() == [("stopped", "their own stop")]


def test_without_a_subscription_nothing_is_written(service: PushService) -> None:
    world = World.create("ana")
    world.ask()
    service.subscribe("kim")  # no member
    world.stop()
    world.end()
    assert not PushOutbox.objects.exists()


def test_others_are_told_only_of_what_they_chose_and_see_no_more_than_their_role(service: PushService) -> None:
    for name in ("ben", "kim"):
        service.subscribe(name)
    world = World.create("ana")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="observer")
    world.ask()
    assert not PushOutbox.objects.exists()  # not theirs
    kim = Person.objects.get(username="kim")
    PushChoice.objects.create(person=kim, session_id=world.session, level="all")
    world.stop()
    world.end()
    deliver_due()
    [message] = service.messages
    assert message.data["body"] == "Stopped by ana from a desk."  # and not what the desk is called
    assert "actions" not in message.data
    other = World.create("ana")
    control.set_member(other.owner, other.session, new_id(), person="kim", role="observer")
    PushChoice.objects.create(person=kim, session_id=other.session, level="all")
    other.ask()
    deliver_due()
    assert "actions" not in service.messages[-1].data


def test_the_level_asks_tells_approvals_and_failures_only(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    PushChoice.objects.create(person=Person.objects.get(username="ana"), session_id=world.session, level="asks")
    gate = world.ask()
    deliver_due()
    control.resolve(world.owner, world.session, new_id(), gate, decision="allow")
    world.start_tool("c1")
    world.settle("c1")
    world.begin()
    world.answer()
    deliver_due()
    assert notes() == [("approval", "sent"), ("answered", "sent"), ("ended", "not wanted")]


def test_kinds_one_does_not_want_are_not_sent(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    PushSettings.objects.create(person=Person.objects.get(username="ana"), unwanted=["ended", "approval"])
    gate = world.ask()
    control.resolve(world.owner, world.session, new_id(), gate, decision="deny")
    deliver_due()
    assert notes() == [("approval", "not wanted"), ("answered", "not wanted")]
    assert not service.messages


def test_whoever_looks_at_the_session_is_not_told_and_an_approval_waits_until_they_look_away(
    service: PushService, redis_url: str
) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    look(world, "ana", True, redis_url)
    world.start()
    world.answer()
    world.ask()
    deliver_due()
    assert notes() == [("ended", "they look at it"), ("approval", "")]
    look(world, "ana", False, redis_url)
    again()
    deliver_due()
    assert [message.data["kind"] for message in service.messages] == ["approval"]


def test_an_approval_that_was_answered_in_time_is_not_sent(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    control.resolve(world.owner, world.session, new_id(), world.ask(), decision="deny")
    deliver_due()
    assert notes() == [("approval", "answered"), ("answered", "it was not shown")]


def test_an_answered_approval_is_taken_back_from_the_device_that_shows_it(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    gate = world.ask()
    deliver_due()
    create_person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    control.resolve(person("ben"), world.session, new_id(), gate, decision="allow")
    deliver_due()
    first, second = service.messages
    assert second.headers["topic"] == first.headers["topic"]  # what was not delivered yet is replaced on the way
    assert (second.data["kind"], second.data["body"], second.data["seq"] > first.data["seq"]) == (
        "answered", "Allowed by ben.", True,
    )  # fmt: skip


def quiet_now() -> dict[str, Any]:
    hour = datetime.now(UTC).hour
    return {"quiet_from": f"{(hour - 1) % 24:02}:00", "quiet_to": f"{(hour + 2) % 24:02}:00", "zone": "UTC"}


def test_in_quiet_hours_nothing_is_sent_and_an_approval_waits_for_their_end(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    PushSettings.objects.create(person=Person.objects.get(username="ana"), **quiet_now())
    world.start()
    world.answer()
    world.ask()
    deliver_due()
    assert not service.messages
    assert notes() == [("ended", "quiet hours"), ("approval", "")]
    later = PushOutbox.objects.get(kind="approval").due_at
    assert later is not None and later > datetime.now(UTC)
    PushSettings.objects.update(quiet_from=None)
    again()
    deliver_due()
    assert [message.data["kind"] for message in service.messages] == ["approval"]


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-11-29T21:30:00Z", "2026-11-30T06:00:00Z"),  # 22:30 in Berlin
        ("2026-11-30T05:59:00Z", "2026-11-30T06:00:00Z"),
        ("2026-11-30T06:00:00Z", None),
        ("2026-11-29T20:59:00Z", None),
        ("2026-07-01T20:30:00Z", "2026-07-02T05:00:00Z"),  # summer time
    ],
)
def test_quiet_hours_go_by_a_persons_own_clock_and_over_midnight(at: str, until: str | None) -> None:
    from datetime import time

    found = quiet_until(datetime.fromisoformat(at), time(22), time(7), "Europe/Berlin")
    assert found == (None if until is None else datetime.fromisoformat(until))


@pytest.mark.parametrize("status", [404, 410])
def test_a_subscription_that_is_gone_is_removed(service: PushService, status: int) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    world.ask()
    service.answers = [(status, {})]
    deliver_due()
    assert not PushSubscription.objects.exists()
    assert notes() == [("approval", f"the service says {status}")]


def test_what_a_service_cannot_take_now_is_tried_again_and_dropped_in_the_end(service: PushService) -> None:
    service.subscribe("ana")
    World.create("ana").ask()
    service.answers = [(429, {"Retry-After": "1800"}), (500, {}), (503, {}), (502, {}), (500, {})]
    deliver_due()
    [row] = PushOutbox.objects.all()
    assert row.due_at is not None and (row.due_at - datetime.now(UTC)).total_seconds() > 1700
    for _ in range(8):
        again()
        deliver_due()
    [row] = PushOutbox.objects.all()
    assert (row.due_at, row.note, len(service.requests)) == (None, "the service says 500", 5)


def test_a_redirect_is_not_followed(service: PushService) -> None:
    service.subscribe("ana")
    World.create("ana").ask()
    service.answers = [(307, {"Location": f"{service.origin}/push/0"})]
    deliver_due()
    assert len(service.requests) == 1
    assert not service.messages


def test_what_a_dead_sender_had_in_hand_comes_back(service: PushService) -> None:
    service.subscribe("ana")
    World.create("ana").ask()
    with db.cursor("write") as cur:  # claimed, and never heard of again
        cur.execute("UPDATE push_outbox SET due_at = now() + interval '1 minute'")
    assert deliver_due() == 0
    again()
    assert deliver_due() == 1
    assert len(service.messages) == 1


def test_a_signed_out_device_is_told_nothing_and_keeps_no_subscription(service: PushService) -> None:
    service.subscribe("ana")
    kept = service.subscribe("ana")
    world = World.create("ana")
    world.ask()
    devices.sign_out(Device.objects.exclude(pk=kept.device_id))
    deliver_due()
    assert [message.path for message in service.messages] == [f"/push/{kept.endpoint.rsplit('/')[-1]}"]
    assert list(PushSubscription.objects.all()) == [kept]
    suspend(Person.objects.get(username="ana"))
    assert not PushSubscription.objects.exists()


def test_whoever_is_no_member_any_more_is_told_nothing(service: PushService) -> None:
    service.subscribe("ben")
    world = World.create("ana")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    PushChoice.objects.create(person=Person.objects.get(username="ben"), session_id=world.session, level="all")
    world.ask()
    control.set_member(world.owner, world.session, new_id(), person="ben", role=None)
    deliver_due()
    assert not service.messages
    assert ("approval", "no member any more") in notes()


def test_a_silence_is_told_once_and_the_next_one_again(service: PushService, sql: psycopg.Connection[Any]) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    world.start()
    silence.note_silence()
    assert not PushOutbox.objects.exists()

    def pass_time() -> None:
        sql.execute("UPDATE session SET active_at = now() - interval '11 minutes'")
        silence.note_silence()
        silence.note_silence()
        deliver_due()

    pass_time()
    assert [message.data["kind"] for message in service.messages] == ["silent"]
    assert service.messages[0].data["actions"] == ["stop"]
    world.steer("anybody there?")
    pass_time()
    assert len(service.messages) == 2


def test_a_limit_that_is_near_is_told_once(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    control.change_loop(world.owner, world.session, new_id(), limits={"steps": 5})
    world.start()
    for step in range(4):
        world.plan(f"c{step}")
        world.start_tool(f"c{step}")
        world.settle(f"c{step}")
        deliver_due()
        world.begin()
    [message] = service.messages
    assert (message.data["kind"], message.data["body"]) == ("budget", "A limit is near: steps of a turn.")


def test_a_message_is_bounded_and_masked_whatever_stands_in_it(service: PushService) -> None:
    service.subscribe("ana")
    world = World.create("ana")
    control.change_session(world.owner, world.session, new_id(), title="🚀\u202e" * 55)
    world.start()
    world.answer("sw_" + "a" * 43 + " 🚀" * 5000)
    deliver_due()
    [message] = service.messages
    assert "sw_" not in message.data["body"]
    assert "\u202e" not in message.data["title"]
    assert len(message.data["body"]) <= BODY_CHARS + 1


def test_a_browser_that_somebody_else_signs_in_with_is_theirs(service: PushService) -> None:
    ana, ben = create_person("ana"), create_person("ben")
    browser = service.browser()
    for account in (ana, ben):
        answer = signed_in(account).post("/notifications/device", browser.json(), content_type="application/json")
        assert answer.status_code == 204
    [row] = PushSubscription.objects.all()
    assert row.device.person_id == ben.pk


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.org/x", "https://127.0.0.1/x", "https://10.0.0.1/x", "https://localhost/x",
        "https://intranet/x", "https://push.example.org:8443/x", "https://u@push.example.org/", "file:///etc/passwd",
        "https://[::1]/x", "https://" + "a" * 3000, 7, None,
    ],
)  # fmt: skip
def test_this_server_is_not_made_to_call_its_own_network(service: PushService, endpoint: Any) -> None:
    browser = {**service.browser().json(), "endpoint": endpoint}
    answer = signed_in(create_person("ana")).post("/notifications/device", browser, content_type="application/json")
    assert (answer.status_code, PushSubscription.objects.exists()) == (400, False)
