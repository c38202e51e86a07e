"""Delegates on the page (G1, G5): each in its own card, listed as a tree, stopped and steered one by one."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens, Stream, live, observe, texts
from tests.golden.make import FOLDER
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
PAGES = """async ([events, state]) => {
  const { View } = await import("/static/js/session/view.js");
  const plain = (view) => JSON.stringify(view.blocks, (key, value) =>
    (["stamp", "events", "keys", "finished", "event", "end"].includes(key) ? undefined : value));
  const fold = (...pages) => {
    const view = new View();
    view.main = events.find((event) => event.loop).loop;
    for (const event of pages.pop()) view.apply(event);
    view.settle(state);
    while (pages.length) view.prepend(pages.pop());
    return plain(view);
  };
  const whole = fold(events);
  const cuts = events.slice(1).map((_, at) => at + 1);
  return cuts.filter((at) => fold(events.slice(0, at >> 1), events.slice(at >> 1, at), events.slice(at)) !== whole);
}"""
"""Where a page's edge may cut a log so that its parts do not become what the whole is."""
TASKS = ("read the first folder", "read the second folder")


def together(name: str = "ben") -> World:
    """A session of ana's in which that person is an owner, too."""
    world = World.create("ana")
    person(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role="owner")
    return world


def at_work(world: World, *tasks: str) -> list[World]:
    """The running turn delegates these tasks, and each delegate is at its first model call."""
    children = world.delegate(*tasks)
    for child in children:
        assert child.claim()
        child.begin()
    return children


def card(page: Page, task: str) -> Locator:
    return page.locator(".tool.agent").filter(has=page.locator("> header code", has_text=task))


def open_drawer(page: Page) -> None:
    page.get_by_role("button", name="Agents and turns").tap()


@pytest.mark.rule("G1", "L1")
def test_two_people_watch_delegates_side_by_side_and_a_reload_shows_the_same(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), together()
    desk = opened.session("ana", world)
    phone = opened.session("ben", world, "phone")
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    Stream(first).say("Half of the first")
    Stream(second).say("Half of the second")
    for page in (desk, phone):
        expect(page.locator("#state")).to_have_text("2 sub-agents working")
        expect(page.locator("#timeline > .turn")).to_have_count(1)
        expect(page.locator("#timeline > .turn > .step")).to_have_count(0)
        for task, said in zip(TASKS, ("first", "second"), strict=True):
            expect(card(page, task).locator("> header .push")).to_contain_text("working")
            card(page, task).locator("> .work > summary").click()
            expect(card(page, task).locator(".step .prose")).to_have_text(f"Half of the {said}")
    (grandchild,) = at_work(first, "count its files")
    expect(card(desk, TASKS[0]).locator(".tool.agent > header code")).to_have_text("count its files")
    expect(desk.locator("#agents .row > span")).to_have_text(["Main agent", TASKS[0], "count its files", TASKS[1]])
    expect(desk.locator("#state")).to_have_text("3 sub-agents working")
    second.answer("The second is empty.")
    grandchild.answer("There are nine.")
    for page in (desk, phone):
        expect(card(page, TASKS[1]).locator("> header .push")).to_contain_text("done")
        expect(card(page, TASKS[1]).locator("> .result p")).to_have_text("The second is empty.")
    desk.reload()
    live(desk)
    expect(desk.locator("#state")).to_have_text("1 sub-agent working")
    for page in (desk, phone):
        assert [line for line in texts(page, ".tool.agent > header code") if line in TASKS] == list(TASKS)
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    expect(served.locator("#state")).to_have_text("Running, 1 sub-agent")
    expect(card(served, TASKS[1]).locator("> header .push")).to_contain_text("done")
    card(served, TASKS[0]).locator("> .work > summary").click()
    expect(card(served, "count its files").locator("> pre")).to_have_text("There are nine.")


@pytest.mark.rule("G3", "G5", "E1")
def test_a_phone_stops_one_delegate_and_the_other_goes_on(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    desk = opened.session("ana", world)
    phone = opened.session("ben", world, "phone")
    open_drawer(phone)
    phone.get_by_role("button", name=f"Stop: {TASKS[0]}").tap()
    expect(phone.locator("[popover]")).to_contain_text("Ends this agent. The others go on")
    phone.get_by_role("button", name="Stop only this agent").tap()
    for page in (desk, phone):
        expect(card(page, TASKS[0]).locator("> header .push")).to_have_text("stopping")
        expect(page.locator("#state")).to_have_text("1 sub-agent working, 1 stopping")
        expect(page.locator(".halt").first).to_contain_text("Stop")
    first.end(acknowledged_ms=4)
    for page in (desk, phone):
        expect(card(page, TASKS[0]).locator("> header .push")).to_have_text("stopped by ben")
        expect(card(page, TASKS[1]).locator("> header .push")).to_contain_text("working")
        expect(page.locator(".receipt")).to_contain_text(f"Only sub-agent “{TASKS[0]}” was stopped")
        expect(page.locator("#state")).to_have_text("1 sub-agent working")
    second.answer("The second is empty.")
    world.begin()
    world.answer("Compared.")
    expect(phone.locator("#state")).to_have_text("Nothing running")
    phone.goto(f"/interruptions/{first.turn}")
    expect(phone.locator("h1")).to_contain_text("Stopped by ben")
    expect(phone.locator(".axis")).not_to_contain_text("The second is empty.")


@pytest.mark.rule("G5", "D1")
def test_a_steer_reaches_the_delegate_it_names_and_the_next_one_the_main_agent(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    page = opened.session("ana", world)
    box = page.get_by_role("textbox", name="Message")
    box.fill("only the tests")
    page.get_by_role("button", name=f"Message: {TASKS[1]}").click()
    expect(page.locator("#to")).to_contain_text(f"To sub-agent “{TASKS[1]}”")
    expect(box).to_have_value("only the tests")
    box.press("Enter")
    expect(box).to_have_value("")
    expect(page.locator("#to")).to_be_hidden()
    expect(page.locator(".chip .where")).to_have_text(f"at next step, to sub-agent “{TASKS[1]}”")
    (steer,) = world.events("SteerQueued")
    assert steer.loop == second.loop
    second.plan("c1")
    second.start_tool("c1")
    second.settle("c1", output="ok")
    second.begin()
    card(page, TASKS[1]).locator("> .work > summary").click()
    expect(card(page, TASKS[1]).locator(".said.steer")).to_contain_text("only the tests")
    page.get_by_role("button", name=f"Message: {TASKS[0]}").click()
    box.fill("and this")
    first.answer("It is empty.")
    expect(page.locator("#to")).to_contain_text("has ended: this goes nowhere")
    box.press("Enter")
    expect(box).to_have_value("and this")
    page.get_by_role("button", name="To the main agent").click()
    box.press("Enter")
    expect(page.locator(".chip .where")).to_have_text("at next step")
    assert world.events("SteerQueued")[-1].loop == world.loop


@pytest.mark.rule("E1", "E12")
def test_the_stop_of_everything_says_how_many_agents_end(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "cleo")
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    page, watcher = opened.session("ana", world), opened.session("cleo", world)
    expect(page.locator(".halt small")).to_have_text("all 3 agents")
    expect(watcher.locator("#agents button", has_text="Stop")).to_have_count(0)
    expect(watcher.locator("#agents .agent-row")).to_have_count(2)
    page.get_by_role("button", name="Stop, with choices").click()
    expect(page.locator(".stop-menu .ends")).to_have_text("Ends the main agent and 2 sub-agents.")
    expect(page.locator(".stop-menu input[name=keep]")).to_be_hidden()
    expect(page.locator(".stop-menu input[name=queue]").first).to_be_hidden()
    page.locator(".stop-menu .danger").click()
    expect(page.locator("#state")).to_contain_text("Stopping, asked by ana")
    for agent in (first, second, world):
        agent.end(acknowledged_ms=3)
    for each in (page, watcher):
        expect(each.locator("#state")).to_have_text("Nothing running")
        expect(each.locator(".tool.agent > header .push")).to_have_text(["stopped by ana"] * 2)
        expect(each.locator("#timeline > .turn > .rule.stopped")).to_have_count(1)


@pytest.mark.rule("J4")
def test_a_handed_over_turn_waits_for_a_worker_and_then_goes_on(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    world.start("write it")
    Stream(world).say("Half an ans")
    expect(page.locator(".turn .step .prose")).to_have_text("Half an ans")
    world.report(commands.HandOver(world.turn, world.epoch, "model"))
    handed = "Handed over: worker left, the unfinished reply is begun anew by another"
    again = "Goes on with another worker"
    expect(page.locator("#state")).to_have_text("Waiting for a worker")
    expect(page.locator(".turn > .note")).to_have_text([handed])
    expect(page.locator(".turn .step .prose.cut")).to_have_text("Half an ans")
    page.reload()
    live(page)
    expect(page.locator("#state")).to_have_text("Waiting for a worker")
    assert world.claim()
    world.begin()
    expect(page.locator("#state")).to_contain_text("Thinking")
    Stream(world, attempt=2).say("The whole")
    world.answer("The whole answer.")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, served):
        expect(one.locator(".turn > .note")).to_have_text([handed, again])
        expect(one.locator(".turn .step .prose")).to_have_text("The whole answer.")


@pytest.mark.rule("G3", "E8")
def test_a_delegate_that_ends_with_its_parent_is_said_to_and_nobody_is_said_to_have_stopped_it(
    screens: Callable[..., Screens],
) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    world.start("compare the folders")
    (child,) = at_work(world, TASKS[0])
    failing = commands.Fail(world.turn, world.epoch, "provider", "no more credit", request=new_id())
    assert world.report(failing)["outcome"] == "waiting"
    expect(card(page, TASKS[0]).locator("> header .push")).to_have_text("stopping")
    expect(page.locator("#state")).to_have_text("1 sub-agent stopping")
    child.end()
    world.report(failing)
    expect(card(page, TASKS[0]).locator("> header .push")).to_have_text("stopped with the agent above it")
    expect(page.locator("#timeline > .turn > .rule.failed")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()
    page.goto(f"/interruptions/{child.turn}")
    expect(page.locator("h1")).to_have_text("Stopped with the agent that started it")
    expect(page.locator(".about-list")).to_contain_text("the agent above it")


@pytest.mark.rule("G1", "L1")
def test_older_pages_of_a_log_with_delegates_become_what_the_whole_is(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/")
    for name in ("delegates", "handed_over", "background"):
        events = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
        strange = {**events[-1], "seq": events[-1]["seq"] + 1, "type": "OfALaterRelease", "data": {}}
        state = json.loads((FOLDER / f"{name}.state.json").read_text())
        assert page.evaluate(PAGES, [[*events, strange], state]) == [], name
