"""The session list: live for everybody who has it there, and where sessions begin."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from sessions_app import control
from sessions_app.ids import new_id
from tests.browser.screens import Screens, live, observe
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")


def test_the_list_is_live_and_says_who_watches(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.open("ana", "/")
    live(page)
    row = page.locator(f"li[data-id='{world.session}']")
    expect(row.locator(".state")).to_have_text("Nothing running")
    world.start()
    expect(row.locator(".state")).to_have_attribute("data-is", "running")
    control.change_session(world.owner, world.session, new_id(), title="<b>Billing</b>")
    expect(row.locator("a")).to_have_text("<b>Billing</b>")
    observe(world, "kim")
    kim = opened.open("kim", "/")
    live(kim)
    expect(kim.locator("#sessions li")).to_have_count(1)
    kim.locator("#sessions a").click()
    live(kim)
    expect(row.locator(".people")).to_have_attribute("aria-label", "Watching: kim")
    world.stop()
    expect(row.locator(".state")).to_contain_text("Stopping")
    world.end()
    expect(row.locator(".state")).to_have_text("Nothing running")
    control.set_member(world.owner, world.session, new_id(), person="kim", role=None)
    expect(kim.locator("#connection")).to_have_text("No longer allowed")


def test_a_session_begins_without_leaving_the_page_and_shows_up_on_the_other_device(
    screens: Callable[..., Screens],
) -> None:
    opened = screens()
    page, phone = opened.open("ana", "/"), opened.open("ana", "/", "phone")
    live(phone)
    page.get_by_role("button", name="New session").click()
    dialog = page.locator("dialog#create")
    expect(dialog).to_contain_text("not isolated yet")
    dialog.get_by_label("First message").fill("Count the words in README.md, please\nand nothing else")
    dialog.get_by_label("Model").fill("nobody:nothing")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog.locator("[role=alert]")).to_contain_text("There is no model provider called 'nobody'.")
    dialog.get_by_label("Model").fill("demo:")
    dialog.get_by_role("button", name="Start").click()
    page.wait_for_url("**/s/*")
    live(page)
    expect(page.locator("#state")).to_contain_text("Waiting for a worker")
    expect(page.locator("#waiting .chip")).to_contain_text(["Count the words in README.md"])
    expect(phone.locator("#sessions li")).to_have_count(1)
    expect(phone.locator("#sessions .label")).to_have_text("Demonstration")
    expect(phone.locator("#welcome")).to_be_hidden()


def test_an_owner_renames_and_closes_and_every_screen_says_so(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    page, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    page.get_by_role("button", name="Rename").click()
    page.locator("#rename input[name=title]").fill("Tidy the attic")
    page.locator("#rename").get_by_role("button", name="Rename").click()
    expect(phone.locator("#title")).to_have_text("Tidy the attic")
    page.get_by_role("button", name="Close for good").click()
    page.locator("dialog#close").get_by_role("button", name="Close for good").click()
    for one in (page, phone):
        expect(one.locator("#closed")).to_be_visible()
        expect(one.locator("#state")).to_have_text("Closed")
        expect(one.locator("#say textarea")).to_be_hidden()
        expect(one.locator("#stop .halt:not(.more)")).to_be_hidden()
