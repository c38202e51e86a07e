"""What the pages say of ends: what ended a turn, and whose turn it was."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from playwright.sync_api import expect

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]


@pytest.mark.rule("E8", "J4")
def test_what_a_worker_s_shutdown_ended_is_not_said_to_have_been_stopped(screens: Open) -> None:
    opened, (world, child) = screens(), two_agents()
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


KILLED = {"ended": [{"pid": 41, "command": "sleep 999"}], "surviving": [], "background": []}
LEFT_RUNNING: dict[str, list[Any]] = {
    "ended": [],
    "surviving": [],
    "background": [{"pid": 77, "command": "npm run dev"}],
}


def two_agents() -> tuple[World, World]:
    """A main agent with a step behind it, and a delegate of it in a call."""
    world = World.create("ana")
    world.start("compare the folders")
    (child,) = world.delegate("read the first folder")
    assert child.claim()
    child.begin()
    child.plan("c1")
    child.start_tool("c1")
    return world, child


def serve(world: World, call: str = "bg", command: str = "npm run dev") -> None:
    """A call of the running turn that settles with a process in the background."""
    world.plan(call, command=command)
    world.start_tool(call, command=command)
    settlement = commands.Settlement("ok", "", processes=LEFT_RUNNING)
    world.report(commands.SettleTool(world.turn, world.epoch, world.step, call, settlement))
    world.begin()


def ended(world: World, call: str, gone: Sequence[Any] = (), surviving: Sequence[Any] = (), why: str = "") -> None:
    """The worker says what became of what that call had left running."""
    about = commands.BackgroundEnded(world.turn, world.loop, call, gone, surviving, why=why)
    reports.background_ended(world.session, about, WORKER)


@pytest.mark.rule("E1", "E8", "G1")
def test_what_one_stop_ended_is_one_entry_that_names_each_agent(screens: Open) -> None:
    opened = screens()
    world, child = two_agents()
    world.stop(person("ana", "phone"), reason="wrong branch")
    child.end(acknowledged_ms=4, settlements={"c1": commands.Settlement("interrupted", processes=KILLED)})
    world.end(acknowledged_ms=6)
    for size, scripts in (("desk", True), ("phone", True), ("desk", False)):
        page = opened.open("ana", "/interruptions", size, java_script_enabled=scripts)
        whole = page.locator("tbody tr.whole")
        expect(page.locator("tbody tr:not(.share)")).to_have_count(1)
        for words in ("ana", "from a phone", "wrong branch", "2 agents", "1 ended", "6 ms"):
            expect(whole).to_contain_text(words)
        parts = page.locator("tbody tr.share")
        expect(parts.locator("a")).to_have_text(["main agent", "sub-agent “read the first folder”"])
        expect(parts.nth(0)).to_contain_text("none")
        expect(parts.nth(1)).to_contain_text("1 ended")
        for turn in (world.turn, child.turn):
            page.goto(f"/interruptions/{turn}")
            expect(page.locator(".rule.stopped")).to_contain_text("wrong branch")
            expect(page.locator(".rule.stopped .facts")).to_contain_text("it ended 2 agents")
            expect(page.locator(".rule.stopped .facts")).to_contain_text("ended 1 process")
            expect(page.locator("#whole tbody tr")).to_have_count(2)
        expect(page.locator(".about-list")).to_contain_text("sub-agent “read the first folder”")
        page.locator("#whole").get_by_role("link", name="main agent").click()
        expect(page.locator(".about-list dd").first).to_have_text("main agent")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.rule("E1")
def test_a_stop_of_many_sessions_is_one_entry(screens: Open) -> None:
    opened, worlds = screens(), [World.create("ana") for _ in range(2)]
    for world in worlds:
        world.start("go")
    control.interrupt_many(worlds[0].owner, new_id(), "mine", reason="lunch")
    for world in worlds:
        world.end()
    page = opened.open("ana", "/interruptions")
    expect(page.locator("tbody tr:not(.share)")).to_have_count(1)
    expect(page.locator("tbody tr.whole a[href^='/s/']")).to_have_count(2)
    expect(page.locator("tbody tr.share")).to_have_count(2)
    page.goto(f"/s/{worlds[0].session}/interruptions")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("lunch")


@pytest.mark.rule("E13", "A5", "E7")
def test_who_ended_what_ran_in_the_background_is_listed_with_what_came_of_it(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("serve it")
    serve(world, "bg1")
    serve(world, "bg2", "python -m http.server")
    serve(world, "bg3", "tail -f log")
    world.answer()
    control.kill_processes(person("ana", "phone"), world.session, new_id(), "bg1")
    page = opened.open("ana", "/interruptions")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("npm run dev is being ended")
    gone = LEFT_RUNNING["background"]
    ended(world, "bg1", gone)
    ended(world, "bg2", why="worker_shutdown")
    control.kill_processes(world.owner, world.session, new_id(), "bg3")
    ended(world, "bg3", surviving=gone)
    for size in ("desk", "phone"):
        page = opened.open("ana", "/interruptions", size)
        row = page.locator("tbody tr")
        expect(row).to_have_count(3)
        expect(row.nth(0)).to_contain_text("tail -f log outlived its kill: npm run dev (77)")
        expect(row.nth(1)).to_contain_text("the worker was shut down")
        expect(row.nth(1)).to_contain_text("python -m http.server ended")
        expect(row.nth(2)).to_contain_text("ana")
        expect(row.nth(2)).to_contain_text("from a phone")
        expect(row.nth(2)).to_contain_text("npm run dev ended in")
    page.goto("/interruptions?cause=worker_shutdown")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto("/interruptions?q=ana&cause=person")
    expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.rule("E13", "E8")
def test_what_a_stop_ended_in_the_background_stands_with_the_stop(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("serve it")
    serve(world)
    world.stop(reason="enough")
    world.end(acknowledged_ms=5)
    page = opened.open("ana", f"/interruptions/{world.turn}")
    expect(page.locator(".rule.stopped .facts")).to_contain_text("the turn ended in")
    expect(page.locator(".rule.stopped .facts")).to_contain_text("being ended 1 process")
    expect(page.locator("#whole")).to_contain_text("npm run dev is being ended")
    ended(world, "bg", LEFT_RUNNING["background"])
    page = opened.open("ana", f"/s/{world.session}/interruptions")
    expect(page.locator("tbody tr:not(.share)")).to_have_count(1)
    expect(page.locator("tbody tr:not(.share)")).to_contain_text("1 ended")
    expect(page.locator("tbody tr.share")).to_contain_text("npm run dev ended in")
    page.goto(f"/interruptions/{world.turn}")
    expect(page.locator("#whole")).to_contain_text("npm run dev ended in")
    expect(page.locator(".rule.stopped .facts")).to_contain_text("everything ended in")
