"""What waits with several agents: approvals, a sub-agent's second answer, messages at a stop; all of it on a phone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens, live
from tests.browser.test_agents import TASKS, at_work, card, together
from tests.browser.test_background_list import serving
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
UNCUT = "span => span.scrollWidth <= span.clientWidth"
WHOLE = "Its next answer replaces the one it gives now"


def asking(child: World, command: str) -> str:
    """The delegate asks for that command; the gate's id."""
    control.set_mode(child.owner, child.session, new_id(), mode="ask", loop=child.loop)
    child.plan("c1", command=command)
    return str(child.start_tool("c1", commands.Effect("command", command), command)["gate"])


def uncut(page: Page) -> bool:
    return bool(page.locator("#state > span").evaluate(UNCUT))


@pytest.mark.rule("H1", "G5")
def test_several_approvals_are_counted_and_the_one_that_waits_longest_comes_first(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    desk, phone = opened.session("ana", world), opened.session("ben", world, "phone")
    sessions = opened.open("ana", "/")
    oldest = asking(second, "git push")
    for page in (desk, phone):
        expect(page.locator("#state")).to_contain_text("Waiting for approval, ")
    asking(first, "git pull")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    listed = opened.open("ana", "/", java_script_enabled=False)
    for state in (*(page.locator("#state") for page in (desk, phone, served)), sessions.locator("#sessions .state")):
        expect(state).to_contain_text("Waiting for 2 approvals")
    expect(listed.locator("#sessions .state")).to_contain_text("Waiting for 2 approvals, ")
    assert uncut(phone)
    phone.reload()
    live(phone)
    for page in (desk, phone):
        expect(page.locator("#asks .ask").first).to_contain_text("git push")
    control.resolve(world.owner, world.session, new_id(), gate=oldest, decision="allow")
    for page in (desk, phone):
        expect(page.locator("#state")).to_contain_text("Waiting for approval, ")
        expect(page.locator("#asks .ask")).to_contain_text("git pull")


@pytest.mark.rule("G3", "G5")
def test_a_message_after_its_turn_replaces_a_sub_agents_answer_which_stays_readable(screens: Open) -> None:
    opened, world = screens(), together()
    desk, phone = opened.session("ana", world), opened.session("ben", world, "phone")
    world.start("compare the folders")
    (child,) = at_work(world, TASKS[0])
    desk.get_by_role("button", name=f"Message: {TASKS[0]}").click()
    desk.get_by_role("button", name="After this turn").click()
    expect(desk.locator("#say .hint")).to_have_text(WHOLE)
    assert desk.locator("#say .hint").evaluate(UNCUT)
    desk.get_by_role("textbox", name="Message").fill("and the hidden files")
    desk.get_by_role("textbox", name="Message").press("Enter")
    expect(desk.locator("#say .hint")).to_have_text(f"Received. {WHOLE}")
    child.answer("It holds **two** files.")
    for page in (desk, phone):
        earlier = card(page, TASKS[0]).locator("> .earlier")
        expect(earlier.locator(".prose")).to_have_text("It holds two files.")
        expect(earlier.locator("p.muted")).to_have_text("Its next answer replaces this one")
    assert child.claim()
    child.begin()
    child.answer("With the hidden ones, five.")
    (settled,) = world.events("ToolSettled")
    assert settled.data["output"] == "With the hidden ones, five."
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for page in (desk, phone, served):
        earlier = card(page, TASKS[0]).locator("> .earlier")
        expect(earlier.locator(".prose")).to_contain_text("files.")
        expect(earlier.locator("p.muted")).to_have_text("Replaced by its next answer")
    expect(card(phone, TASKS[0]).locator("> .result")).to_have_text("With the hidden ones, five.")
    expect(card(served, TASKS[0]).locator("> pre")).to_have_text("With the hidden ones, five.")
    desk.reload()
    live(desk)
    expect(card(desk, TASKS[0]).locator("> .earlier .prose")).to_have_text(["It holds two files."])


@pytest.mark.rule("G3")
def test_an_answer_that_its_stopped_second_turn_kept_from_the_agent_above_says_so(screens: Open) -> None:
    opened, world = screens(), together()
    desk = opened.session("ana", world)
    world.start("compare the folders")
    (child,) = at_work(world, TASKS[0])
    control.submit(world.owner, world.session, new_id(), text="once more", loop=child.loop)
    child.answer("Two files.")
    assert child.claim()
    child.stop(loop=child.loop)
    child.end()
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for page in (desk, served):
        earlier = card(page, TASKS[0]).locator("> .earlier")
        expect(earlier.locator(".prose")).to_have_text("Two files.")
        expect(earlier.locator("p.muted")).to_have_text("The agent above did not get this answer")


@pytest.mark.rule("E12")
def test_a_stop_promises_a_start_only_where_a_message_waits(screens: Open) -> None:
    opened, world = screens(), together()
    desk = opened.session("ana", world)
    world.start("run it")
    world.plan("c1")
    world.start_tool("c1")
    world.stop(queue="run")
    expect(desk.locator(".receipt > p")).to_have_text("When it has ended, nothing starts by itself.")
    world.submit("then the changelog")
    expect(desk.locator(".receipt > p")).to_have_text("When it has ended, the next waiting message starts.")


@pytest.mark.rule("E13")
def test_a_phones_strip_says_all_of_what_waits_and_runs_on(screens: Open) -> None:
    opened, world = screens(), together()
    serving(world)
    phone = opened.session("ben", world, "phone")
    expect(phone.locator("#state")).to_have_text("Nothing running, 1 in the background")
    assert uncut(phone)
    world.start("go on")
    for at in range(12):
        world.submit(f"message {at}")
    world.stop(queue="hold", keep_background=True)
    world.end()
    expect(phone.locator("#state")).to_have_text("Nothing running, 12 messages paused, 1 in the background")
    assert uncut(phone)
    phone.set_viewport_size({"width": 360, "height": 740})
    assert uncut(phone)
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
