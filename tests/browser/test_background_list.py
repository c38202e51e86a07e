"""What runs in the background (E13): listed with its age, killed from a phone, and everybody sees by whom."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from sessions_app.control import reports
from sessions_app.engine import commands
from tests.browser.screens import Screens, live, observe
from tests.browser.test_agents import open_drawer, together
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
SERVER: list[dict[str, Any]] = [{"pid": 9, "command": "npm start"}]


def serving(world: World) -> None:
    """A turn whose command runs on in the background; its agent has answered."""
    world.start("start the server")
    world.plan("c1", command="npm start")
    world.start_tool("c1", command="npm start")
    processes = {"ended": [], "surviving": [], "background": SERVER}
    settlement = commands.Settlement("ok", processes=processes)
    world.report(commands.SettleTool(world.turn, world.epoch, world.step, "c1", settlement))
    world.begin()
    world.answer("It serves.")


def ended(world: World, *, survives: bool = False) -> None:
    gone: list[dict[str, Any]] = [] if survives else SERVER
    left = SERVER if survives else []
    reports.background_ended(world.session, commands.BackgroundEnded(world.turn, world.loop, "c1", gone, left))


@pytest.mark.rule("E13", "A5", "E7")
def test_a_phone_kills_a_background_process_and_the_teammate_sees_who_did(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), together()
    observe(world, "cleo")
    desk = opened.session("ana", world)
    serving(world)
    phone, watcher = opened.session("ben", world, "phone"), opened.session("cleo", world)
    for page in (desk, phone, watcher):
        expect(page.locator("#state")).to_have_text("Nothing running, 1 in the background")
        expect(page.locator("#background code")).to_have_text("npm start")
        expect(page.locator("#background code")).to_have_attribute("title", "npm start\nnpm start (9)")
    expect(watcher.locator("#background button")).to_have_count(0)
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    expect(served.locator("#state")).to_have_text("Nothing running, 1 in the background")
    open_drawer(phone)
    expect(phone.locator("#background small")).to_contain_text("for ")
    phone.get_by_role("button", name="Kill: npm start").tap()
    for page in (desk, phone, watcher):
        expect(page.locator("#background small")).to_have_text("being ended by ben")
    ended(world, survives=True)
    for page in (desk, phone):
        expect(page.locator("#background .bad")).to_have_text("outlived its kill")
        expect(page.locator("#timeline > .note.bad")).to_have_text("Outlived its kill by ben: npm start (9)")
    desk.reload()
    live(desk)
    expect(desk.locator("#background .bad")).to_have_text("outlived its kill")
    ended(world)
    lines = ["Outlived its kill by ben: npm start (9)", "ben ended a background process: npm start"]
    served.reload()
    for page in (desk, phone, watcher, served):
        expect(page.locator("#timeline > .note", has_text="npm")).to_have_text(lines)
        expect(page.locator("#state")).to_have_text("Nothing running")
        expect(page.locator("#background")).to_be_hidden()


@pytest.mark.rule("E13", "E12")
def test_a_stop_spares_the_background_where_one_chooses_so(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    serving(world)
    page = opened.session("ana", world)
    world.start("and now this")
    expect(page.locator("#state")).to_contain_text("Thinking")
    page.get_by_role("button", name="Stop, with choices").click()
    page.get_by_label("Keep 1 process in the background running").check()
    page.locator(".stop-menu .danger").click()
    expect(page.locator("#state")).to_contain_text("Stopping")
    world.end()
    expect(page.locator("#state")).to_have_text("Nothing running, 1 in the background")
    expect(page.locator("#background small")).to_contain_text("for ")
    expect(page.locator(".halt small")).to_have_text("1 process")
    page.reload()  # a press right after a stop has ended is meant for what was stopped
    live(page)
    page.locator(".halt").first.click()
    expect(page.locator("#stop-says")).to_have_text("No agent was running. 1 process is being ended in the background.")
    expect(page.locator("#background small")).to_have_text("being ended by ana")
