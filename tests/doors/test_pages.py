"""The pages: what they show to whom, that they read and stop without scripts, and that agent text stays text."""

import json
import re
from http import HTTPStatus
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django import Settings

from sessions_app import control, views
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.models import Person
from sessions_app.pages.words import outcome
from sessions_app.people.accounts import create_person
from steerweb import runtime
from tests.doors.callers import caller
from tests.support.people import signed_in
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")

HOSTILE = "<details open ontoggle=\"window.__x=1\">x</details></script><a href='javascript:alert(1)'>link</a>"
DESK = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def browser(name: str, user_agent: str = DESK, **options: Any) -> Client:
    """A signed-in browser of an account that may exist already."""
    account = Person.objects.filter(username=name).first() or create_person(name)
    return signed_in(account, user_agent, **options)


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, (answer.status_code, answer.content[:500])
    return answer.content.decode()


def boot_of(html: str) -> Any:
    found = re.search(r'<script id="boot" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def join(world: World, name: str, role: str = "observer") -> Client:
    """A browser of a new member."""
    client = browser(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role=role)
    return client


def stopped(world: World, **fields: Any) -> str:
    """A turn that was stopped in a running call; its id."""
    turn = world.start("go")
    world.plan("c1")
    world.start_tool("c1")
    world.stop(**fields)
    world.end(acknowledged_ms=6, cut_off={"text": "half a sent"})
    return turn


def test_an_empty_list_offers_the_demonstration_and_says_as_whom_commands_run() -> None:
    page = text_of(browser("ana"), "/")
    assert "Start the demonstration" in page
    assert "not isolated yet" in page


def test_the_list_shows_state_in_words_and_can_be_searched_and_filtered() -> None:
    world, client = World.create("ana"), browser("ana")
    world.start()
    control.change_session(world.owner, world.session, new_id(), title="Billing tables")
    page = text_of(client, "/")
    assert f'href="/s/{world.session}"' in page
    assert "Billing tables" in page
    assert "Demonstration</span>" in page
    assert "Thinking, " in page
    assert world.session in text_of(client, "/?q=billing")
    assert "No session fits" in text_of(client, "/?q=payroll")
    assert "No session fits" in text_of(client, "/?state=closed")
    assert world.session in text_of(client, "/?state=running&q=tables")


def test_strangers_find_no_session_and_nobody_gets_in_unsigned() -> None:
    world = World.create("ana")
    ben = browser("ben")
    for path in (
        f"/s/{world.session}",
        f"/s/{world.session}/interruptions",
        f"/s/{new_id()}",
        "/interruptions/" + new_id(),
    ):
        assert "There is nothing here" in text_of(ben, path, HTTPStatus.NOT_FOUND)
        assert Client().get(path).status_code == HTTPStatus.FOUND
    assert world.session not in text_of(ben, "/")
    answer = ben.post(f"/s/{world.session}/stop")
    assert answer.status_code == HTTPStatus.NOT_FOUND


@pytest.mark.rule("L1")
def test_a_session_page_is_a_snapshot_at_s_with_the_events_up_to_s() -> None:
    world, client = World.create("ana"), browser("ana")
    world.start("list the files")
    world.plan("c1", text="I will look.")
    boot = boot_of(text_of(client, f"/s/{world.session}"))
    events = boot["events"]
    assert [event["seq"] for event in events] == list(range(1, boot["seq"] + 1))
    assert boot["events"][0]["seq"] == 1
    assert boot["state"]["loops"][world.loop]["turn"]["id"] == world.turn
    assert boot["you"]["role"] == "owner"
    assert "interrupt" in boot["you"]["can"]


def test_a_session_page_carries_only_the_newest_events_and_says_that_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, client = World.create("ana"), browser("ana")
    for number in range(40):
        world.submit(f"message {number} " + "x" * 100)
    monkeypatch.setattr(views, "PAGE_BYTES", 2_000)
    boot = boot_of(text_of(client, f"/s/{world.session}"))
    assert len(boot["events"]) == views.PAGE_LEAST
    assert boot["events"][-1]["seq"] == boot["seq"]
    assert boot["events"][0]["seq"] > 1


@pytest.mark.scenario("D20")
def test_the_timeline_reads_without_scripts_and_keeps_what_was_said_and_cut_off() -> None:
    world, client = World.create("ana"), browser("ana")
    turn = world.start("x" * 3000)
    world.stop(reason="wrong branch")
    world.end(acknowledged_ms=6, cut_off={"text": "half a sentence"})
    for page in (text_of(client, f"/s/{world.session}"), text_of(join(world, "kim"), f"/s/{world.session}")):
        assert "x" * 3000 in page
        assert "half a sentence" in page
        assert 'class="prose cut"' in page
        assert "Stopped by <bdi>ana</bdi>" in page
        assert "wrong branch" in page
        assert f'href="/interruptions/{turn}"' in page


@pytest.mark.scenario("D30")
def test_agent_text_is_text_on_every_page() -> None:
    world, client = World.create("ana"), browser("ana")
    control.change_session(world.owner, world.session, new_id(), title=HOSTILE)
    world.start(HOSTILE)
    world.steer(HOSTILE)
    world.plan("c1", text=HOSTILE)
    world.start_tool("c1")
    world.settle("c1", output=HOSTILE)
    world.stop(reason=HOSTILE)
    world.end(cut_off={"text": HOSTILE, "reasoning": HOSTILE})
    for path in ("/", f"/s/{world.session}", "/interruptions", f"/interruptions/{world.turn}"):
        page = text_of(client, path)
        assert "<details open ontoggle" not in page
        assert "<a href='javascript:" not in page
        assert "&lt;details open" in page, path


def test_no_page_needs_more_than_a_strict_policy_allows() -> None:
    world, client = World.create("ana"), browser("ana")
    turn = stopped(world)
    for path in ("/", f"/s/{world.session}", "/interruptions", f"/interruptions/{turn}", "/nowhere"):
        answer = client.get(path)
        page = answer.content.decode()
        assert "'unsafe" not in answer.headers["Content-Security-Policy"]
        assert not re.search(r"<[a-z][^>]*\s(style|on[a-z]+)=", page), path
        for script in re.findall(r"<script[^>]*>", page):
            assert "src=" in script or 'type="application/json"' in script


@pytest.mark.rule("L4")
def test_an_observer_sees_the_same_page_without_the_dock_and_without_devices() -> None:
    world = World.create("ana")
    stopped(world)
    page = text_of(join(world, "kim"), f"/s/{world.session}")
    assert 'id="stop"' not in page
    assert 'id="say"' not in page
    assert 'data-opens="people"' not in page
    assert "ana&#x27;s desk" not in page
    boot = boot_of(page)
    assert "ana's desk" not in json.dumps(boot)
    assert boot["you"]["can"] == []
    assert [event["seq"] for event in boot["events"]] == list(range(1, boot["seq"] + 1))
    assert "ana&#x27;s desk" in text_of(browser("ana"), f"/s/{world.session}")


def test_the_plain_form_stops_and_its_page_shows_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client = World.create("ana"), browser("ana", enforce_csrf_checks=True)
    world.start("first")
    world.submit("second")
    path = f"/s/{world.session}"
    page = text_of(client, path)
    assert f'action="{path}/stop"' in page
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token is not None
    monkeypatch.setattr(views, "STOP_WAIT_S", 0.05)
    assert client.post(f"{path}/stop").status_code == HTTPStatus.FORBIDDEN
    assert not world.events("InterruptRequested")
    answer = client.post(f"{path}/stop", {"csrfmiddlewaretoken": token[1]})
    assert answer["Location"] == f"{path}?stopped={world.turn}"
    assert world.events("InterruptRequested")[0].data["queue"] == "hold"
    pending = text_of(client, answer["Location"])
    assert "Stop receipt" in pending
    assert "Load this page again to see" in pending
    world.end(acknowledged_ms=6)
    after = text_of(client, answer["Location"])
    assert f'data-seq="{world.events("TurnInterrupted")[0].seq}"' in after
    assert "1 message stays paused" in after
    assert "Load this page again to see" not in after


def test_the_plain_form_says_when_there_was_nothing_to_stop() -> None:
    world, client = World.create("ana"), browser("ana")
    answer = client.post(f"/s/{world.session}/stop")
    assert "Nothing was running, so nothing was stopped." in text_of(client, answer["Location"])


def test_an_observers_form_post_is_refused_in_words() -> None:
    world = World.create("ana")
    world.start()
    kim = join(world, "kim")
    answer = kim.post(f"/s/{world.session}/stop")
    assert answer.status_code == HTTPStatus.FORBIDDEN
    assert "You watch this session" in answer.content.decode()
    assert not world.events("InterruptRequested")


@pytest.mark.rule("E8")
def test_the_interruptions_table_says_who_from_where_why_and_what_it_cost() -> None:
    world, client = World.create("ana"), browser("ana")
    turn = stopped(world, who=person("ana", "phone"), reason="wrong branch")
    for path in ("/interruptions", f"/s/{world.session}/interruptions"):
        page = text_of(client, path)
        for words in ("ana", "from a phone", "wrong branch", "a running tool", "6 ms", "1 step", "11 characters"):
            assert words in page, words
        assert f'href="/interruptions/{turn}"' in page
    assert turn in text_of(client, "/interruptions?cause=person&q=branch")
    assert turn not in text_of(client, "/interruptions?cause=worker_lost")
    assert "Nothing fits" in text_of(client, "/interruptions?q=payroll")


@pytest.mark.rule("E1", "L4", "G1")
def test_a_stop_of_several_sessions_shows_each_reader_their_own_part_alone() -> None:
    seen, hidden, ben, zoe = World.create("ana"), World.create("ana"), browser("ben"), browser("zoe")
    control.change_session(hidden.owner, hidden.session, new_id(), title="Payroll")
    control.set_member(seen.owner, seen.session, new_id(), person="ben", role="observer")
    for world in (seen, hidden):
        world.start("go")
    (child,) = hidden.delegate("read the salaries")
    assert child.claim()
    child.begin()
    control.interrupt_many(person("ana", "phone"), new_id(), "mine", reason="lunch")
    for world in (child, hidden, seen):
        world.end(acknowledged_ms=6)
    whole = text_of(browser("ana"), f"/interruptions/{seen.turn}")
    for words in ("3 agents", "Payroll", "read the salaries"):
        assert words in whole, words
    pages = [
        text_of(ben, path)
        for path in ("/interruptions", f"/s/{seen.session}/interruptions", f"/interruptions/{seen.turn}")
    ]
    api = [caller("ben").get(path).json for path in ("/interruptions", f"/interruptions/{seen.turn}")]
    assert [item["id"] for item in api[0]["items"]] == [seen.turn]
    for told in (*pages, *map(json.dumps, api)):
        assert seen.session in told
        assert "lunch" in told
        for words in (
            "Payroll",
            "salaries",
            hidden.session,
            hidden.turn,
            child.turn,
            "ana's phone",
            "ana&#x27;s phone",
        ):
            assert words not in told, words
    assert not any("agents" in page.partition("<main")[2] for page in pages)
    assert "Nothing has been stopped yet" in text_of(zoe, "/interruptions")
    assert "Nothing fits" in text_of(zoe, "/interruptions?q=lunch")
    for turn in (seen.turn, hidden.turn, child.turn):
        text_of(zoe, f"/interruptions/{turn}", HTTPStatus.NOT_FOUND)
    for turn in (hidden.turn, child.turn):
        text_of(ben, f"/interruptions/{turn}", HTTPStatus.NOT_FOUND)
        assert caller("ben").get(f"/interruptions/{turn}").code == "not_found"
    assert caller("zoe").get("/interruptions").json["items"] == []


def test_a_cursor_that_no_page_gave_is_refused_in_words() -> None:
    client = browser("ana")
    for cursor in ("2026-W01-1~x", "2026-11-30T00:00:00Z~%00~1", "%00"):
        page = text_of(client, f"/interruptions?cursor={cursor}", HTTPStatus.BAD_REQUEST)
        assert "This cursor is not one of ours." in page
    assert "Nothing fits" in text_of(client, "/interruptions?cause=%00&person=%00&q=%00&reason=%00")


@pytest.mark.rule("E8")
def test_one_interruption_tells_everything_its_terminal_holds() -> None:
    world, client = World.create("ana"), browser("ana")
    turn = stopped(world, who=person("ana", "phone"), reason="wrong branch")
    page = text_of(client, f"/interruptions/{turn}")
    for words in (
        "Stopped by <bdi>ana</bdi> from a phone",
        "wrong branch",
        "the worker ended it",
        "half a sent",
        "The worker got it",
    ):
        assert words in page, words
    assert f'href="/s/{world.session}?from={turn}"' in page
    kim = text_of(join(world, "kim"), f"/interruptions/{turn}")
    assert "from a phone" in kim
    assert "ana&#x27;s phone" not in kim


def test_of_a_lost_call_nobody_says_how_long_it_ran() -> None:
    assert outcome({"outcome": "lost", "duration_ms": 0}) == "worker died, result unknown"
    assert outcome({"outcome": "ok", "duration_ms": 1200}) == "done, 1.2 s"


def test_an_interruption_of_a_lost_worker_names_no_person() -> None:
    world, client = World.create("ana"), browser("ana")
    world.start()
    world.end(cause="worker_lost", settled_ms=12_000, unknown=True)
    page = text_of(client, f"/interruptions/{world.turn}")
    assert "worker died, result unknown" in page
    assert "It cannot be proven that everything has ended." in page
    assert "<dt>Asked by</dt><dd>no person: the worker died</dd>" in page


@pytest.mark.rule("E8")
@pytest.mark.parametrize(
    ("cause", "words", "call"),
    [
        ("worker_shutdown", "the worker was shut down", "ended, the worker was shut down"),
        ("worker_lost", "the worker died", "ended, the worker died"),
    ],
)
def test_an_end_that_no_person_asked_for_says_what_it_was(cause: str, words: str, call: str) -> None:
    world, client = World.create("ana"), browser("ana")
    world.start("go")
    world.plan("c1")
    world.start_tool("c1")
    world.end(cause=cause, settlements={"c1": commands.Settlement("interrupted")})
    page = text_of(client, f"/interruptions/{world.turn}")
    assert f"<dt>Asked by</dt><dd>no person: {words}</dd>" in page
    assert call in text_of(client, f"/s/{world.session}")
    for path in (f"/interruptions/{world.turn}", f"/s/{world.session}"):
        assert "by the stop" not in text_of(client, path)


def test_who_closed_a_session_has_asked_for_the_end_of_what_ran() -> None:
    world, client = World.create("ana"), browser("ana")
    world.start("go")
    control.close(world.owner, world.session, new_id())
    world.end()
    page = text_of(client, f"/interruptions/{world.turn}")
    assert re.search(r"<dt>Asked by</dt><dd><bdi class=\"who p\d\">ana</bdi> from a desk", page)


def test_a_closed_session_says_so_and_has_no_composer() -> None:
    world, client = World.create("ana"), browser("ana")
    control.close(world.owner, world.session, new_id())
    page = text_of(client, f"/s/{world.session}")
    assert "This session is closed" in page
    assert 'id="dock" hidden' in page


def test_the_story_of_a_stop_tells_the_steers_too() -> None:
    world, client = World.create("ana"), browser("ana")
    world.start("go")
    world.steer("mind the tests")
    world.stop()
    world.end()
    page = text_of(client, f"/interruptions/{world.turn}")
    assert re.search(r"<bdi>ana</bdi> steered: “<bdi>mind the tests</bdi>”", page)


@pytest.mark.parametrize(
    ("url", "warns"),
    [("", True), ("http://127.0.0.1:8000", True), ("http://[::1]:80", True), ("https://a.example", False)],
)
def test_the_code_for_a_phone_warns_where_it_leads_to_this_machine_only(
    url: str, warns: bool, settings: Settings
) -> None:
    settings.STEERWEB_URL = url
    world, client = World.create("ana"), browser("ana")
    page = client.get(f"/s/{world.session}", headers={"host": "localhost"}).content.decode()
    assert ("only reachable from this machine" in page) == warns


def test_commands_are_shown_as_one_has_to_type_them_here() -> None:
    client = browser("ana")
    assert escape(runtime.shown("token create --user ana --name LABEL")) in text_of(client, "/devices")
