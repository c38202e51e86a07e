"""Every state of a session on a desk and on a phone: what it says, what Stop would do, and that anybody can use it.

The screenshots stay in `.artefacts/states` to be looked at.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.screens import SIZES, Screens
from tests.browser.states import RUNNING, STATES, stopped
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
SHOTS: Final = Path(__file__).parents[2] / ".artefacts" / "states"
SAID: Final = {
    "nothing_yet": "Nothing running",
    "waiting_for_a_worker": "Waiting for a worker",
    "streaming": "Writing",
    "in_a_tool": "Running a command",
    "asking": "Waiting for approval",
    "retrying": "The model did not answer, next try in",
    "delegating": "sub-agent",
    "handed_over": "Waiting for a worker",
    "stopping": "Stopping, asked by ana",
    "stopped": "Nothing running",
    "paused": "2 messages paused",
    "failed": "Nothing running, the last turn failed",
    "worker_died": "Nothing running, the last turn.s worker died",
    "closed": "Closed",
}
"""What the strip says."""


def violations(page: Page) -> list[str]:
    """What axe-core finds, rule and element."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['target']} {node['html'][:160]}" for each in found for node in each["nodes"]]


def in_both_schemes(page: Page) -> Iterator[str]:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield scheme
    page.emulate_media(color_scheme=None, reduced_motion=None)


@pytest.mark.parametrize("size", ["desk", "phone"])
@pytest.mark.parametrize("state", STATES)
def test_it_says_what_is_and_anybody_can_use_it(screens: Open, state: str, size: str) -> None:
    opened, world = screens(), World.create("ana")
    STATES[state](world)
    page = opened.session("ana", world, size)
    expect(page.locator("#state")).to_contain_text(re.compile(SAID[state], re.IGNORECASE))
    stop = page.locator("#stop .halts")
    if state == "closed":
        expect(stop).to_be_hidden()
    else:
        wanted = "running" if state in RUNNING else "stopping" if state == "stopping" else "idle"
        expect(stop).to_have_attribute("data-is", wanted)
        expect(stop).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["viewport"]["width"]
    SHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in in_both_schemes(page):
        page.screenshot(path=SHOTS / f"{state}-{size}-{scheme}.png")
        assert violations(page) == []


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_every_other_page_can_be_used_by_anybody(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    stopped(world)
    [turn] = [event.turn for event in world.events("TurnInterrupted")]
    paths = (
        "/", "/?q=tests", "/interruptions", f"/s/{world.session}/interruptions", f"/interruptions/{turn}", "/devices",
        "/notifications", "/models", "/stop-all", "/nowhere",
    )  # fmt: skip
    page = opened.open("ana", "/", size)
    for path in paths:
        page.goto(path)
        page.wait_for_load_state("networkidle")
        for scheme in in_both_schemes(page):
            page.screenshot(
                path=SHOTS
                / f"{re.sub(r'[^a-z]+', '-', path.replace(world.session, '').replace(turn, 'one'))}-{size}-{scheme}.png"
            )
            assert violations(page) == [], path
