"""Several pages of one session: what was taken back, put away or closed on one is right on the others."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.ids import new_id
from tests.browser.screens import Screens
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]


def take_back(page: Page) -> None:
    page.locator("#waiting .chip").get_by_role("button", name="More about").click()
    page.get_by_role("button", name="Take back").click()
    expect(page.locator("#waiting .chip")).to_have_count(0)


def test_a_message_taken_back_goes_into_the_box_of_the_page_that_took_it(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    for send in (world.submit, world.steer):
        send("then the changelog")
        expect(phone.locator("#waiting .chip")).to_have_count(1)
        take_back(desk)
        expect(desk.locator("#say textarea")).not_to_have_value("")
        desk.locator("#say textarea").fill("")
        expect(phone.locator("#waiting .chip")).to_have_count(0)
        expect(phone.locator("#say textarea")).to_have_value("")


def test_a_message_that_others_gave_back_goes_to_all_pages_of_its_author(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    ben = opened.context("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    world.start("go")
    world.submit("then the changelog")
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    other = opened.look(ben, f"/s/{world.session}")
    take_back(other)
    for page in (desk, phone):
        expect(page.locator("#say textarea")).to_have_value("then the changelog")
    expect(other.locator("#say textarea")).to_have_value("")
    for page in (desk, phone):
        page.locator("#say textarea").fill("")
    world.submit("and a summary")
    world.stop(queue="clear")
    world.end()
    for page in (desk, phone):
        expect(page.locator("#say textarea")).to_have_value("and a summary")


def test_a_closed_session_offers_nothing_that_it_refuses(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    world.stop()
    world.end()
    page, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    page.get_by_role("button", name="Rename").click()
    expect(page.locator("dialog#rename")).to_be_visible()
    control.close(world.owner, world.session, new_id())
    for one in (page, phone):
        expect(one.locator("#closed")).to_be_visible()
        expect(one.locator("dialog#rename, dialog#close")).to_have_count(2)
        expect(one.locator("dialog[open]")).to_have_count(0)
    phone.get_by_role("button", name="Agents and turns").tap()
    expect(phone.locator("#drawer")).to_contain_text("Interruptions")
    for one in (page, phone):
        for name in ("Rename", "Close for good"):
            expect(one.get_by_role("button", name=name)).to_have_count(0)
    page.reload()
    expect(page.locator("#closed")).to_be_visible()
    expect(page.get_by_role("button", name="Rename")).to_have_count(0)
    page.goto(f"/interruptions/{world.turn}")
    expect(page.get_by_role("link", name="Other stops")).to_be_visible()
    expect(page.get_by_role("link", name="Send a message from here")).to_have_count(0)


PLACE = """(one) => new Promise((tell) => {
  requestAnimationFrame(() => requestAnimationFrame(() => tell(one.getBoundingClientRect().top)));
})"""


def place(page: Page, words: str) -> float:
    """How far from the top of the screen some words stand, once what has changed is drawn."""
    return float(page.get_by_text(words, exact=True).evaluate(PLACE))


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_a_page_that_begins_below_a_receipt_hides_nothing_that_has_room(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    world.start("run it")
    world.submit("then the changelog")
    world.stop(queue="hold")
    world.end()
    page = opened.session("ana", world, size)
    expect(page.locator(".receipt")).to_be_visible()
    receipt = page.locator("#notice").bounding_box()
    assert receipt is not None
    assert place(page, "run it") >= receipt["y"] + receipt["height"]


@pytest.mark.parametrize(("size", "turns"), [("desk", 1), ("desk", 12), ("phone", 12)])
def test_the_receipt_moves_nothing_one_reads_and_stays_put_away(screens: Open, size: str, turns: int) -> None:
    opened, world = screens(), World.create("ana")
    for number in range(turns):
        world.start(f"question {number}")
        world.answer(f"answer {number}\n" * 5)
    world.start("run it")
    world.submit("then the changelog")
    page = opened.session("ana", world, size)
    words = f"question {turns - 1}"
    expect(page.locator("#waiting .chip")).to_be_visible()
    page.locator("#line").evaluate("line => line.scrollBy(0, -250)")
    before = place(page, words)
    world.stop(queue="hold")
    expect(page.locator(".receipt")).to_be_visible()
    assert abs(place(page, words) - before) < 2, "as the receipt opens"
    world.end()
    expect(page.locator(".receipt[data-over]")).to_contain_text("1 message stays paused")
    assert abs(place(page, words) - before) < 2, "as it grows"
    page.get_by_role("button", name="Close the receipt").click()
    expect(page.locator("#notice")).to_be_hidden()
    assert abs(place(page, words) - before) < 2, "as it is put away"
    expect(page.locator("#state")).to_contain_text("1 message paused")
    world.start("something else")
    expect(page.locator("#state")).to_have_attribute("data-is", "running")
    expect(page.locator("#paused")).to_have_text("1 paused")
    expect(page.locator("#notice")).to_be_hidden()
    world.stop(queue="hold")
    expect(page.locator("#notice")).to_be_visible()
