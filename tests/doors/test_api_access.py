"""Nothing of the API is reachable without signing in, and cookies need their CSRF token."""

import json

import pytest
from django.test import Client

from sessions_app import control
from sessions_app.api.app import api
from sessions_app.ids import new_id
from sessions_app.models import Device, Person
from tests.doors.callers import Caller, caller, token_of
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def test_every_operation_refuses_those_who_are_signed_out() -> None:
    nobody, stale = Caller(), Caller("sw_" + "x" * 43)
    operations = [(path, method) for path, methods in api.get_openapi_schema()["paths"].items() for method in methods]
    assert len(operations) >= 25
    operations += [("/api/v1/openapi.json", "get"), ("/api/v1/nowhere", "get"), ("/api/v1/nowhere", "post")]
    for path, method in operations:
        address = path.removeprefix("/api/v1").replace("{seq}", "1")
        for name in ("session", "input_id", "steer_id", "interruption", "person"):
            address = address.replace(f"{{{name}}}", new_id())
        for who in (nobody, stale):
            answer = who.send(method.upper(), address, {})
            assert (answer.status, answer.code) == (401, "unauthenticated"), (method, path)
            assert answer.response.headers["WWW-Authenticate"] == "Bearer"


def test_the_health_pages_are_open_and_say_nothing() -> None:
    browser = Client()
    assert browser.get("/health/live").json().keys() == {"ok", "instance"}
    assert browser.get("/health/ready").json().keys() == {"ok", "database", "redis"}


def test_the_live_page_names_the_instance_of_its_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERWEB_INSTANCE", "abc")
    assert Client().get("/health/live").json() == {"ok": True, "instance": "abc"}


def browser_of(name: str) -> Client:
    """A signed-in browser that checks CSRF as real ones do."""
    person, _ = Person.objects.get_or_create(username=name)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(person)
    Device.objects.create(
        person=person, session_key=browser.session.session_key or "", kind="desk", name="Firefox on Linux"
    )
    return browser


def test_a_cookie_reads_freely_and_writes_only_with_its_csrf_token() -> None:
    world, browser = World.create("ana"), browser_of("ana")
    assert browser.get("/api/v1/me").json()["kind"] == "person"
    path, body = f"/api/v1/sessions/{world.session}/inputs", json.dumps({"text": "hi"})
    refused = browser.post(path, body, "application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert world.events("InputQueued") == []
    browser.cookies["csrftoken"] = "a" * 32
    accepted = browser.post(path, body, "application/json", headers={"X-CSRFToken": "a" * 32})
    assert accepted.status_code == 202
    assert world.events("InputQueued")[0].actor.kind == "person"


def test_a_cookie_beside_a_dead_token_counts_for_nothing() -> None:
    browser = browser_of("ana")
    answer = browser.get("/api/v1/me", headers={"Authorization": "Bearer sw_dead"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


@pytest.mark.rule("A5")
def test_a_token_is_a_persons_or_an_agents_and_needs_no_csrf_token() -> None:
    world = World.create("ana")
    for token, kind, agency in [
        (token_of("ana"), "token", "human"),
        (token_of("ana", agent=True), "agent", "machine"),
    ]:
        strict = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})
        path = f"/api/v1/sessions/{world.session}/inputs"
        assert strict.post(path, json.dumps({"text": "hi"}), "application/json").status_code == 202
        queued = world.events("InputQueued")[-1]
        assert (queued.actor.kind, queued.data["agency"]) == (kind, agency)


@pytest.mark.rule("M")
def test_a_strangers_session_does_not_exist() -> None:
    world, ben = World.create("ana"), caller("ben")
    session = f"/sessions/{world.session}"
    reads = [ben.get(session + part) for part in ("", "/state", "/events", "/members", "/interruptions")]
    writes = [
        ben.post(session + "/inputs", {"text": "hi"}),
        ben.post(session + "/steers", {"text": "hi"}),
        ben.post(session + "/interrupt", {}),
        ben.post(session + "/close", {}),
        ben.patch(session, {"title": "mine"}),
    ]
    for answer in reads + writes:
        assert (answer.status, answer.code) == (404, "session_not_found")


@pytest.mark.rule("L4")
def test_an_observer_reads_without_what_is_hidden_and_may_nothing_else() -> None:
    world, ben = World.create("ana"), caller("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="observer")
    session = f"/sessions/{world.session}"
    events = ben.get(session + "/events").json["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    changed = next(event for event in events if event["type"] == "MemberChanged")
    started = next(event for event in events if event["type"] == "LoopStarted")
    assert changed["data"] == {}
    assert "instructions" not in started["data"]
    assert changed["actor"]["device"] == {"kind": "desk"}
    world.start()
    world.stop()
    (request,) = ben.get(session + "/state").json["state"]["requests"].values()
    assert request["actor"]["device"] == {"kind": "desk"}
    assert ben.get(session).json["members"] == []
    assert ben.get(session + "/members").code == "not_allowed"
    for answer in [
        ben.post(session + "/inputs", {"text": "hi"}),
        ben.post(session + "/steers", {"text": "hi"}),
        ben.post(session + "/interrupt", {}),
        ben.post(session + "/close", {}),
        ben.post(session + "/members", {"person": "ben", "role": "owner"}),
        ben.post(session + "/events/1/erase", {"reason": "x"}),
        ben.patch(session, {"title": "mine"}),
    ]:
        assert (answer.status, answer.code) == (403, "not_allowed")


def test_me_says_who_and_which_models_have_a_key_but_never_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-nobody-may-see")
    answer = caller("ana").get("/me")
    ready = {provider["name"] for provider in answer.json["providers"] if provider["ready"]}
    assert {"demo", "anthropic"} <= ready
    assert "google" not in ready
    assert (answer.json["kind"], answer.json["is_admin"]) == ("token", False)
    assert b"a-key-nobody-may-see" not in answer.response.content


def test_the_openapi_document_is_for_those_who_are_signed_in() -> None:
    document = caller("ana").get("/openapi.json").json
    assert "/api/v1/sessions/{session}/interrupt" in document["paths"]
    assert Caller().get("/openapi.json").code == "unauthenticated"
