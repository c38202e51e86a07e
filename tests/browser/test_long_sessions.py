"""Sessions of any length: a page holds a bounded part of them, goes anywhere, and never loses what happens now."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screens import Screens, Stream
from tests.support.bulk import OUTPUT, repeat_turn
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
MOST_NODES = 40_000
"""What a page of the largest part may hold; its events alone would need many times more."""


def long_world(turns: int, outputs: int = 0) -> World:
    """A session of so many turns with one call each, some with 5 kB of output."""
    world = World.create("ana")
    world.start("say it")
    world.plan("c")
    world.start_tool("c")
    world.settle("c", output="said")
    world.begin()
    world.answer("It was said.")
    repeat_turn(world, turns - 1, outputs)
    return world


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('#timeline *').length"))


def words_are_there(page: Page) -> bool:
    """Every turn in sight says what it was asked."""
    return all(re.search(r"say it|now", said) for said in page.locator(".said").all_text_contents())


def numbers(page: Page) -> list[int]:
    """The turns that are there, once all of them are drawn; one whose beginning is not has no number."""
    found: list[list[int] | None] = []

    def read() -> bool:
        found.append(
            page.evaluate(
                """() => {
                  const headers = [...document.querySelectorAll('.turn > header')];
                  if (headers.some((one) => !one.firstChild)) return null;
                  return headers.map((one) => Number(one.querySelector('b').textContent.slice(5))).filter(Boolean);
                }"""
            )
        )
        return found[-1] is not None

    wait_until(read, "all turns drawn")
    return found[-1] or []


def go_to(page: Page, number: int) -> None:
    page.get_by_label("Number of the turn").fill(str(number))
    page.keyboard.press("Enter")


def all_drawn(page: Page) -> None:
    """What comes from now on is spoken: all that was there before has been drawn."""
    expect(page.locator("#timeline")).to_have_attribute("aria-live", "polite")


def in_sight(page: Page, number: int) -> None:
    """That turn stands at the top of the timeline."""
    turn = page.locator(".turn", has=page.get_by_text(f"Turn {number}", exact=True))
    expect(turn).to_be_in_viewport()


def scrolled_to_the_top(page: Page) -> bool:
    """Scroll up; whether there is nothing above."""
    page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
    return page.locator("#older").is_hidden()


@pytest.mark.scenario("D46")
def test_a_long_session_opens_at_its_end_and_goes_anywhere(screens: Open) -> None:
    opened, world = screens(), long_world(700, outputs=300)
    page = opened.session("ana", world)
    in_sight(page, 700)
    expect(page.locator(".said", has_text="say it 1").first).not_to_be_attached()
    go_to(page, 3)
    in_sight(page, 3)
    expect(page.get_by_text("say it 3", exact=True)).to_be_visible()
    expect(page.locator("#newer")).to_have_text("To the newest")

    world.start("what happens meanwhile")
    expect(page.locator("#state")).to_contain_text("Thinking")
    expect(page.get_by_text("what happens meanwhile")).not_to_be_attached()
    page.locator("#newer").click()
    in_sight(page, 701)
    expect(page.get_by_text("what happens meanwhile")).to_be_visible()
    assert nodes(page) < MOST_NODES


CHANGES = {
    "something comes": """() => {
      const item = document.createElement("p");
      item.className = "note";
      document.querySelector(".turn:last-of-type").append(item);
    }""",
    "room is made": """() => {
      for (const part of ["line", "timeline", "asks", "newer"]) for (const name of ["covered", "pinned", "shown"]) {
        document.getElementById(part).style.setProperty(`--${name}`, "33px");
      }
    }""",
    "one reads further up": "() => document.getElementById('asks').toggleAttribute('data-up')",
}


@pytest.mark.parametrize("size", ["desk", "phone"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_has_its_own_style_made_and_not_that_of_all_that_is_there(
    screens: Open, size: str, change: str
) -> None:
    """A `:has()` on what holds the timeline, or an inherited property set there, would cost as much as all of it."""
    page = screens().session("ana", long_world(12), size)
    all_drawn(page)
    there = nodes(page)
    styled: list[int] = []
    done: list[bool] = []

    def collect(told: dict[str, Any]) -> None:
        found = [each["args"] for each in told["value"] if each["name"] == "UpdateLayoutTree" and "args" in each]
        styled.extend(args["elementCount"] for args in found if "elementCount" in args)

    tracing = page.context.new_cdp_session(page)
    tracing.on("Tracing.dataCollected", collect)
    tracing.on("Tracing.tracingComplete", lambda _: done.append(True))
    tracing.send("Tracing.start", {"categories": "devtools.timeline", "transferMode": "ReportEvents"})
    page.evaluate(f"() => {{ ({CHANGES[change]})(); document.body.getBoundingClientRect(); }}")
    tracing.send("Tracing.end")
    wait_until(lambda: page.evaluate("1") and done, "the trace")
    assert styled, "nothing was seen"
    assert max(styled) < there / 4


def test_where_one_went_last_is_where_one_is_whatever_comes_late(screens: Open) -> None:
    page = screens().session("ana", long_world(300))
    held: list[Any] = []

    def hold_the_first(route: Any) -> None:
        if held:
            route.continue_()
        held.append(route)

    page.route(re.compile(r"/events\?before="), hold_the_first)
    go_to(page, 3)
    wait_until(lambda: page.evaluate("1") and held, "the far turn's question")
    go_to(page, 299)
    in_sight(page, 299)
    with page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].continue_()
    all_drawn(page)
    assert 3 not in numbers(page)
    in_sight(page, 299)
    go_to(page, 3)
    in_sight(page, 3)


def test_what_a_notification_asks_for_while_the_page_begins_is_shown(screens: Open) -> None:
    world = long_world(40)
    [first, *_] = world.events("TurnStarted")
    opened = screens()
    context = opened.context("ana")
    context.add_init_script(
        """document.addEventListener("DOMContentLoaded", () => navigator.serviceWorker.dispatchEvent(
             new MessageEvent("message", { data: { go: "#turn-TURN" } })));""".replace("TURN", first.turn or "")
    )
    page = opened.look(context, f"/s/{world.session}")
    in_sight(page, 1)


@pytest.mark.scenario("D46")
def test_one_reads_from_a_place_in_the_middle_to_the_end_without_a_gap(screens: Open) -> None:
    opened, world = screens(), long_world(420)
    page = opened.session("ana", world)
    go_to(page, 200)
    in_sight(page, 200)
    page.locator("#line").hover()
    seen: set[int] = set()
    for _ in range(400):
        shown = numbers(page)
        assert shown == list(range(shown[0], shown[-1] + 1)), "turns follow each other"
        seen |= set(shown)
        if page.locator("#newer").is_hidden():
            break
        page.evaluate("document.querySelector('#line').scrollTop += 2_000")
    assert seen >= set(range(200, 421))
    assert nodes(page) < MOST_NODES
    world.start("and on")
    in_sight(page, 421)


@pytest.mark.scenario("D46")
def test_what_one_reads_far_up_stays_where_it_is(screens: Open) -> None:
    opened, world = screens(), long_world(300)
    page = opened.session("ana", world)
    for _ in range(4):
        expect(page.locator("#older")).to_be_visible()
        before = page.locator(".turn").first.get_attribute("id") or ""
        page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
        expect(page.locator(".turn").first).not_to_have_id(before)
    place = page.locator(".turn").nth(20)
    place.evaluate("one => one.scrollIntoView()")
    number = place.locator("header > b").text_content() or ""
    place = page.locator(".turn", has=page.get_by_text(number, exact=True))
    at = place.evaluate("one => one.getBoundingClientRect().top")
    repeat_turn(world, 350)
    world.start("now")
    expect(page.locator("#state")).to_contain_text("Thinking")
    assert abs(place.evaluate("one => one.getBoundingClientRect().top") - at) < 2
    assert nodes(page) < MOST_NODES
    assert words_are_there(page)
    page.locator("#newer").click()
    expect(page.locator(".said", has_text="now")).to_be_in_viewport()
    expect(page.locator("#newer")).to_be_hidden()
    world.answer("\n\n".join(f"line {number}" for number in range(80)))
    expect(page.get_by_text("line 79", exact=True)).to_be_in_viewport()
    repeat_turn(world, 200)  # more than stays, while one follows the end
    expect(page.locator(".said").last).to_contain_text("now 851")
    assert words_are_there(page)
    assert nodes(page) < MOST_NODES


@pytest.mark.scenario("D46")
def test_a_message_that_waited_long_hides_nothing_of_what_happened_meanwhile(screens: Open) -> None:
    opened, world = screens(), long_world(1)
    page = opened.session("ana", world)
    world.submit("it waited")
    repeat_turn(world, 260)
    expect(page.locator(".said").last).to_contain_text("say it 261")
    assert numbers(page)[0] > 50, "the beginning is no more on the page"
    page.locator(".turn").nth(-20).evaluate("one => one.scrollIntoView()")
    assert world.claim()
    world.begin()
    world.answer("now it is done")
    expect(page.locator(".said", has_text="it waited")).to_be_attached()
    world.start("say it")
    world.answer("said")
    repeat_turn(world, 250)  # more than stays: what is read becomes a part of its own
    expect(page.locator("#later")).to_be_visible(timeout=60_000)
    for _ in range(30):
        shown = numbers(page)
        assert shown == list(range(shown[0], shown[-1] + 1)), "turns follow each other"
        if shown[0] < 50:
            break
        page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
        wait_until(lambda first=shown[0]: numbers(page)[0] < first, "earlier turns")  # type: ignore[misc]
    assert numbers(page)[0] < 50
    go_to(page, 262)
    in_sight(page, 262)
    expect(page.locator(".said", has_text="it waited")).to_be_visible()


def test_a_turn_of_very_many_steps_stays_light_and_whole(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    world.start("count")
    for number in range(0, 880, 8):
        calls = [f"c{number + beside}" for beside in range(8)]
        world.plan(*calls)
        for call in calls:
            world.start_tool(call)
            world.settle(call, output=f"number {call[1:]}")
        world.begin()
    world.plan("last")
    world.start_tool("last")
    stream = Stream(world, "tool", "last")
    stream.say("it runs\n")
    expect(page.locator(".tool", has_text="echo last").get_by_text("it runs")).to_be_visible()
    expect(page.get_by_text("its beginning is further up")).to_be_attached()
    expect(page.get_by_text("number 0", exact=True)).not_to_be_attached()
    assert nodes(page) < MOST_NODES
    wait_until(lambda: scrolled_to_the_top(page), "the beginning")
    expect(page.get_by_text("number 0", exact=True)).to_be_attached()
    expect(page.locator("header", has_text="it goes on further down")).to_be_attached()
    page.locator("#newer").click()
    stream.say("and on\n")
    expect(page.locator(".tool", has_text="echo last").get_by_text("and on")).to_be_visible()
    world.stop()
    world.end()
    expect(page.locator(".rule.stopped")).to_be_visible()


def test_the_outline_names_every_turn(screens: Open) -> None:
    opened, world = screens(), long_world(205)
    world.start("stop this one")
    world.stop()
    world.end()
    world.start("and now")
    page = opened.session("ana", world)
    rows = page.locator("#turns .row")
    expect(rows.last).to_contain_text("Turn 207")
    stop = page.get_by_role("button", name=re.compile("Turn 206: stopped"))
    expect(stop).to_be_visible()
    page.locator("#turns").get_by_role("button", name="Earlier turns").click()
    expect(rows.first).to_contain_text("Turn 1")
    expect(rows).to_have_count(207 + 1)
    rows.first.click()
    in_sight(page, 1)
    expect(page.locator(".rule.stopped")).not_to_be_in_viewport()
    stop.click()
    expect(page.locator(".rule.stopped")).to_be_in_viewport()
    page.get_by_label("Number of the turn").fill("999")
    page.keyboard.press("Enter")
    assert page.get_by_label("Number of the turn").evaluate("one => one.validity.rangeOverflow")
    assert OUTPUT not in (page.text_content("#timeline") or "")


def test_a_link_leads_to_its_turn_wherever_that_is(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    first = world.start("ask another")
    [child] = world.delegate("look")
    child.claim()
    child.begin()
    child.answer("seen")
    world.begin()
    world.answer("it has looked")
    world.start("and now")
    world.answer("done")
    repeat_turn(world, 100)
    page = opened.open("ana", f"/s/{world.session}#turn-{first}")
    in_sight(page, 1)
    page.locator("#newer").click()
    in_sight(page, 102)
    page.evaluate(f"location.hash = '{child.turn}'")
    expect(page.locator(".tool.agent")).to_be_in_viewport()


def slowly(page: Page) -> None:
    """As on a slow device: a page that is opened now is drawn in many frames."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 12})


@pytest.mark.scenario("D46")
def test_on_a_slow_device_one_stays_where_a_link_leads_while_the_rest_is_drawn(screens: Open) -> None:
    opened, world = screens(), long_world(14)
    wanted = world.events("TurnStarted")[4].turn
    page = opened.open("ana", "/")
    slowly(page)
    page.goto(f"/s/{world.session}#turn-{wanted}")
    all_drawn(page)
    expect(page.locator(f"#turn-{wanted}")).to_be_in_viewport()
    expect(page.locator(".turn").last).not_to_be_in_viewport()
    expect(page.locator("#newer")).to_have_text("To the newest")
    assert numbers(page) == sorted(numbers(page))
    assert all(page.locator(".turn").nth(at).locator(".tool").count() == 1 for at in range(2, 14))


@pytest.mark.scenario("D46")
def test_on_a_slow_device_a_link_leads_to_an_agent_below_an_agent(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("ask another")
    [child] = world.delegate("look")
    child.claim()
    child.begin()
    [grandchild] = child.delegate("look closer")
    for each, words in ((grandchild, "seen"), (child, "it has looked"), (world, "done")):
        if each is grandchild:
            each.claim()
        each.begin()
        each.answer(words)
    world.start("and now")
    world.answer("said")
    repeat_turn(world, 10)
    page = opened.open("ana", "/")
    slowly(page)
    page.goto(f"/s/{world.session}#{grandchild.turn}")
    all_drawn(page)
    expect(page.locator(f"#agent-{grandchild.loop}")).to_be_in_viewport()
