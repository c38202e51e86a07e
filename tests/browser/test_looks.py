"""What is ugly is a fault, too: words that break or are cut, buttons out of sight, the same words twice."""

import re
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.people.accounts import create_person
from tests.browser.screens import SIZES, Screens, live, observe
from tests.browser.test_agents import TASKS, at_work, card, together
from tests.browser.test_agents_waiting import asking
from tests.browser.test_controls import left_running
from tests.browser.test_layout import fits
from tests.support.world import WORKER, World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
BROKEN: Final = """(places) => places.flatMap((place) => {
  const words = document.createTreeWalker(place, NodeFilter.SHOW_TEXT), broken = [], range = document.createRange();
  for (let node = words.nextNode(); node; node = words.nextNode()) {
    for (const { 0: word, index } of node.data.matchAll(/[^\\s-]+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word);
    }
  }
  return broken;
})"""
"""Words that stand on two lines."""
CUT: Final = """(places) => places.filter((one) => one.checkVisibility() && (one.scrollWidth > one.clientWidth + 1
  || one.getBoundingClientRect().right > screen.width)).map((one) => one.outerHTML.slice(0, 200))"""
"""What does not stand whole on the screen."""
ABOVE: Final = """(one) => one.getBoundingClientRect().bottom
  <= document.querySelector("#create .acts").getBoundingClientRect().top"""
LINES: Final = "one => one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight)"


def whole_words(page: Page, selector: str) -> None:
    assert page.locator(selector).evaluate_all(BROKEN) == []


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_page_of_a_stop_breaks_no_word_in_its_columns(screens: Open, size: str) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    children = at_work(world, *TASKS)
    world.stop()
    for child in (*children, world):
        child.end(acknowledged_ms=3)
    turn = world.events("TurnInterrupted")[-1].turn
    page = opened.open("ana", f"/interruptions/{turn}", size)
    expect(page.locator("#whole td[data-h=Hit]")).to_have_count(3)
    whole_words(page, "#whole td:not([data-h=Agent]), #whole th")
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["viewport"]["width"]


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_button_that_starts_a_session_is_always_in_sight(screens: Open, size: str) -> None:
    page = screens().open("ana", "/", size)
    live(page)
    page.get_by_role("button", name="New session").click()
    form = page.locator("dialog#create")
    start = form.get_by_role("button", name="Start")
    expect(start).to_be_in_viewport(ratio=1)
    form.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    expect(start).to_be_in_viewport(ratio=1)
    form.evaluate("one => one.scrollTo(0, 0)")
    for field in form.locator("textarea, input:not([type=radio])").all():
        field.focus()
        assert field.evaluate(ABOVE), "what has the focus stands above the buttons"


def test_the_top_of_a_page_on_a_phone_cuts_nothing_and_says_whose_it_is(screens: Open) -> None:
    create_person("wilhelmina.featherstonehaugh", admin=True)
    opened = screens()
    for size in ("phone", "small"):
        page = opened.open("wilhelmina.featherstonehaugh", "/", size)
        live(page)
        assert page.locator(".page .strip > *, .page .strip .btn").evaluate_all(CUT) == []
        me = page.get_by_role("link", name="wilhelmina.featherstonehaugh")
        expect(me).to_contain_text("wf")
        me.click()
        expect(page.get_by_role("button", name=re.compile("^Sign out")).first).to_be_visible()


def test_a_phone_shows_all_that_chips_receipts_and_cards_say(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    at_work(world, *TASKS)
    world.submit("and after that write the changelog, with everything that is in the folders")
    page = opened.session("ana", world, "phone")
    expect(page.locator(".chip .where")).to_have_text("after this turn")
    assert page.locator(".chip .where, .chip b, .chip .btn").evaluate_all(CUT) == []
    status = card(page, TASKS[0]).locator("> header .push")
    expect(status).to_contain_text(re.compile(r"working, \d+ s"))
    assert status.evaluate(LINES) < 1.5


def test_the_times_of_a_receipt_stand_at_one_height(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("run it")
    world.stop()
    world.end(acknowledged_ms=6)
    page = opened.session("ana", world)
    expect(page.locator(".receipt[data-over] li")).to_have_count(3)
    tops = page.locator(".receipt li > span").evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    assert len({round(top) for top in tops}) == 1


@pytest.mark.rule("G1")
def test_a_sub_agents_answer_stands_once_in_its_card(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    (child,) = at_work(world, TASKS[0])
    child.answer("It holds **two** files.")
    page = opened.session("ana", world)
    answer = card(page, TASKS[0]).get_by_text("It holds two files.").locator("visible=true")
    expect(answer).to_have_count(1)
    card(page, TASKS[0]).locator("summary").click()
    expect(card(page, TASKS[0]).locator(".inside")).to_contain_text("It holds two files.")
    expect(answer).to_have_count(1)


@pytest.mark.rule("H1")
def test_the_list_of_turns_says_when_nothing_below_can_go_on_without_an_approval(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("compare the folders")
    first, second = at_work(world, *TASKS)
    page = opened.session("ana", world)
    row = page.locator("#turns .row")
    asking(first, "git pull")
    expect(page.locator("#asks .ask")).to_have_count(1)
    expect(row).to_contain_text("running")
    asking(second, "git push")
    expect(row).to_contain_text("asks")


@pytest.mark.rule("E13")
def test_stop_says_that_what_runs_in_the_background_ends_too(screens: Open) -> None:
    opened, world = screens(), together()
    world.start("start the server")
    pages = [opened.session("ana", world, size) for size in ("desk", "phone")]
    for page in pages:
        expect(page.locator(".halt small")).to_have_text("everything here")
    left_running(world, "npm start")
    for page in pages:
        expect(page.locator(".halt small")).to_have_text("everything here and 1 process")
        assert page.locator(".halt").evaluate_all(CUT) == []
        page.get_by_role("button", name="Stop, with choices").click()
        ends = page.locator(".stop-menu .ends")
        expect(ends).to_have_text("Ends the agent\u2019s turn and 1 process in the background.")
        page.get_by_label("Keep 1 process in the background running").check()
        expect(ends).to_have_text("Ends the agent\u2019s turn.")


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_a_session_is_pinned_and_archived_from_its_own_page(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    page, listed = opened.session("ana", world, size), opened.open("ana", "/")

    def press(name: str) -> None:
        if size == "phone":
            page.get_by_role("button", name="Agents and turns").click()
        page.get_by_role("button", name=name, exact=True).click()

    press("Pin to the top")
    expect(page.locator("#trouble")).to_contain_text("It stands at the top of your list.")
    expect(listed.get_by_role("img", name="Pinned")).to_be_visible()
    press("Archive")
    expect(page.locator("#trouble")).to_contain_text("Archived")
    expect(listed.locator("#sessions li")).to_have_count(0)
    page.reload()
    live(page)
    press("Put back into the list")
    expect(page.locator("#trouble")).to_contain_text("It is back in your list.")
    press("Unpin")
    expect(page.locator("#trouble")).to_contain_text("It is no longer pinned in your list.")
    expect(listed.locator("#sessions li")).to_have_count(1)


def test_an_empty_list_names_what_one_can_do_in_a_browser(screens: Open) -> None:
    create_person("root", admin=True)
    opened = screens()
    page = opened.open("ana", "/")
    expect(page.locator(".steps li").last).to_contain_text("Whoever runs this server makes accounts")
    expect(page.locator(".steps li").last.locator("code")).to_have_count(0)
    admin = opened.open("root", "/")
    admin.get_by_role("link", name="Make an account for them").click()
    expect(admin.get_by_role("heading", name=re.compile("Add", re.IGNORECASE)).first).to_be_visible()


@pytest.mark.scenario("D20")
def test_who_watches_is_said_in_words_and_not_only_by_faces(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    page = opened.session("ana", world)
    expect(page.locator("#watching")).to_contain_text("Only you watch")
    opened.session("kim", world)
    expect(page.locator("#watching")).to_contain_text("2 watching")
    phone = opened.session("ana", world, "phone")
    expect(phone.locator("#watching .icon")).to_be_visible()
    fits(phone, SIZES["phone"]["viewport"]["width"])


def test_a_closed_session_says_so_once_and_claims_nothing_live(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    control.close(world.owner, world.session, new_id())
    expect(page.locator("#state")).to_have_text("Closed")
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator("#timeline")).to_contain_text("ana closes this session")


def a_stopped_call(opened: Screens) -> tuple[Page, World]:
    """A page and its session, where a stop waits for what a command has started."""
    world = World.create("ana")
    page = opened.session("ana", world)
    world.start("run it")
    world.plan("c1")
    world.start_tool("c1")
    world.stop()
    return page, world


def test_a_stop_that_proved_nothing_promises_no_rest(screens: Open) -> None:
    page, world = a_stopped_call(screens())
    world.end(settlements={"c1": commands.Settlement("lost")}, unknown=True)
    receipt = page.locator(".receipt[data-over]")
    expect(receipt).to_contain_text("Processes may still be running.")
    expect(receipt).not_to_contain_text("everything that waits")
    expect(receipt).to_contain_text("No message waits.")
    expect(page.locator("#state")).to_have_text("No agent running, processes may be")
    expect(page.locator(".halt small")).to_have_text("no agent runs")
    world.start("and now?")
    world.answer()
    expect(page.locator("#state")).to_have_text("Nothing running")


def test_nothing_runs_once_what_outlived_a_stop_has_ended(screens: Open) -> None:
    page, world = a_stopped_call(screens())
    left = [{"pid": 41, "command": "sleep 999"}, {"pid": 42, "command": "sleep 998"}]
    processes = {"ended": [], "surviving": left, "background": []}
    world.end(settlements={"c1": commands.Settlement("interrupted", "", processes=processes)})
    receipt = page.locator(".receipt[data-over]")
    expect(page.locator("#state")).to_have_text("No agent running, processes may be")
    expect(receipt).to_contain_text("Processes may still be running.")
    reports.survivors_ended(world.session, world.loop, world.turn, "c1", left, WORKER)
    expect(page.locator("#state")).to_have_text("Nothing running")
    expect(receipt).not_to_contain_text("Processes may still be running.")
