"""Readers with colours of their own, and words from right to left: nothing is told by a colour alone, nothing is turned
around or runs out of its box. The screenshots stay in `.artefacts/readers` to be looked at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.browser.screens import SIZES, Screens, live
from tests.browser.states import in_a_tool
from tests.browser.test_agents import at_work, together
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
SHOTS: Final = Path(__file__).parents[2] / ".artefacts" / "readers"
HEBREW: Final = "להעביר את דף ההגדרות לטופס החדש, ואז להריץ pytest -x tests/ (הכול)"
ARABIC: Final = "اقرأ المجلد الأول ثم اكتب ملخصًا قصيرًا: README.md"
RUNS_OUT: Final = """() => [...document.querySelectorAll("main *, .strip *, .dock *, .notice *")]
  .filter((one) => one.checkVisibility() && !one.closest("pre, .unseen, .diff, .tabs, svg"))
  .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .filter((one) => getComputedStyle(one).overflowX === "visible" && getComputedStyle(one).display !== "inline")
  .map((one) => [one.outerHTML.slice(0, 160), one.scrollWidth, one.clientWidth])"""
TURNED: Final = """() => [...document.querySelectorAll("time, .num, .mono, kbd, .state")]
  .filter((one) => one.checkVisibility() && getComputedStyle(one).direction !== "ltr")
  .map((one) => one.outerHTML.slice(0, 160))"""
FROM_RIGHT: Final = (
    "#title", ".said .prose", ".step .prose p, .step .prose li", ".chip .what", ".tool.agent > header code",
)  # fmt: skip


def style(page: Page, selector: str, *names: str, pseudo: str = "") -> list[Any]:
    """What the first such element looks like."""
    script = "(one, [names, pseudo]) => names.map((name) => getComputedStyle(one, pseudo || null)[name])"
    found: list[Any] = page.locator(selector).first.evaluate(script, [list(names), pseudo])
    return found


def shot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=SHOTS / f"{name}-{scheme}.png")


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_with_forced_colours_every_state_has_a_shape_of_its_own(screens: Open, size: str) -> None:
    opened, world = screens(), together()
    page = opened.session("ana", world, size, forced_colors="active")
    idle = style(page, "#stop .halt", "backgroundColor", "borderTopStyle")
    assert style(page, "#state", "borderTopWidth") == ["1px"]
    assert style(page, "#state", "borderTopStyle", pseudo="::before") == ["solid"], "nothing runs: a ring"
    in_a_tool(world)
    expect(page.locator("#state")).to_contain_text("Running a command")
    running = style(page, "#stop .halt", "backgroundColor", "borderTopStyle")
    assert running != idle
    ring = style(page, "#state", "borderTopStyle", pseudo="::before")
    assert ring == ["none"], "something runs: full"
    pressed, other = ".ways [aria-pressed=true]", ".ways [aria-pressed=false]"
    assert style(page, pressed, "borderTopWidth") == ["2px"]
    assert style(page, other, "borderTopWidth") == ["1px"]
    page.locator("#say textarea").focus()
    assert style(page, ".box", "outlineStyle", "outlineWidth") == ["solid", "2px"]
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    shot(page, f"forced-running-{size}")
    world.stop(person("ana", "phone"), reason="wrong branch")
    expect(page.locator(".receipt")).to_be_visible()
    assert style(page, "#stop .halt", "backgroundColor", "borderTopStyle") not in (running, idle)
    waits = page.locator(".receipt li:not([data-done])").first
    assert waits.evaluate("one => getComputedStyle(one).borderTopStyle") == "dashed"
    assert style(page, "#state", "borderRadius", pseudo="::before") == ["0px"]
    shot(page, f"forced-stopping-{size}")
    world.end(acknowledged_ms=6, settlements={"c1": commands.Settlement("interrupted", "212 passed\n")})
    expect(page.locator(".receipt[data-over]")).to_be_visible()
    assert style(page, ".rule.stopped", "borderTopWidth") == ["2px"]
    assert style(page, ".tool .dot.stop", "borderRadius") == ["0px"]
    shot(page, f"forced-stopped-{size}")
    world.start("compare the folders")
    first, second = at_work(world, "read the first folder", "read the second folder")
    control.set_mode(first.owner, first.session, new_id(), mode="ask", loop=first.loop)
    first.plan("c1", command="git push")
    first.start_tool("c1", commands.Effect("command", "git push"), "git push")
    second.answer("It holds **two** files.")
    expect(page.locator("#asks .ask")).to_be_visible()
    expect(page.locator(".tool.agent .dot.done")).to_have_count(1)
    shapes = [style(page, f".tool.agent .dot.{kind}", "borderRadius", "rotate") for kind in ("wait", "done")]
    assert shapes[0] != shapes[1]
    assert style(page, "#state", "rotate", pseudo="::before") == ["45deg"], "a person is needed"
    shot(page, f"forced-asking-{size}")
    listed = opened.open("ben", "/", size, forced_colors="active")
    live(listed)
    current, others = ".tabs [aria-current]", ".tabs .btn:not([aria-current])"
    assert style(listed, current, "borderTopWidth") != style(listed, others, "borderTopWidth")
    shot(listed, f"forced-list-{size}")
    turn = world.events("TurnInterrupted")[0].turn
    listed.goto(f"/interruptions/{turn}")
    shot(listed, f"forced-one-{size}")


@pytest.mark.parametrize("size", ["desk", "phone", "small"])
def test_words_from_right_to_left_stand_in_their_boxes_and_turn_nothing_else(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("עדי.כהן")
    control.change_session(world.owner, world.session, new_id(), title=HEBREW)
    world.start(HEBREW)
    world.plan(
        "c1", text=f"# {ARABIC}\n\n1. {HEBREW}\n2. {ARABIC}\n\n> {HEBREW}\n\n| {ARABIC} | 12 |\n|---|---|\n| x | 3 |"
    )
    world.start_tool("c1", command=f"cat '{ARABIC}' && echo done")
    world.settle("c1", output=f"{HEBREW}\n" * 3)
    world.begin()
    world.stop(reason=HEBREW)
    world.end(acknowledged_ms=6, cut_off={"text": ARABIC})
    turn = world.events("TurnInterrupted")[0].turn
    world.start(ARABIC)
    (child,) = at_work(world, ARABIC)
    control.set_mode(child.owner, child.session, new_id(), mode="ask", loop=child.loop)
    child.plan("c2", command=f"rm '{ARABIC}'")
    child.start_tool("c2", commands.Effect("command", f"rm '{ARABIC}'"), f"rm '{ARABIC}'")
    world.submit(f"{HEBREW} {HEBREW}")
    world.steer(ARABIC)
    page = opened.session("עדי.כהן", world, size)
    expect(page.locator("#asks .ask")).to_be_visible()
    for selector in (
        "#title",
        ".said .prose",
        ".step .prose p, .step .prose li",
        ".chip .what",
        ".tool.agent > header code",
    ):
        assert style(page, selector, "direction") == ["rtl"] or "plaintext" in style(page, selector, "unicodeBidi"), (
            selector
        )
    places = {"session": page, "list": opened.open("עדי.כהן", "/", size)}
    live(places["list"])
    places["stop"] = opened.open("עדי.כהן", f"/interruptions/{turn}", size)
    places["stops"] = opened.open("עדי.כהן", "/interruptions", size)
    for name, one in places.items():
        one.wait_for_load_state("networkidle") if name != "session" else None
        assert one.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["viewport"]["width"], name
        assert one.evaluate(TURNED) == [], name
        assert one.evaluate(RUNS_OUT) == [], name
        shot(one, f"rtl-{name}-{size}")
    page.locator("#line").evaluate("line => line.scrollTo(0, 0)")
    shot(page, f"rtl-top-{size}")
