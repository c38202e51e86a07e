"""One's own list: what each session is doing in words, pinned, archived and found again, and the stop of many."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.people.principals import Principal
from tests.browser.screens import Screens, live, observe, texts
from tests.browser.test_background_list import ended, serving
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")


def session(name: str, title: str, *others: str) -> World:
    """A session of that title, whose further owners are the others."""
    world = World.create(name)
    control.change_session(world.owner, world.session, new_id(), title=title)
    for other in others:
        person(other)
        control.set_member(world.owner, world.session, new_id(), person=other, role="owner")
    return world


def keep(who: Principal, world: World, **places: bool) -> None:
    control.change_session(who, world.session, new_id(), **places)  # type: ignore[arg-type]


def titles(page: Page) -> list[str]:
    return texts(page, "#sessions .name a")


def choose(page: Page, world: World, what: str) -> None:
    page.locator(f"li[data-id='{world.session}'] .more").click()
    page.get_by_role("menuitem", name=what).click()


@pytest.mark.rule("E13")
def test_a_row_says_what_its_session_is_doing(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), session("ana", "Tidy the attic", "ben")
    page = opened.open("ana", "/", "phone")
    live(page)
    state = page.locator(f"li[data-id='{world.session}'] .state")
    world.start()
    expect(state).to_contain_text("Thinking, ")
    world.plan("c1", "c2")
    world.start_tool("c1")
    expect(state).to_contain_text("Running a command, ")
    served = opened.open("ana", "/", java_script_enabled=False)
    expect(served.locator("#sessions .state")).to_contain_text("Running a command, ")
    world.settle("c1")
    world.submit("and then")
    world.stop(person("ben"), queue="hold")
    expect(state).to_contain_text("Stopping, asked by ben, ")
    served.reload()
    expect(served.locator("#sessions .state")).to_contain_text("Stopping, asked by ben, ")
    world.end()
    expect(state).to_have_text("Nothing running, 1 message paused")
    control.release(world.owner, world.session, new_id(), to="authors")
    serving(world)
    expect(state).to_have_text("Nothing running, 1 background process")
    served.reload()
    expect(served.locator("#sessions .state")).to_have_text("Nothing running, 1 background process")
    ended(world)
    expect(state).to_have_text("Nothing running")


def test_what_one_person_pins_and_archives_is_nobody_else_s(screens: Callable[..., Screens]) -> None:
    opened = screens()
    old, new = session("ana", "Old work", "ben"), session("ana", "New work", "ben")
    page, tab, ben = opened.open("ana", "/"), opened.open("ana", "/", "phone"), opened.open("ben", "/")
    for one in (page, tab, ben):
        live(one)
        expect(one.locator("#sessions .more")).to_have_count(2)
    choose(page, old, "Pin to the top")
    for one in (page, tab):
        expect(one.locator("#sessions .pin")).to_have_count(1)
        assert titles(one) == ["Old work", "New work"]
    choose(page, new, "Archive")
    expect(page.locator("#says")).to_contain_text("Archived New work. It comes back when somebody writes in it.")
    for one in (page, tab):
        expect(one.locator("#sessions li")).to_have_count(1)
    assert sorted(titles(ben)) == ["New work", "Old work"]
    expect(ben.locator("#sessions .pin")).to_have_count(0)
    expect(page.get_by_role("button", name="Undo archiving New work")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#sessions li")).to_have_count(2)
    expect(page.locator("#says")).to_be_empty()
    choose(page, new, "Archive")
    expect(page.locator("#sessions li")).to_have_count(1)
    page.get_by_role("link", name="Archived").click()
    live(page)
    expect(page.locator("#sessions .more")).to_have_count(1)
    assert titles(page) == ["New work"]
    new.submit("one more thing", person("ben"))
    expect(page.locator("#none")).to_contain_text("Nothing is archived")
    expect(tab.locator("#sessions li")).to_have_count(2)
    page.goto("/")
    assert titles(page) == ["Old work", "New work"]


def test_an_archived_session_that_asks_comes_back(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), session("ana", "Publish it")
    control.set_mode(world.owner, world.session, new_id(), mode="ask")
    world.start()
    keep(world.owner, world, archived=True)
    page = opened.open("ana", "/")
    live(page)
    expect(page.locator("#sessions li")).to_have_count(0)
    running = opened.open("ana", "/?state=running")
    live(running)
    expect(running.locator("#sessions .label", has_text="Archived")).to_have_count(1)
    world.plan("c1")
    world.start_tool("c1", commands.Effect("command", "git push origin"))
    expect(page.locator("#sessions .state")).to_contain_text("Waiting for approval")


def test_the_menu_of_a_row_works_by_keyboard_and_an_observer_s_has_no_rename(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), session("ana", "Tidy the attic")
    observe(world, "kim")
    page, kim = opened.open("ana", "/"), opened.open("kim", "/", "phone")
    live(page)
    more = page.get_by_role("button", name="More: Tidy the attic")
    more.focus()
    page.keyboard.press("Enter")
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Archive")).to_be_focused()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator("#rename").get_by_label("Title").fill("Tidy the cellar")
    page.keyboard.press("Enter")
    expect(page.locator("#sessions .name a")).to_have_text("Tidy the cellar")
    expect(kim.locator("#sessions .name a")).to_have_text("Tidy the cellar")
    kim.locator("#sessions .more").tap()
    expect(kim.get_by_role("menuitem")).to_have_text(["Pin to the top", "Archive"])
    box = kim.locator("#sessions .more").bounding_box()
    assert box is not None and min(box["width"], box["height"]) >= 44


@pytest.mark.rule("E1", "E4")
def test_a_stop_of_many_says_whose_before_it_acts_and_what_came_of_each(screens: Callable[..., Screens]) -> None:
    opened = screens()
    mine, over, theirs = session("ana", "Mine"), session("ana", "Over soon"), session("ben", "Theirs", "ana")
    watched = session("ben", "Watched")
    observe(watched, "ana")
    for world in (mine, over, theirs, watched):
        world.start()
    page = opened.open("ana", "/", "phone")
    live(page)
    expect(page.get_by_role("button", name="Stop all mine (2)")).to_be_visible()
    page.get_by_role("button", name="Stop all I can stop (3)").tap()
    dialog = page.locator("#halt")
    expect(dialog.locator("h2")).to_have_text("Stop 3 sessions?")
    expect(dialog.locator("li", has_text="Theirs")).to_contain_text("started by ben")
    expect(dialog.locator("li", has_text="Mine")).to_contain_text("started by you")
    expect(dialog.locator("li", has_text="Watched")).to_have_count(0)
    over.answer("That was all.")
    late = session("ana", "Started meanwhile")
    late.start()
    dialog.get_by_label("Why").fill("lunch")
    dialog.get_by_role("button", name="Stop 3 sessions").tap()
    expect(dialog.locator("h2")).to_have_text("Stopping: 1 of 3 done")
    expect(dialog.locator("li", has_text="Over soon")).to_contain_text("had ended by itself")
    mine.end()
    expect(dialog.locator("li", has_text="Mine")).to_contain_text("stopped")
    theirs.end()
    expect(dialog.locator("[data-says]")).to_have_text("2 stopped, 1 had ended by itself.")
    assert [world.events("InterruptRequested")[0].data["reason"] for world in (mine, theirs)] == ["lunch", "lunch"]
    assert not watched.events("InterruptRequested")
    assert not late.events("InterruptRequested")  # it was not named


@pytest.mark.rule("E4")
@pytest.mark.scenario("D39")
def test_a_stop_of_many_that_was_not_sent_says_so_and_never_comes_late(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), session("ana", "Mine")
    world.start()
    page = opened.open("ana", "/", "phone")
    live(page)
    held: list[Route] = []
    page.route("**/api/v1/interrupt", lambda route: held.append(route))
    page.route("**/api/v1/interrupt?scope=*", lambda route: route.continue_())
    page.get_by_role("button", name="Stop all mine").tap()
    dialog = page.locator("#halt")
    dialog.get_by_role("button", name="Stop 1 session").tap()
    expect(dialog.locator("[data-says]")).to_contain_text("NOT sent.")
    page.unroute("**/api/v1/interrupt")
    request = held[0].request
    sent = opened.lent[-1][1].request.post(
        request.url,
        headers={k: request.headers[k] for k in ("x-csrftoken", "idempotency-key", "content-type")}
        | {"origin": opened.stack.url},
        data=request.post_data,
    )
    assert sent.json()["sessions"][0]["code"] == "too_late"
    assert not world.events("InterruptRequested")
    dialog.get_by_role("button", name="Try again").tap()
    world_ends(world)
    expect(dialog.locator("[data-says]")).to_have_text("1 stopped.")


def world_ends(world: World) -> None:
    """The worker ends the turn once it is marked."""
    from tests.support.waiting import wait_until

    wait_until(lambda: bool(world.events("InterruptRequested")), "the mark")
    world.end()


def test_a_stop_of_many_works_without_scripts(screens: Callable[..., Screens]) -> None:
    opened, mine, theirs = screens(), session("ana", "Mine"), session("ben", "Theirs", "ana")
    mine.start()
    theirs.start()
    page = opened.open("ana", "/", "phone", java_script_enabled=False)
    page.get_by_role("link", name="Stop all mine (1)").click()
    expect(page.locator("h1")).to_have_text("Stop 1 session?")
    expect(page.locator("main")).not_to_contain_text("Theirs")
    expect(page.locator(".stops li")).to_contain_text("started by ana")
    mine.answer("That was all.")
    page.get_by_label("Why").fill("lunch")
    page.get_by_role("button", name="Stop 1 session").click()
    expect(page.locator("h1")).to_have_text("1 had ended by itself")
    page.goto("/stop-all?scope=mine")
    expect(page.locator("h1")).to_have_text("Nothing to stop")


def test_messages_are_found_and_the_address_holds_every_filter(screens: Callable[..., Screens]) -> None:
    opened, world, other = screens(), session("ana", "Billing"), session("ben", "Of ben", "ana")
    world.start("Where is the <b>invoice</b> parser?")
    world.answer("The invoice parser is in billing/invoice.py.")
    page = opened.open("ana", "/")
    page.get_by_label("Search in titles and messages").fill("INVOICE.py")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=INVOICE.py**")
    live(page)
    expect(page.locator(".hit mark")).to_have_text(["invoice.py"])
    assert page.locator(".hit a").get_attribute("href") == f"/s/{world.session}#turn-{world.turn}"
    page.get_by_label("Search in titles and messages").fill("where <b>inv")
    page.keyboard.press("Enter")
    expect(page.locator(".hit a")).to_have_text("ana: Where is the <b>invoice</b> parser?")
    page.goto("/?q=zz")
    expect(page.locator("main")).to_contain_text("three letters and more")
    page.goto("/")
    live(page)
    page.get_by_label("Started by").select_option("ben")
    page.wait_for_url("**person=ben**")
    live(page)
    expect(page.locator("#sessions .more")).to_have_count(1)
    assert titles(page) == ["Of ben"]
    control.change_session(other.owner, other.session, new_id(), title="Renamed")
    expect(page.locator("#sessions .name a")).to_have_text("Renamed")
    control.change_session(world.owner, world.session, new_id(), title="Still ana's")
    expect(page.locator("#sessions li")).to_have_count(1)
    page.get_by_role("link", name="Closed").click()
    page.wait_for_url("**person=ben&state=closed**")
    expect(page.locator("#none")).to_contain_text("No session fits")


def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(screens: Callable[..., Screens]) -> None:
    opened = screens()
    made = control.create_session(person("ana"), new_id(), title="Before", model="demo:", workspace="/usr")
    context = opened.context("ana")
    page = opened.look(context, "/")
    page.get_by_role("button", name="New session").click()
    dialog = page.locator("dialog#create")
    expect(page.locator("#workspaces option")).to_have_attribute("value", "/usr")  # used lately
    dialog.get_by_label("First message").fill("Count the words")
    dialog.get_by_label("Workspace").fill("/nowhere/at/all")
    dialog.get_by_role("button", name="Start").click()
    workspace = dialog.get_by_label("Workspace")
    expect(workspace).to_be_focused()
    expect(workspace).to_have_attribute("aria-invalid", "true")
    expect(dialog.locator("#wrong-workspace")).to_have_text("There is no folder /nowhere/at/all on this machine.")
    page.close()
    again = opened.look(context, "/")
    again.get_by_role("button", name="New session").click()
    dialog = again.locator("dialog#create")
    expect(dialog.get_by_label("First message")).to_have_value("Count the words")
    dialog.get_by_label("Workspace").fill("")
    dialog.get_by_role("button", name="Start").click()
    again.wait_for_url("**/s/*")
    assert made["id"] not in again.url
    again.goto("/")
    expect(again.locator("dialog#create textarea[name=text]")).to_have_value("")
