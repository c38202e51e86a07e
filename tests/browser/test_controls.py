"""What one presses is in sight, says what it will do this moment, and leaves the focus where one was."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import Screens
from tests.browser.test_agents import TASKS, at_work, card, together
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
LONG: Final = "while true; do date; sleep 2; done # a watcher with a very long command line that goes on and on"
NOTE: Final = (
    "[It runs on in the background, its output goes to the file /data/log, and it ends when a person stops it.]"
)
ROW: Final = "document.activeElement.matches('#background li') && document.activeElement.textContent"
FOCUSED: Final = "document.activeElement.id || document.activeElement.getAttribute('aria-label')"
SIDEWAYS: Final = "() => { const tree = document.getElementById('tree'); return tree.scrollWidth - tree.clientWidth; }"


def left_running(world: World, *written: str) -> None:
    """The running turn leaves these commands in the background."""
    for at, command in enumerate(written):
        call = f"b{at}"
        world.plan(call, command=command)
        world.start_tool(call, command=command)
        left = [{"pid": 90 + at, "command": f"/bin/bash --noprofile --norc -c {command}"}]
        processes = {"ended": [], "surviving": [], "background": left}
        settlement = commands.Settlement("ok", f"Serving.\n{NOTE}", processes=processes)
        world.report(commands.SettleTool(world.turn, world.epoch, world.step, call, settlement))
        world.begin()


def gone(world: World, turn: str, call: str, pid: int, command: str) -> None:
    """What that call left running has ended."""
    ended = [{"pid": pid, "command": f"/bin/bash --noprofile --norc -c {command}"}]
    reports.background_ended(world.session, commands.BackgroundEnded(turn, world.loop, call, ended, []))


@pytest.mark.rule("E13")
def test_a_long_command_leaves_room_for_its_kill_and_the_focus_goes_on_to_the_next(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("watch it")
    left_running(world, LONG, "npm start")
    world.answer("Both run.")
    page = opened.session("ana", world)
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    kill = page.get_by_role("button", name=f"Kill: {LONG[:40]}")
    expect(kill).to_be_in_viewport(ratio=1)
    expect(page.locator("#background code")).to_have_text([LONG, "npm start"])
    assert page.evaluate(SIDEWAYS) == 0
    for one in (page, served):
        expect(one.locator(".tool pre").first).to_have_text("Serving.")
        expect(one.locator(".tool > header .push").first).to_contain_text("left running in the background")
    kill.focus()
    kill.press("Enter")
    expect(page.locator("#background small").first).to_have_text("being ended by ana")
    assert "being ended by ana" in page.evaluate(ROW)
    gone(world, world.turn, "b0", 90, LONG)
    expect(page.locator("#background li")).to_have_count(1)
    assert "npm start" in page.evaluate(ROW)
    served.reload()
    for one in (page, served):
        expect(one.locator(".tool > header .push").first).to_contain_text("its background ended by ana")
        expect(one.locator("#timeline > .note").last).to_have_text(f"ana ended a background process: {LONG}")
    page.keyboard.press("Enter")
    expect(page.locator("#background small")).to_contain_text("for ")
    gone(world, world.turn, "b1", 91, "npm start")
    expect(page.locator("#background")).to_be_hidden()
    assert page.evaluate(FOCUSED) == "agents"


@pytest.mark.rule("E5", "E13")
def test_a_menu_about_a_turn_closes_when_that_has_ended_and_kills_nothing_that_was_kept(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("start the server")
    left_running(world, "npm start")
    desk, phone = opened.session("ana", world), opened.session("ben", world, "phone")
    desk.get_by_role("button", name="Stop, with choices").click()
    expect(desk.locator(".stop-menu .ends")).to_contain_text("turn and 1 process in the background.")
    expect(desk.get_by_text("Keep 1 process in the background running")).to_be_visible()
    phone.get_by_role("button", name="Stop, with choices").tap()
    phone.get_by_label("Keep 1 process in the background running").check()
    phone.locator(".stop-menu .danger").tap()
    expect(desk.locator(".stop-menu")).to_have_count(0)
    expect(desk.locator("#stop-says")).to_contain_text(
        "ben has pressed Stop meanwhile. Nothing was stopped from your menu"
    )
    world.end(acknowledged_ms=3)
    for page in (desk, phone):
        expect(page.locator(".receipt[data-over]")).to_contain_text("1 process runs on in the background, as asked.")
        expect(page.locator(".receipt")).not_to_contain_text("Everything ended")
    desk.get_by_role("button", name="Stop, with choices").click()
    expect(desk.locator(".stop-menu .ends")).to_have_text("No agent runs now. Ends 1 process in the background.")
    gone(world, world.turn, "b0", 90, "npm start")
    expect(desk.locator(".stop-menu .ends")).to_have_text("No agent runs now.")
    expect(desk.locator(".stop-menu input[name=keep]")).to_be_hidden()
    world.start("and now this")
    expect(desk.locator(".stop-menu")).to_have_count(0)
    expect(desk.locator("#stop-says")).to_contain_text("A turn has begun meanwhile.")


@pytest.mark.rule("E5")
def test_a_press_in_the_menu_names_the_turn_it_was_about(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("one")
    page = opened.session("ana", world)
    expect(page.locator("#state")).to_contain_text("Thinking")
    frames: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda sent: frames.append(str(sent))))
    page.reload()
    page.get_by_role("button", name="Stop, with choices").click()
    page.locator(".stop-menu .danger").click()
    expect(page.locator("#state")).to_contain_text("Stopping")
    assert any('"t":"interrupt"' in frame and world.turn in frame for frame in frames), frames
    world.end(acknowledged_ms=3)


@pytest.mark.rule("G5")
def test_the_question_about_one_agent_stands_beside_it_and_goes_when_that_has_ended(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    page = opened.session("ana", world)
    stop = page.get_by_role("button", name=f"Stop: {TASKS[0]}")
    stop.focus()
    stop.press("Enter")
    question = page.locator("[popover]")
    row = page.locator(f"#agents [data-loop='{first.loop}']").bounding_box()
    place = question.bounding_box()
    assert row and place and place["x"] >= row["x"] + row["width"] - 60, "it covers what it is about"
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    assert page.evaluate(FOCUSED) == f"Stop: {TASKS[0]}"
    stop.press("Enter")
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    assert page.evaluate(FOCUSED) == f"Stop: {TASKS[0]}"
    stop.press("Enter")
    first.answer("It is empty.")
    expect(question).to_have_count(0)
    page.wait_for_function("document.activeElement.closest('#agents')")
    other = page.get_by_role("button", name=f"Stop: {TASKS[1]}")
    other.focus()
    other.press("Enter")
    page.get_by_role("button", name="Stop only this agent").press("Enter")
    expect(card(page, TASKS[1]).locator("> header .push")).to_have_text("stopping")
    page.wait_for_function(f"document.activeElement.closest('#agents [data-loop=\"{second.loop}\"]')")
    second.end(acknowledged_ms=3)
    world.begin()
    world.answer("Compared.")
    receipt = page.locator(".receipt[data-over]")
    expect(receipt).to_contain_text(f"Only sub-agent “{TASKS[1]}” was stopped.")
    expect(receipt).not_to_contain_text("go on")


def asks(world: World) -> list[World]:
    """Two delegates of the running turn that ask whether they may write a long file."""
    control.set_mode(world.owner, world.session, new_id(), mode="ask")
    children = at_work(world, *TASKS)
    for child in children:
        text = "# Hello\n\nWorld\n" * 40
        planned = (commands.PlannedCall("w1", "write_file", {"path": "notes/hello.md", "content": text}),)
        child.report(commands.FinishModel(child.turn, child.epoch, child.step, "", calls=planned))
        effect = commands.Effect("path", "notes/hello.md")
        arguments = dict(planned[0].arguments)
        child.report(commands.StartTool(child.turn, child.epoch, child.step, "w1", arguments, effect, gate=new_id()))
    return children


def long_session() -> World:
    world = World.create("ana")
    for number in range(12):
        world.start(f"question {number}")
        world.answer(f"answer {number}\n" * 6)
    world.ask()
    return world


COVERED: Final = """() => {
  const line = document.getElementById("line").getBoundingClientRect();
  const cards = [...document.querySelectorAll("#asks .ask")].filter((one) => one.checkVisibility());
  const top = Math.min(...cards.map((one) => one.getBoundingClientRect().top));
  const pill = document.getElementById("newer").getBoundingClientRect();
  return [(line.bottom - top) / line.height, top - pill.bottom];
}"""


@pytest.mark.rule("H1")
@pytest.mark.parametrize("many", [1, 2])
def test_pinned_approvals_leave_the_timeline_to_be_read(screens: Open, many: int) -> None:
    opened = screens()
    world = long_session() if many == 1 else World.create("ana")
    if many == 2:
        for number in range(8):
            world.start(f"question {number}")
            world.answer(f"answer {number}\n" * 6)
        world.start("write both")
        asks(world)
    page = opened.session("ana", world)
    expect(page.locator("#asks .ask")).to_have_count(many)
    page.locator("#line").evaluate("line => line.scrollTo(0, 100)")
    expect(page.locator("#newer")).to_be_visible()
    for card_ in page.locator("#asks .ask").all():
        expect(card_).to_be_in_viewport(ratio=0.9)
    page.wait_for_function(f"({COVERED})()[0] < 0.46 && ({COVERED})()[1] >= 0")
    assert page.locator("#line").evaluate("line => line.scrollTop") < 200, "what one reads stays where it is"
    page.locator("#newer").click()
    expect(page.locator("#asks .ask").last.get_by_role("button", name="Deny")).to_be_in_viewport()


@pytest.mark.rule("H1")
def test_an_approval_that_somebody_else_answers_hands_the_focus_on_without_a_frame(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("write both")
    first, second = asks(world)
    page = opened.session("ana", world)
    expect(page.locator("#asks .ask")).to_have_count(2)
    page.keyboard.press("a")
    for child in (first, second):
        page.wait_for_function("document.activeElement.matches('.ask')")
        world.stop(loop=child.loop)
        child.end(acknowledged_ms=3)
    expect(page.locator("#asks")).to_be_hidden()
    assert page.evaluate(FOCUSED) == "line"
    assert page.locator("#line").evaluate("line => getComputedStyle(line).outlineStyle") == "none"


def test_one_reaches_the_columns_in_the_order_one_sees_them_in(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("one")
    page = opened.session("ana", world)
    order: Any = (
        "() => [...document.querySelectorAll('#tree, #line, #jump, .dock')].map((one) => one.id || one.className)"
    )
    assert page.evaluate(order) == ["tree", "line", "jump", "dock"]


def test_the_receipt_on_a_phone_says_in_one_piece_who_stopped_what(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    first, _ = at_work(world, *TASKS)
    phone = opened.session("ana", world, "phone")
    world.stop(loop=first.loop)
    first.end(acknowledged_ms=4)
    brief = phone.locator(".receipt .brief")
    expect(brief).to_contain_text(f"Sub-agent “{TASKS[0]}” has ended, stopped by ana")
    assert brief.evaluate("one => [one.childElementCount, one.childNodes.length]") == [1, 1]
