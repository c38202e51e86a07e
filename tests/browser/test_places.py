"""Everything stands where it happened: calls whose ids come again, and notes made while a turn runs."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.browser.screens import Screens, live, observe
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
PLACES = """async (events) => {
  const { View } = await import("/static/js/session/view.js");
  const keys = (turn) => (turn ? turn.items.map((item) => item.key) : []);
  const places = (view) => view.blocks.map((block) => [block.key, ...keys(block.turn)]);
  const whole = new View();
  for (const event of events) whole.apply(event);
  const halves = events.map((_, at) => {
    const view = new View();
    for (const event of events.slice(at)) view.apply(event);
    if (at) view.prepend(events.slice(0, at));
    return places(view);
  });
  return [places(whole), ...halves];
}"""


def test_a_call_whose_id_comes_again_in_a_later_step_is_a_card_of_its_own(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    world.start("go")
    world.plan("c1")
    world.start_tool("c1")
    world.settle("c1", output="the first")
    world.begin()
    world.steer("not that", urgent=True)
    world.plan("c1")
    world.begin()
    world.plan("c1")
    world.start_tool("c1")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    for one in (page, served):
        expect(one.locator(".tool")).to_have_count(3)
        expect(one.locator(".tool").nth(0)).to_contain_text("done")
        expect(one.locator(".tool").nth(0)).to_contain_text("the first")
        expect(one.locator(".tool").nth(1)).to_contain_text("withdrawn by")
        expect(one.locator(".tool").nth(2)).to_have_attribute("data-is", "running")
    page.reload()
    live(page)
    expect(page.locator(".tool").nth(1)).to_have_attribute("data-is", "cut")


@pytest.mark.rule("I1")
def test_what_is_said_about_the_session_stands_where_it_happened(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    control.set_mode(world.owner, world.session, new_id(), mode="ask")
    world.start("go")
    world.plan("c1")
    observe(world, "kim")
    world.start_tool("c1")
    world.settle("c1")
    world.begin()
    control.set_mode(world.owner, world.session, new_id(), mode="plan")
    world.stop()
    world.end()
    control.set_mode(world.owner, world.session, new_id(), mode="auto")
    served = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    inside = ["said", "tool", "note", "note", "rule"]
    kinds = "all => all.map(one => one.className.split(' ')[0])"
    for one in (page, served):
        expect(one.locator(".turn > .note")).to_have_text(
            [re.compile("made kim an observer"), re.compile("plans only")]
        )
        assert one.locator(".turn > :not(header)").evaluate_all(kinds) == inside
        expect(one.locator(".col > .note")).to_have_text([re.compile("before each"), re.compile("runs freely")])
        assert one.locator(".turn ~ .note").count() == 1
    whole, *halves = page.evaluate(PLACES, [json.loads(frame) for frame in read.events(world.session)])
    assert len(halves) == world.events()[-1].seq
    assert all(places == whole for places in halves), "wherever a page of it begins"
