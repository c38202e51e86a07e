"""Pages fit a small phone, every control has a name and a thumb's size, and the colours can be read."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.ids import new_id
from tests.browser.screens import SIZES, Screens, live, observe
from tests.support.waiting import wait_until
from tests.support.world import World

STYLESHEET = Path(__file__).parents[2] / "static" / "css" / "steerweb.css"
HUES = tuple(f"p{number}" for number in range(1, 9))
CONTRAST = 4.5

NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, textarea, select")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && one.type !== "hidden")
  .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title))
  .map((one) => one.outerHTML.slice(0, 120))"""
SMALL = """() => ["#stop button", "#say button", "#waiting button", ".receipt button", ".reasons input",
  ".strip button", ".fold", "aside button", "nav button", "nav a"]
  .flatMap((selector) => [...document.querySelectorAll(selector)])
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
  .map((one) => [one.outerHTML.slice(0, 120), one.getBoundingClientRect().height])"""

BESIDE = """() => [...document.querySelectorAll(".receipt button, .receipt input")]
  .filter((one) => one.getBoundingClientRect().left < 0 || one.getBoundingClientRect().right > innerWidth)
  .map((one) => one.outerHTML.slice(0, 120))"""


def busy() -> World:
    """A session with a long title, long words, a stopped turn, a running call and messages that wait."""
    world = World.create("ana")
    title = "A very long title that somebody wrote on a Monday morning before the first coffee, and it goes on"
    control.change_session(world.owner, world.session, new_id(), title=title)
    world.start("w" * 300)
    world.plan("c0", text="unbroken" * 60)
    world.start_tool("c0")
    world.settle("c0", output="\n".join(f"line {number} " + "x" * 200 for number in range(200)))
    world.begin()
    world.stop(reason="r" * 120)
    world.end(acknowledged_ms=6, cut_off={"text": "half " * 40})
    world.start("next")
    world.plan("c1", "c2")
    world.start_tool("c1")
    world.submit("then the changelog, and after that everything else that was left over")
    world.steer("mind the tests")
    return world


def fits(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url


CUT = """() => [...document.querySelectorAll("#state > *, #watching > *, #connection")].filter((one) => {
  const all = document.createRange();
  all.selectNodeContents(one);
  return one.checkVisibility() && all.getBoundingClientRect().width > one.getBoundingClientRect().width + 0.01;
}).map((one) => one.outerHTML.slice(0, 200))"""
HIGH = "() => document.querySelector('.app > .strip').getBoundingClientRect().height"


@pytest.mark.usefixtures("database", "redis_url")
def test_what_runs_stands_whole_in_the_strip_whatever_the_title_and_the_width(screens: Callable[..., Screens]) -> None:
    opened, world = screens(), busy()
    observe(world, "kim")
    page = opened.session("ana", world)
    opened.session("kim", world)
    expect(page.locator("#watching")).to_contain_text("2")
    for width in (1440, 1280, 1101, 1100, 900, 844, 820, 760, 721):
        page.set_viewport_size({"width": width, "height": 800})
        for offline in (False, True):
            page.context.set_offline(offline)
            expect(page.locator("#connection")).to_have_text("Offline" if offline else "Live")
            assert page.evaluate(CUT) == [], (width, offline)
            assert page.evaluate(HIGH) < 64, (width, offline)
            fits(page, width)
    page.context.set_offline(False)


@pytest.mark.usefixtures("database", "redis_url")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_360_pixels_and_names_its_controls(screens: Callable[..., Screens], scheme: str) -> None:
    opened, world = screens(), busy()
    context = opened.context("ana", "small", color_scheme=scheme)
    turn = world.events("TurnInterrupted")[0].turn
    for path in ("/", f"/s/{world.session}", "/interruptions", f"/interruptions/{turn}", "/nowhere", "/devices"):
        page = opened.look(context, path)
        page.wait_for_load_state("networkidle") if path != "/nowhere" else None
        fits(page, SIZES["small"]["viewport"]["width"])
        assert page.evaluate(NAMELESS) == [], path
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    assert page.evaluate(SMALL) == []
    world.stop()
    expect(page.locator(".receipt")).to_be_visible()
    world.end()
    expect(page.locator(".receipt[data-over]")).to_be_visible()
    assert page.locator(".receipt .reasons button").count() == 5
    assert page.evaluate(BESIDE) == []
    fits(page, SIZES["small"]["viewport"]["width"])
    assert page.evaluate(SMALL) == []
    box = page.locator("#stop .halt:not(.more)").bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert box["y"] + box["height"] <= SIZES["small"]["viewport"]["height"], "Stop stays on the screen"
    page.get_by_role("button", name="Agents and turns").tap()
    page.locator("#drawer").get_by_role("button", name=re.compile("Turn 1")).first.tap()
    expect(page.locator("#drawer")).to_be_hidden()
    expect(page.locator(".turn").first).to_be_in_viewport()


@pytest.mark.usefixtures("database", "redis_url")
def test_what_one_has_scrolled_up_to_is_not_yanked_away_and_older_turns_come_by_scrolling(
    screens: Callable[..., Screens],
) -> None:
    opened = screens()
    world = World.create("ana")
    for number in range(70):
        world.start(f"question {number}")
        world.answer(f"answer {number}\n" * 5)
    page = opened.session("ana", world)
    line = page.locator("#line")
    expect(page.locator(".turn").last).to_be_in_viewport()
    first = page.locator(".turn").first.get_attribute("id")
    line.evaluate("line => line.scrollTo(0, 0)")
    wait_until(lambda: page.locator(".turn").count() == 70, "the older turns")
    expect(page.locator(f"[id='{first}']")).to_be_in_viewport()
    place = line.evaluate("line => line.scrollTop")
    world.start("something new")
    world.answer("a new answer")
    expect(page.locator("#newer")).to_contain_text("new")
    assert abs(line.evaluate("line => line.scrollTop") - place) < 2
    page.locator("#newer").click()
    expect(page.locator(".turn").last).to_be_in_viewport()
    expect(page.locator("#newer")).to_be_hidden()


def tokens(scheme: int) -> dict[str, str]:
    """The colours of one scheme: 0 is light, 1 is dark."""
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLESHEET.read_text())
    return {name: (light, dark)[scheme] for name, light, dark in found}


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG has it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(scheme: int) -> None:
    colour = tokens(scheme)
    grounds = ("bg", "surface", "sunken")
    pairs = [(name, ground) for name in ("text", "muted", "live", "stop", "wait", "done") for ground in grounds]
    pairs += [(hue, ground) for hue in HUES for ground in ("surface", "bg")]
    pairs += [("stop", "stop-soft"), ("live", "live-soft"), ("wait", "wait-soft"), ("muted", "stop-soft")]
    pairs += [("surface", hue) for hue in HUES]
    weak = {pair: round(ratio, 2) for pair in pairs if (ratio := contrast(colour[pair[0]], colour[pair[1]])) < CONTRAST}
    assert not weak
    assert contrast("#ffffff", colour["stop-fill"]) >= CONTRAST
