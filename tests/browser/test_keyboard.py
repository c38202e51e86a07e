"""Without a mouse: a session is started, steered, answered and stopped by keys, and keys say what they do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.log import read
from tests.browser.screens import Screens, live
from tests.browser.test_agents import TASKS, at_work, card, together
from tests.browser.test_agents_waiting import asking
from tests.support.model_server import ModelServer, call, say, stall
from tests.support.running import MODEL
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
MOST_TABS = 80


def tab_to(page: Page, control: Locator) -> None:
    """Go there as somebody would who cannot point, and see that one sees where one is."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if control.evaluate("one => one === document.activeElement"):
            outline, width, shadow = control.evaluate(
                "one => { const s = getComputedStyle(one); return [s.outlineStyle, s.outlineWidth, s.boxShadow]; }"
            )
            assert shadow != "none" or (outline != "none" and width != "0px"), f"{control} shows no focus"
            return
    raise AssertionError(f"{control} cannot be reached by Tab")


def test_a_session_is_started_steered_answered_and_stopped_by_keyboard_alone(
    own_screens: Callable[..., Screens], server: ModelServer
) -> None:
    opened = own_screens(workers=1, env=server.environ())
    page = opened.open("ana", "/")
    expect(page.locator("#connection")).to_be_attached()
    new = page.get_by_role("button", name="New session")
    expect(new).to_be_visible()
    tab_to(page, new)
    page.keyboard.press("Enter")
    form = page.get_by_role("dialog")
    expect(form.get_by_label("First message")).to_be_focused()
    server.script([say("I ask first."), call("shell", command="echo allowed; until [ -e go ]; do sleep 0.05; done")])
    page.keyboard.type("Make something.")
    tab_to(page, form.get_by_role("combobox", name="Model"))
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(MODEL)
    asks = form.get_by_role("radio", name="asks before")
    if asks.count() == 0 or not asks.first.is_checked():
        tab_to(page, form.locator("input[name=mode]:checked"))
        while not form.locator("input[name=mode][value=ask]").is_checked():
            page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/*")
    live(page)

    card = page.locator("#asks .ask")
    expect(card).to_contain_text("echo allowed")
    server.script([say("Shorter it is. "), stall()])
    page.keyboard.press("a")
    expect(card).to_be_focused()
    tab_to(page, card.get_by_role("button", name="Allow once"))
    page.keyboard.press("Enter")
    expect(page.locator(".tool[data-is=running]")).to_contain_text("allowed")

    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    page.keyboard.type("Make it shorter.")
    page.keyboard.press("Enter")
    expect(page.locator(".chips")).to_contain_text("Make it shorter.")
    Path(read.workspace_of(page.url.rsplit("/", 1)[1]), "go").touch()
    expect(page.locator(".said.steer")).to_contain_text("Make it shorter.")
    expect(page.locator(".step .prose").last).to_contain_text("Shorter it is")

    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator(".receipt[data-over]")).to_be_visible()
    expect(page.locator(".rule.stopped")).to_contain_text("Stopped by ana")


WHERE = "document.activeElement.closest('.strip, .notice, #tree, #line, #jump, .dock')?.className"


def test_one_escape_says_what_a_second_one_would_do(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    stop = page.locator("#stop .halts")
    page.keyboard.press("Escape")
    expect(stop.locator("small")).to_have_text("no agent runs")
    world.start("run it")
    expect(stop.locator("small")).to_have_text("everything here")
    page.get_by_role("textbox", name="Message").fill("half a sentence")
    page.keyboard.press("Escape")
    expect(stop.locator("small")).to_have_text("with Esc again")
    expect(page.locator("#announce")).to_have_text("Esc again stops everything here.")
    expect(stop.locator("small")).to_have_text("everything here")
    assert not world.events("InterruptRequested")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("half a sentence")


def test_a_key_leaves_the_message_box_for_the_next_part_of_the_page_and_comes_back(
    screens: Callable[..., Screens],
) -> None:
    opened, world = screens(), World.create("ana")
    world.start("run it")
    page = opened.session("ana", world)
    box = page.get_by_role("textbox", name="Message")
    box.fill("a/?")
    places: list[str] = []
    while not places or "dock" not in places[-1]:
        page.keyboard.press("F6")
        places.append(page.evaluate(WHERE))
    assert [place.split()[0] for place in places] == ["strip", "side", "line", "side", "dock"]
    expect(box).to_be_focused()
    page.keyboard.press("Shift+F6")
    page.keyboard.press("Shift+F6")
    expect(page.locator("#line")).to_be_focused()
    page.keyboard.press("/")
    expect(box).to_be_focused()
    expect(box).to_have_value("a/?")


@pytest.mark.rule("H1")
def test_the_approval_that_has_the_focus_is_the_one_that_is_answered(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    page = opened.session("ana", world)
    asking(first, "git pull")
    asking(second, "git push")
    cards = page.locator("#asks .ask")
    expect(cards).to_have_count(2)
    page.keyboard.press("a")
    expect(cards.filter(has_text="git pull")).to_be_focused()
    page.keyboard.press("a")
    expect(cards.filter(has_text="git push")).to_be_focused()
    tab_to(page, cards.filter(has_text="git push").get_by_role("button", name="Allow once"))
    page.keyboard.press("Enter")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("git pull")
    page.keyboard.press("a")
    expect(cards).to_be_focused()


@pytest.mark.rule("E8", "B6")
def test_a_reason_is_written_through_whatever_happens_and_can_be_corrected_afterwards(
    screens: Callable[..., Screens],
) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    (child,) = at_work(world, TASKS[0])
    page = opened.session("ana", world)
    ben = opened.session("ben", world, "phone")
    world.stop()
    child.end(acknowledged_ms=3)
    world.end(acknowledged_ms=5)
    reason = page.get_by_role("textbox", name="Another reason")
    reason.click()
    page.keyboard.type("the wrong ")
    world.submit("something else")
    expect(page.locator(".receipt")).to_contain_text("1 message waits and will start")
    page.keyboard.type("folder, a/b?")
    expect(reason).to_have_value("the wrong folder, a/b?")
    page.keyboard.press("Enter")
    expect(page.locator(".receipt .why")).to_contain_text("the wrong folder, a/b?")
    change = page.get_by_role("button", name="Change the reason")
    expect(change).to_be_focused()
    page.keyboard.press("Enter")
    expect(reason).to_be_focused()
    page.keyboard.press("Escape")
    expect(change).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("it read what it may not")
    page.keyboard.press("Enter")
    expect(page.locator(".receipt .why")).to_contain_text("it read what it may not")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, ben, served):
        card(one, TASKS[0]).locator("summary").first.click()
        expect(one.locator(".rule.stopped")).to_have_count(2)
        for box in one.locator(".rule.stopped").all():
            expect(box).to_contain_text("it read what it may not")
    expect(ben.get_by_role("button", name="Change the reason")).to_have_count(0)
    assert [event.data["reason"] for event in world.events("InterruptReasonGiven")] == [
        "the wrong folder, a/b?",
        "it read what it may not",
    ]


@pytest.mark.rule("B6")
def test_a_page_of_the_stop_corrects_its_reason_within_a_day(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), together()
    world.start("run it")
    world.stop(reason="wrong branch")
    world.end(acknowledged_ms=5)
    turn = world.events("TurnInterrupted")[0].turn
    page = opened.open("ana", f"/interruptions/{turn}")
    page.get_by_text("Change the reason").click()
    field = page.get_by_role("textbox", name="Why did you stop it?")
    expect(field).to_have_value("wrong branch")
    field.fill("wrong folder")
    field.press("Enter")
    expect(page.locator(".rule.stopped")).to_contain_text("wrong folder")
    assert world.events("InterruptReasonGiven")[0].data["reason"] == "wrong folder"
    expect(opened.open("ben", f"/interruptions/{turn}").get_by_text("Change the reason")).to_have_count(0)
