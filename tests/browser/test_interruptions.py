"""What the pages say of ends: what ended a turn, and whose turn it was."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from sessions_app.engine import commands
from tests.browser.screens import Screens
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]


@pytest.mark.rule("E8", "J4")
def test_what_a_worker_s_shutdown_ended_is_not_said_to_have_been_stopped(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("compare the folders")
    (child,) = world.delegate("read the first folder")
    assert child.claim()
    child.begin()
    child.plan("c1")
    child.start_tool("c1")
    page = opened.session("ana", world)
    card = page.locator(".tool.agent")
    expect(card.locator("> header .push")).to_contain_text("working")
    cut = {"c1": commands.Settlement("interrupted")}
    child.end(cause="worker_shutdown", settlements=cut)
    world.end(cause="worker_shutdown")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, served):
        card = one.locator(".tool.agent")
        expect(card.locator("> header .push")).to_have_text("ended, the worker was shut down")
        card.locator("> .work > summary").click()
        expect(card.locator(".tool > header .push")).to_contain_text("ended, the worker was shut down")
        expect(one.locator("#timeline")).not_to_contain_text("by the stop")
    for turn in (world.turn, child.turn):
        page.goto(f"/interruptions/{turn}")
        expect(page.locator(".about-list")).to_contain_text("no person: the worker was shut down")
