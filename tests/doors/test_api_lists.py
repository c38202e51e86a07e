"""Lists by REST: sessions, interruptions, and the stop over many sessions."""

from collections.abc import Callable
from typing import Any

import pytest

from sessions_app import control
from sessions_app.api import replies, stops
from sessions_app.ids import new_id
from sessions_app.models import Person
from tests.doors.callers import caller
from tests.support.world import World, person

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def stopped_session(name: str = "ana", reason: str | None = None, device: str = "phone") -> World:
    world = World.create(name)
    world.start()
    world.stop(person(name, device), reason=reason)
    world.end(acknowledged_ms=2)
    return world


def pages(get: Callable[..., Any], path: str, **query: Any) -> list[str]:
    """The ids of all items, a page of two at a time."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = get(path, limit=2, **query, **cursor).json
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def test_sessions_are_listed_with_their_state_in_words() -> None:
    ana, ben = caller("ana"), caller("ben")
    worlds = [World.create("ana") for _ in range(5)]
    worlds[2].start()
    World.create("ben")
    listed = replies.SessionList.model_validate(ana.get("/sessions").json)
    assert {item.id: item.state for item in listed.items} == {
        world.session: "running" if world is worlds[2] else "idle" for world in worlds
    }
    assert listed.items[0].id == worlds[2].session  # the last active first
    assert sorted(pages(ana.get, "/sessions")) == sorted(world.session for world in worlds)
    assert pages(ana.get, "/sessions", state="running") == [worlds[2].session]
    control.change_session(worlds[1].owner, worlds[1].session, new_id(), title="100% of it")
    assert pages(ana.get, "/sessions", q="100%") == [worlds[1].session]
    assert pages(ana.get, "/sessions", q="0%%") == []
    assert len(pages(ben.get, "/sessions")) == 1
    assert ana.get("/sessions", cursor="1").json["field"] == "cursor"
    assert ana.get("/sessions", q="a\0b").json["field"] == "q"


@pytest.mark.rule("E8", "L4")
def test_interruptions_are_listed_and_shown_to_those_who_may_read_them() -> None:
    first, second = stopped_session(reason="wrong branch"), stopped_session(reason="too slow")
    stranger = stopped_session("ben")
    ana = caller("ana")
    listed = replies.InterruptionList.model_validate(ana.get("/interruptions").json)
    assert [item.id for item in listed.items] == [second.turn, first.turn]
    item = listed.items[0]
    assert (item.session, item.turn, item.loop) == (second.session, second.turn, second.loop)
    assert (item.cause, item.reason, item.phase, item.ended_by) == ("person", "too slow", "model", "worker")
    assert (item.acknowledged_ms, item.steps_kept, item.actor["name"]) == (2, 0, "ana")
    assert item.actor["device"] == {"kind": "phone", "name": "ana's phone"}
    one = ana.get(f"/interruptions/{first.turn}")
    assert one.status == 200
    assert replies.InterruptionItem.model_validate(one.json).reason == "wrong branch"
    assert ana.get(f"/interruptions/{stranger.turn}").code == "not_found"
    assert pages(ana.get, f"/sessions/{first.session}/interruptions") == [first.turn]
    control.set_member(stranger.owner, stranger.session, new_id(), person="ana", role="observer")
    assert ana.get("/interruptions").json["items"][0]["actor"]["device"] == {"kind": "phone"}
    assert pages(ana.get, "/interruptions") == [stranger.turn, second.turn, first.turn]


@pytest.mark.rule("G1", "A3")
def test_an_interruption_says_the_task_of_the_sub_agent_whose_turn_it_was() -> None:
    world = World.create("ana")
    world.start("compare")
    (child,) = world.delegate("read the first folder")
    assert child.claim()
    child.begin()
    world.stop()
    child.end()
    world.end()
    ana = caller("ana")
    listed = replies.InterruptionList.model_validate(ana.get("/interruptions").json)
    assert [(item.id, item.task) for item in listed.items] == [
        (world.turn, None), (child.turn, "read the first folder"),
    ]  # fmt: skip
    assert listed.items[0].request == listed.items[1].request
    _, started = world.events("LoopStarted")
    control.erase(world.owner, world.session, new_id(), started.seq, "secret")
    assert ana.get(f"/interruptions/{child.turn}").json["task"] == ""


@pytest.mark.rule("G1")
def test_of_a_task_as_long_as_a_document_only_the_start_is_listed() -> None:
    world = World.create("ana")
    world.start("compare")
    (child,) = world.delegate("read “all” of it " * 5000)
    assert child.claim()
    child.begin()
    world.stop()
    child.end()
    ana = caller("ana")
    for item in (ana.get("/interruptions").json["items"][0], ana.get(f"/interruptions/{child.turn}").json):
        assert item["task"] == ("read “all” of it " * 5000)[:200]


def test_interruptions_are_filtered() -> None:
    first, second = stopped_session(reason="wrong branch"), stopped_session(reason="too slow")
    ana = caller("ana")
    times = {item["id"]: item["at"] for item in ana.get("/interruptions").json["items"]}
    for query, found in [
        ({"person": "ANA"}, [second, first]),
        ({"person": "ben"}, []),
        ({"cause": "person"}, [second, first]),
        ({"cause": "worker_lost"}, []),
        ({"reason": "BRANCH"}, [first]),
        ({"q": "slow"}, [second]),
        ({"from": times[second.turn]}, [second]),
        ({"to": times[second.turn]}, [first]),
        ({"from": times[first.turn], "to": times[first.turn]}, []),
    ]:
        assert pages(ana.get, "/interruptions", **query) == [world.turn for world in found], query
    for query in ({"from": "yesterday"}, {"from": "2026-11-30T08:00:00"}, {"format": "csv"}, {"attempts": "1"}):
        assert ana.get("/interruptions", **query).json["field"] == next(iter(query))


def test_somebody_s_interruptions_are_also_those_of_their_tokens() -> None:
    world, by_token = World.create("ana"), caller("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    world.start()
    by_token.post(f"/sessions/{world.session}/interrupt", {"wait": 0})
    world.end()
    ben = str(Person.objects.get(username="ben").id)
    stopped = world.turn
    world.start("and on")
    caller("ben", agent=True).post(f"/sessions/{world.session}/interrupt", {"wait": 0})
    world.end()
    for who, found in (("Ben", [stopped]), (ben, [stopped]), ("ana", []), ("test (agent of ben)", [world.turn])):
        assert pages(caller("ana").get, "/interruptions", person=who) == found


@pytest.mark.rule("B6")
def test_a_reason_is_given_afterwards_by_who_stopped() -> None:
    world = World.create("ana")
    ana, other = caller("ana"), caller("ana")
    world.start()
    ana.post(f"/sessions/{world.session}/interrupt", {"wait": 0})
    world.end()
    path = f"/interruptions/{world.turn}"
    assert other.patch(path, {"reason": "not mine"}).code == "not_allowed"
    assert ana.patch(path, {"reason": "wrong branch"}).status == 200
    assert ana.get(path).json["reason"] == "wrong branch"
    assert ana.patch(path, {"reason": " "}).code == "blank"
    assert ana.patch(f"/interruptions/{new_id()}", {"reason": "x"}).code == "not_found"


@pytest.mark.rule("E1")
def test_a_stop_of_mine_or_of_all_marks_every_session_in_a_transaction_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stops, "MANY_WAIT_S", 0.1)
    mine, waiting, theirs, watched, idle = (World.create(name) for name in ("ana", "ana", "ben", "ben", "ana"))
    for world, role in ((theirs, "owner"), (watched, "observer")):
        control.set_member(world.owner, world.session, new_id(), person="ana", role=role)
    for world in (mine, theirs, watched):
        world.start()
    waiting.submit()
    ana = caller("ana")
    answer = ana.post("/interrupt", {"reason": "lunch", "queue": "hold"})
    assert answer.status == 200
    outcome = {item["id"]: item for item in answer.json["sessions"]}
    replies.StoppedSessions.model_validate(answer.json)
    assert outcome.keys() == {mine.session, waiting.session}
    assert (outcome[mine.session]["stopped"], outcome[mine.session]["code"]) == (False, "deadline")
    assert outcome[mine.session]["turns"] == [mine.turn]
    assert (outcome[waiting.session]["stopped"], outcome[waiting.session]["note"]) == (False, "not_started")
    mine.end()
    both = {item["id"] for item in ana.post("/interrupt", {"scope": "all"}).json["sessions"]}
    assert both == {theirs.session}
    assert watched.events("InterruptRequested") == idle.events("InterruptRequested") == []
    admin = caller("kim", admin=True).post("/interrupt", {"scope": "all"})
    assert {item["id"] for item in admin.json["sessions"]} == {theirs.session, watched.session}
    assert watched.events("InterruptRequested")[0].actor.kind == "admin"


@pytest.mark.rule("A4", "E1")
def test_a_repeated_stop_of_many_is_about_the_sessions_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "MANY_WAIT_S", 0.1)
    first, later = World.create("ana"), World.create("ana")
    first.start()
    ana, key = caller("ana"), new_id()
    assert [item["id"] for item in ana.post("/interrupt", {}, key).json["sessions"]] == [first.session]
    later.start()
    assert [item["id"] for item in ana.post("/interrupt", {}, key).json["sessions"]] == [first.session]
    assert later.events("InterruptRequested") == []
    assert ana.post("/interrupt", {"scope": "all"}, key).code == "command_id_reused"
