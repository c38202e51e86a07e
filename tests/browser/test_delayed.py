"""Redis away: the page says that its live updates are delayed, never that nothing runs (D33)."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.screens import Screens
from tests.support.world import World


@pytest.mark.rule("L5")
@pytest.mark.scenario("D33")
def test_the_strip_says_that_live_updates_are_delayed_while_redis_is_away(screens: Callable[..., Screens]) -> None:
    look = screens()
    world = World.create()
    world.start()
    page = look.session("ana", world)
    look.stack.redis.stop()
    expect(page.locator("#connection")).to_have_text("Live updates delayed")
    expect(page.locator("#state")).to_have_attribute("data-is", "running")
    world.answer("Done without a bell.")
    expect(page.locator("#timeline")).to_contain_text("Done without a bell.")
    look.stack.redis.start()
    expect(page.locator("#connection")).to_have_text("Live")
