"""Without a mouse: a session is started, steered, answered and stopped with nothing but keys."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from sessions_app.log import read
from tests.browser.screens import Screens, live
from tests.support.model_server import ModelServer, call, say, stall
from tests.support.running import MODEL

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
