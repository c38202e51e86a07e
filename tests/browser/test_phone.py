"""A phone or a tablet in the hand: the dock above the keyboard, Stop in every state, and a page that was left."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import FloatRect, Locator, Page, WebSocketRoute, expect

from tests.browser.screens import Screens, live
from tests.browser.states import RUNNING, STATES
from tests.browser.test_layout import fits
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
SIZES = ((390, 844), (820, 1180), (1366, 1024), (360, 640))
KEYBOARD = 0.4
# A keyboard that covers the page instead of shrinking it, as on iOS: only the visual viewport tells.
COVERING = """() => {
  const seen = new EventTarget();
  const open = () => document.activeElement?.matches("textarea, input");
  Object.defineProperties(seen, {
    height: { get: () => innerHeight * (open() ? 0.6 : 1) }, width: { get: () => innerWidth },
    offsetTop: { value: 0 }, offsetLeft: { value: 0 }, pageTop: { value: 0 }, scale: { value: 1 },
  });
  Object.defineProperty(window, "visualViewport", { value: seen });
  for (const type of ["focusin", "focusout"]) addEventListener(type, () => seen.dispatchEvent(new Event("resize")));
}"""


def box(one: Locator) -> FloatRect:
    found = one.bounding_box()
    assert found is not None
    return found


def above_the_keyboard(page: Page, height: float) -> None:
    """Input, Send and Stop can be seen and pressed above it (D38)."""
    field, send = page.locator("#say textarea"), page.locator("#say .send")
    stop, more = page.locator("#stop .halt:not(.more)"), page.locator("#stop .halt.more")
    for one in (field, send, stop, more):
        at = box(one)
        assert at["width"] >= 44 and at["height"] >= 44, at
        assert at["y"] >= 0 and at["y"] + at["height"] <= height + 0.5, (at, height)
        hit = one.evaluate("""(one) => {
          const { left, top, width, height } = one.getBoundingClientRect();
          return one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
        }""")
        assert hit, "something stands over it"
    left, right = box(send), box(stop)
    assert right["x"] - (left["x"] + left["width"]) >= 8
    assert float(field.evaluate("field => parseFloat(getComputedStyle(field).fontSize)")) >= 16


def full_dock() -> World:
    """A running session with messages that wait, and a stop whose receipt is shown."""
    world = World.create("ana")
    world.start("first")
    world.stop()
    world.end()
    world.start("next")
    for number in range(4):
        world.submit(f"then number {number}, and after that everything else that was left over")
    world.steer("mind the tests")
    return world


@pytest.mark.scenario("D38")
@pytest.mark.parametrize("kind", ["covers", "shrinks"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_input_send_and_stop_stand_above_the_keyboard(screens: Open, size: tuple[int, int], kind: str) -> None:
    opened, world = screens(), full_dock()
    width, height = size
    viewport: Any = {"width": width, "height": height}
    context = opened.context("ana", "phone", viewport=viewport)
    if kind == "covers":
        context.add_init_script(f"({COVERING})()")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    field = page.locator("#say textarea")
    field.tap()
    seen = height * (1 - KEYBOARD)
    if kind == "shrinks":
        page.set_viewport_size({"width": width, "height": round(seen)})
    expect(field).to_be_focused()
    wait_until(lambda: box(page.locator("#app"))["height"] <= seen + 1, "room for the keyboard")
    above_the_keyboard(page, seen)
    field.fill("a long message\n" * 30)
    above_the_keyboard(page, seen)
    fits(page, width)
    assert page.evaluate("visualViewport.scale") == 1
    page.locator("#stop .halt:not(.more)").tap()
    wait_until(lambda: len(world.events("InterruptRequested")) == 2, "the stop")


@pytest.mark.scenario("D39")
@pytest.mark.parametrize("state", ["waiting_for_a_worker", *RUNNING, "stopping"])
def test_stop_is_there_and_works_in_every_state_that_is_not_idle(screens: Open, state: str) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world, "phone")
    expect(page.locator("#state")).to_have_text("Nothing running")
    STATES[state](world)
    expect(page.locator("#state")).not_to_have_text("Nothing running")
    stop = page.locator("#stop .halt:not(.more)")
    expect(stop).to_be_in_viewport(ratio=1)
    expect(stop).to_be_enabled()
    before = len(world.events("InterruptRequested"))
    stop.tap()
    if state == "stopping":
        expect(page.locator("#stop-says")).to_contain_text("Already stopping")
        assert len(world.events("InterruptRequested")) == before
        return
    wait_until(lambda: len(world.events("InterruptRequested")) == before + 1, "the stop")
    if state == "asking":
        world.end()
        [closed] = world.events("GateClosed")
        assert closed.data["reason"] == "stop"
        expect(page.locator(".ask")).to_have_count(0)
        expect(page.locator(".tool")).to_contain_text("Not asked any more: stopped")


@pytest.mark.scenario("D37")
def test_a_socket_that_died_while_nobody_looked_is_replaced_at_once(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    page = opened.context("ana", "phone").new_page()
    dead: list[WebSocketRoute] = []
    sockets: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda text: None if socket in dead else socket.send(text))

    page.route_web_socket("**/ws/sessions/**", route)
    page.goto(f"/s/{world.session}")
    live(page)
    dead.append(sockets[0])  # for less than any silence that would be noticed
    world.answer("the end")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#state")).to_have_text("Nothing running")
    expect(page.locator(".step .prose")).to_have_text("the end")
    assert len(sockets) == 2


@pytest.mark.scenario("D37")
def test_a_socket_that_lives_is_kept_when_somebody_looks_again(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.context("ana", "phone").new_page()
    sent: list[str] = []
    sockets: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            sent.append(str(text))
            socket.send(text)

        server.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", route)
    page.goto(f"/s/{world.session}")
    live(page)
    page.clock.install()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    wait_until(lambda: page.evaluate("1") and any(re.search('"t":"beat"', text) for text in sent), "the beat")
    page.clock.run_for(3_000)
    live(page)
    assert len(sockets) == 1
