"""The session list by REST: one's own places, words found in messages, and the stop of many."""

from typing import Any

import psycopg
import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import chain, search
from sessions_app.people.principals import Principal
from tests.doors.callers import Caller, caller
from tests.support.world import World, person

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def found(who: Caller, **query: Any) -> list[str]:
    return [item["id"] for item in who.get("/sessions", **query).json["items"]]


def join(world: World, name: str, role: str = "observer") -> Principal:
    person(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role=role)
    return person(name)


@pytest.mark.rule("A4")
def test_everybody_keeps_a_session_in_their_own_list(world: World) -> None:
    join(world, "kim")
    ana, kim = caller("ana"), caller("kim")
    path, key = f"/sessions/{world.session}", new_id()
    head = world.events()[-1].seq
    assert kim.patch(path, {"archived": True, "pinned": True}, key).status == 200
    assert kim.get(path).json["archived"] is True and kim.get(path).json["pinned"] is True
    assert ana.get(path).json["archived"] is False
    assert (found(kim), found(kim, state="archived"), found(ana)) == ([], [world.session], [world.session])
    assert kim.patch(path, {"archived": False}).status == 200
    assert kim.patch(path, {"archived": True, "pinned": True}, key).status == 200  # a repetition changes nothing
    assert found(kim) == [world.session]
    assert kim.patch(path, {"title": "Mine now", "archived": True}).code == "not_allowed"
    assert found(kim) == [world.session]
    assert world.events()[-1].seq == head  # no event tells of it
    assert caller("ben").patch(path, {"pinned": True}).code == "session_not_found"
    assert caller("root", admin=True).patch(path, {"pinned": True}).code == "not_allowed"
    assert list(chain.verify(world.session)) == []


def test_what_is_archived_is_found_and_comes_back_with_a_message(world: World) -> None:
    ana = caller("ana")
    ana.patch(f"/sessions/{world.session}", {"archived": True})
    assert found(ana, state="idle") == []
    assert found(ana, q="test") == [world.session]
    world.start()
    assert found(ana) == [world.session]
    ana.patch(f"/sessions/{world.session}", {"archived": True})
    assert (found(ana), found(ana, state="running")) == ([], [world.session])
    world.steer("not so fast")
    assert found(ana) == [world.session]


@pytest.mark.rule("A3", "L4")
def test_a_message_is_found_by_members_only_and_an_erased_one_by_nobody(world: World) -> None:
    join(world, "kim")
    stranger = World.create("ben")
    stranger.submit("quixotic of ben")
    world.start('A quixotic plan, with 100% "quotes" and back\\slashes\nin two lines')
    world.plan("c1", text="Quixotically, I shall look first.")
    world.start_tool("c1")
    world.settle("c1", output="unsearched output")
    world.begin()
    world.answer("Done, quixotically.")
    ana, kim = caller("ana"), caller("kim")
    assert found(ana, q="QUIXOTIC") == found(kim, q="quixotic") == [world.session]
    hit = ana.get("/sessions", q="quixotic").json["items"][0]["hit"]
    assert (hit["text"], hit["marks"], hit["by"]) == ("Done, quixotically.", [[6, 14]], None)
    assert hit["turn"] == world.turn
    for words in ('"quotes"', "back\\slashes", "100%", "plan lines", "in two lines"):
        assert found(ana, q=words) == [world.session], words
    for words in ("0%%", "unsearched", "echo", "plan first", "nquixotic", "xy"):
        assert found(ana, q=words) == [], words
    for event in world.events("InputQueued", "StepPlanned", "StepDone"):
        if "text" in event.data:
            control.erase(world.owner, world.session, new_id(), event.seq, "a secret")
    assert found(ana, q="quixotic") == []
    assert list(chain.verify(world.session)) == list(chain.rebuild(world.session)) == []


def test_who_started_a_session_is_a_filter(world: World) -> None:
    other = World.create("ben")
    join(other, "ana", "owner")
    ana = caller("ana")
    assert found(ana, person="BEN") == [other.session]
    assert found(ana, person=str(other.owner.person)) == [other.session]
    assert found(ana, person="nobody") == []


def test_a_word_that_all_messages_hold_is_ended_in_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LIMIT_MS", 1)
    monkeypatch.setattr(search, "_ORDER", " AND pg_sleep(1) IS NOT NULL" + search._ORDER)
    world.submit("hello there")
    answer = caller("ana").get("/sessions", q="hello")
    assert (answer.status, answer.json["field"]) == (400, "q")


def test_an_excerpt_is_one_line_around_the_words() -> None:
    text = "first line\n" + "filler " * 40 + "the needle stands\there " + "more " * 60
    shown, marks = search.excerpt(text, ["NEEDLE", "need", "here"])
    assert shown.startswith("…") and shown.endswith("…") and len(shown) < 170
    assert [shown[start:end] for start, end in marks] == ["needle", "here"]
    assert search.excerpt("İstanbul needle", ["needle"]) == ("İstanbul needle", [(9, 15)])


@pytest.mark.rule("A3")
def test_a_damaged_row_is_in_no_search_and_in_nobody_s_way(sql: psycopg.Connection[dict[str, Any]]) -> None:
    world = World.create("ana")
    world.submit("needle in here")
    sql.execute("SET session_replication_role = replica")
    sql.execute("UPDATE event SET texts = '\\xff00' WHERE type = 'InputQueued'")
    assert found(caller("ana"), q="needle") == []
    search.tidy()


@pytest.mark.rule("E1", "E4")
def test_a_stop_of_many_names_them_first_and_is_bounded_in_time() -> None:
    mine, theirs, watched = World.create("ana"), World.create("ben"), World.create("ben")
    join(theirs, "ana", "owner")
    join(watched, "ana")
    for each in (mine, theirs, watched):
        each.start()
    ana = caller("ana")
    named = ana.get("/interrupt", scope="all").json["sessions"]
    assert {(one["id"], one["started_by"]) for one in named} == {(mine.session, "ana"), (theirs.session, "ben")}
    assert [one["id"] for one in ana.get("/interrupt").json["sessions"]] == [mine.session]
    body = {"scope": "all", "sessions": [mine.session, watched.session], "wait": 0}
    late = ana.post("/interrupt", {**body, "not_after": "2020-01-01T00:00:00Z"}).json["sessions"]
    assert [(one["id"], one["code"]) for one in late] == [(mine.session, "too_late")]
    assert "now_ms" in late[0]["data"]
    key = new_id()
    assert [one["code"] for one in ana.post("/interrupt", body, key).json["sessions"]] == ["deadline"]
    mine.end()
    [done] = ana.post("/interrupt", body, key).json["sessions"]
    assert (done["stopped"], done["note"]) == (True, None)
    assert not theirs.events("InterruptRequested") and not watched.events("InterruptRequested")
    [over] = ana.post("/interrupt", {**body, "sessions": [mine.session]}).json["sessions"]
    assert (over["stopped"], over["note"]) == (False, "idle")


@pytest.mark.rule("E12")
def test_what_waits_is_paused_unless_a_session_has_a_rule_of_its_own() -> None:
    usual, ruled = World.create("ana"), World.create("ana", stop_queue="run")
    for each in (usual, ruled):
        each.start()
        each.submit("and then")
    caller("ana").post("/interrupt", {"otherwise": "hold", "wait": 0})
    assert usual.events("InterruptRequested")[0].data["queue"] == "hold"
    assert ruled.events("InterruptRequested")[0].data["queue"] == "run"
