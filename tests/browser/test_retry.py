"""A turn that failed before its first step can be tried again; what a limit ended says which, in words."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens, live, observe
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]


@pytest.mark.rule("B9")
def test_a_failed_message_is_tried_again_by_those_who_may_send_and_says_so(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    page, kim = opened.session("ana", world), opened.session("kim", world)
    world.start("publish it")
    world.report(commands.Fail(world.turn, world.epoch, "provider", "no more credit"))
    world.start("and this")
    world.answer()
    again = page.locator(".rule.failed").get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    expect(kim.locator(".rule.failed")).to_be_visible()
    expect(kim.get_by_role("button", name="Try again")).to_have_count(0)
    page.reload()
    live(page)
    again.click()
    expect(again).to_have_count(0)
    expect(page.locator("#trouble > *")).to_have_count(0)
    assert world.claim()
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, kim, served):
        expect(one.locator(".said")).to_have_count(3)
        expect(one.locator(".said").last).to_contain_text("tried again")
        expect(one.locator(".said").last).to_contain_text("publish it")


@pytest.mark.rule("B7")
def test_a_limit_that_ended_a_turn_is_told_in_words(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    control.change_loop(world.owner, world.session, new_id(), limits={"steps": 1})
    world.start("go")
    world.plan("c1")
    world.start_tool("c1")
    world.settle("c1")
    world.begin()
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, served):
        expect(one.locator(".rule.stopped")).to_contain_text("Ended by a limit: 1 step")
    served.goto(f"/interruptions/{world.turn}")
    expect(served.locator("h1")).to_have_text("Ended by a limit: 1 step")
    expect(served.locator(".about-list")).to_contain_text("a limit: 1 step")


def test_one_stop_has_one_time_everywhere_and_a_page_that_was_signed_out_says_so(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    context = opened.context("ana", timezone_id="UTC")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    world.start("go")
    world.stop()
    world.end(settled_ms=5)
    asked, ended = world.events("InterruptRequested")[0], world.events("TurnInterrupted")[0]
    assert ended.at_ms - ended.data["settled_ms"] == asked.at_ms
    time = page.locator(".rule.stopped time")
    at = page.locator(".receipt time").get_attribute("datetime")
    assert at
    expect(time).to_have_attribute("datetime", re.compile(f"^{at[:23]}"))
    second = opened.look(context, f"/interruptions/{world.turn}")
    expect(second.locator(".rule.stopped time")).to_have_attribute("datetime", re.compile(f"^{at[:23]}"))
    page.locator("#say textarea").fill("what I was about to say")
    second.goto("/devices")
    second.get_by_role("button", name="Sign out everywhere").click()
    expect(page.locator("#trouble")).to_contain_text("This device was signed out.")
    expect(page.locator("#trouble").get_by_role("link", name="Sign in again")).to_be_visible()
    expect(page.locator("#say textarea")).to_have_value("what I was about to say")
    expect(page.locator("#say textarea")).not_to_be_editable()
    expect(page.locator("#stop button:visible, #say button:visible")).to_have_count(0)


def test_on_a_phone_the_receipt_is_one_line_once_everything_has_ended(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world, "phone")
    world.start("go")
    for number in range(3):
        world.submit(f"message {number}")
    world.stop(queue="hold")
    expect(page.locator(".receipt li").first).to_be_visible()
    world.end()
    brief = page.locator(".receipt").get_by_role("button", name="Everything ended")
    expect(brief).to_be_visible()
    expect(page.locator(".receipt li").first).to_be_hidden()
    assert page.locator("#notice").evaluate("one => one.offsetHeight") < 80
    brief.tap()
    expect(page.locator(".receipt").get_by_role("button", name="Give all back")).to_be_visible()
    expect(page.locator(".receipt li").first).to_be_visible()
    brief.tap()
    expect(page.locator(".receipt li").first).to_be_hidden()
