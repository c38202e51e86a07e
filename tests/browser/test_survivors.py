"""What outlived its kill is named where its call settled and under the end of its turn, however that ended (E7)."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from sessions_app.control import reports
from sessions_app.engine import commands
from tests.browser.screens import Screens
from tests.support.world import WORKER, World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
LEFT = [{"pid": 41, "command": "sleep 999"}, {"pid": 42, "command": ""}]


def outlived(world: World) -> None:
    """A call that settled and left two processes behind."""
    world.start("run it")
    world.plan("c1")
    world.start_tool("c1")
    processes = {"ended": [], "surviving": LEFT, "background": []}
    settlement = commands.Settlement("ok", "", processes=processes)
    world.report(commands.SettleTool(world.turn, world.epoch, world.step, "c1", settlement))
    world.begin()


def done(world: World) -> None:
    world.answer()


def failed(world: World) -> None:
    world.report(commands.Fail(world.turn, world.epoch, "provider", "no more credit"))


def stopped(world: World) -> None:
    world.stop()
    world.end()


@pytest.mark.rule("E7")
@pytest.mark.parametrize("end", [done, failed, stopped])
def test_processes_that_outlived_their_kill_are_named_at_the_call_and_at_the_end(
    screens: Callable[..., Screens], end: Callable[[World], None]
) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    outlived(world)
    expect(page.locator(".tool .left")).to_have_text("Outlived its kill: sleep 999 (41), a process (42)")
    world.submit("and then this")
    end(world)
    (terminal,) = world.events("TurnDone", "TurnFailed", "TurnInterrupted")
    assert terminal.data["note"] == "held_processes"
    words = (
        "Still running when the turn ended: sleep 999 (41), a process (42). "
        "What waits stays paused until somebody sends it."
    )
    expect(page.locator("#state")).to_have_text("No agent running, processes may be, 1 message paused")
    expect(page.locator("#paused")).to_be_hidden()
    reports.survivors_ended(world.session, world.loop, world.turn, "c1", LEFT, WORKER)
    expect(page.locator("#state")).to_have_text("Nothing running, 1 message paused")
    gone = "Processes that had outlived their kill have ended."
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, served):
        expect(one.locator(".turn .note")).to_have_text([words, gone])
        expect(one.locator(".turn .note.bad")).to_have_count(1)
        expect(one.locator(".tool .left")).to_have_text("Outlived its kill: sleep 999 (41), a process (42)")
    if end is stopped:
        served.goto(f"/s/{world.session}?stopped={world.turn}")
        for one in (page, served):
            expect(one.locator(".receipt li").last).to_contain_text("The turn ended")
            expect(one.locator(".rule.stopped .facts")).to_contain_text("the turn ended in")
        served.goto(f"/interruptions/{world.turn}")
        expect(served.locator(".axis")).to_contain_text("The turn had ended, after")
        expect(served.locator("body")).not_to_contain_text("verything ended")
    page.reload()
    expect(page.locator(".turn .note")).to_have_text([words, gone])
