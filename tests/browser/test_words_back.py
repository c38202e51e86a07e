"""Nothing a person typed is ever lost: words that come back stand where their author finds them."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.people.principals import Principal
from tests.browser.screens import Screens, live
from tests.support.waiting import wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
WAITING = "then the changelog"
LONG = "a long thought " * 20


def waiting_message(text: str = WAITING) -> World:
    world = World.create("ana")
    world.start("go")
    world.submit(text)
    return world


def second_owner(world: World) -> Principal:
    ben = person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    return ben


def box(page: Page) -> Locator:
    return page.locator("textarea[aria-label=Message]")


def choose(page: Page, deed: str) -> None:
    """One of the things to do with the message that waits."""
    page.locator("#waiting").get_by_role("button", name=re.compile("^More about")).click()
    page.get_by_role("button", name=re.compile(f"^{deed}")).click()


def given_back(page: Page, text: str) -> Locator:
    """The note in which the words stand whole."""
    return page.locator(".note", has=page.locator(".prose", has_text=text.strip()))


@pytest.mark.parametrize("text", ["thou", LONG], ids=["short", "long"])
def test_words_taken_back_over_a_draft_stand_in_the_timeline_and_go_below_it(screens: Open, text: str) -> None:
    opened, world = screens(), waiting_message(text)
    page = opened.session("ana", world)
    box(page).fill("half a thought")
    choose(page, "Take back")
    note = given_back(page, text)
    expect(note).to_contain_text("ana\u2019s message was taken back")
    expect(box(page)).to_have_value("half a thought")
    page.reload()
    live(page)
    note.get_by_role("button", name="Put it into the box").click()
    expect(box(page)).to_have_value(f"half a thought\n\n{text}")
    expect(note.get_by_role("button", name="Put it into the box")).to_be_hidden()  # while the box holds it
    page.reload()
    expect(box(page)).to_have_value(f"half a thought\n\n{text}")


def test_words_taken_back_are_found_after_a_reload_between_the_command_and_its_event(screens: Open) -> None:
    opened, world = screens(), waiting_message()
    page = opened.context("ana").new_page()
    deaf: list[bool] = []

    def listen(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda text: None if deaf else socket.send(text))

    page.route_web_socket("**/ws/sessions/**", listen)
    page.goto(f"/s/{world.session}")
    live(page)
    deaf.append(True)
    choose(page, "Take back")
    wait_until(lambda: page.evaluate("1") and world.events("InputCancelled"), "the message being taken back")
    deaf.clear()
    page.reload()
    live(page)
    expect(page.locator("#waiting .chip")).to_have_count(0)
    given_back(page, WAITING).get_by_role("button", name="Put it into the box").click()
    expect(box(page)).to_have_value(WAITING)


def test_what_a_stop_gave_back_is_whole_in_its_authors_timeline_and_short_for_others(screens: Open) -> None:
    opened, world = screens(), waiting_message(LONG)
    world.submit("what ben wants", who=second_owner(world))
    page, bens = opened.session("ana", world), opened.session("ben", world)
    for one in (page, bens):
        box(one).fill("a draft")
    world.stop(queue="clear")
    world.end()
    expect(given_back(page, LONG)).to_contain_text("given back to its author")
    expect(page.get_by_role("button", name="Put it into the box")).to_have_count(1)
    expect(bens.locator(".note").filter(has_text="ana\u2019s message")).to_contain_text("\u2026\u201d")
    given_back(bens, "what ben wants").get_by_role("button").click()
    expect(box(bens)).to_have_value("a draft\n\nwhat ben wants")


def test_what_somebody_took_back_is_nobody_elses_news(screens: Open) -> None:
    opened, world = screens(), waiting_message()
    second_owner(world)
    page, bens = opened.session("ana", world), opened.session("ben", world)
    choose(page, "Take back")
    expect(box(page)).to_have_value(WAITING)
    expect(given_back(page, WAITING)).to_be_visible()
    expect(bens.locator("#waiting .chip")).to_have_count(0)
    expect(bens.locator(".note").filter(has_text="taken back")).to_be_hidden()


def test_a_change_of_a_message_that_came_too_late_keeps_its_words(screens: Open) -> None:
    opened, world = screens(), waiting_message()
    page = opened.session("ana", world)
    choose(page, "Edit")
    page.locator("dialog#edit textarea").fill("then the changelog, briefly")
    world.answer()
    assert world.claim()
    expect(page.locator("#waiting .chip")).to_have_count(0)
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Put your words into the box").click()
    expect(box(page)).to_have_value("then the changelog, briefly")
    expect(page.locator("#trouble > *")).to_have_count(0)


def test_what_is_typed_while_a_stop_that_sends_is_on_its_way_stays(screens: Open) -> None:
    opened, world = screens(), waiting_message()
    page = opened.context("ana").new_page()
    held: list[Callable[[], None]] = []

    def slow(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if '"interrupt"' in str(text):
                held.append(lambda: server.send(text))
            else:
                server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", slow)
    page.goto(f"/s/{world.session}")
    live(page)
    box(page).fill("do this instead")
    page.locator(".halt.more").click()
    page.get_by_role("button", name="Stop and send what is in the box").click()
    wait_until(lambda: page.evaluate("1") and held, "the stop being on its way")
    box(page).fill("do this instead, and then that")
    held[0]()
    expect(page.locator("#state")).to_contain_text("Stopping")
    expect(page.locator("#stop .halts small")).to_have_text("by ana")
    expect(box(page)).to_have_value("do this instead, and then that")
