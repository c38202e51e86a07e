"""Stop on three screens: one receipt, never before its time; pressed often, offline, late, and without scripts."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect

from sessions_app.log import db
from tests.browser.screens import Screens, Stream, kept_seqs, live, observe
from tests.browser.test_background_list import serving
from tests.support.waiting import stays_true, wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]


def running_call() -> World:
    """A session in which a command runs and two messages wait."""
    world = World.create("ana")
    world.start("run it")
    world.plan("c1", text="I run it.")
    world.start_tool("c1")
    world.submit("then the changelog")
    return world


def message_box(page: Page) -> Locator:
    return page.locator("#say textarea")


def stop_button(page: Page) -> None:
    page.locator("#stop .halt:not(.more)").click()


@pytest.mark.rule("E3", "E8")
def test_a_stop_from_the_phone_is_one_receipt_on_three_screens(screens: Open) -> None:
    opened, world = screens(), running_call()
    observe(world, "kim")
    desk, phone = opened.session("ana", world), opened.session("ana", world, "phone")
    kim = opened.session("kim", world)
    for page in (desk, phone, kim):
        expect(page.locator("#state")).to_have_attribute("data-is", "running")
    assert kim.locator("#stop, #say").count() == 0

    stop_button(phone)
    for page in (desk, phone, kim):
        expect(page.locator("#state")).to_contain_text("Stopping, asked by ana")
        expect(page.locator(".receipt li[data-done]")).to_have_count(1)
        assert page.locator(".rule.stopped, .receipt[data-over]").count() == 0, "it never says stopped before it is"
        expect(page.locator(".tool .push").first).to_have_text("ending")

    world.end(acknowledged_ms=6)
    (terminal,) = world.events("TurnInterrupted")
    for page in (desk, phone, kim):
        expect(page.locator(".receipt[data-over]")).to_contain_text("6 ms")
        expect(page.locator(".rule.stopped")).to_contain_text("Stopped by ana from a phone")
        expect(page.locator("#state")).to_contain_text("Nothing running, 1 message paused")
        assert kept_seqs(page) == [terminal.seq, terminal.seq]
    expect(desk.locator(".receipt")).to_contain_text("1 message stays paused")
    assert "Chrome" in (desk.locator(".rule.stopped").text_content() or "")
    assert "Chrome" not in (kim.locator(".rule.stopped").text_content() or ""), (
        "observers are not told the device's name"
    )

    phone.locator(".receipt").get_by_role("button", name="Everything ended").click()  # one line until it is unfolded
    phone.locator(".reasons").get_by_text("wrong direction").click()
    for page in (desk, phone, kim):
        expect(page.locator(".rule.stopped")).to_contain_text("wrong direction")
    table = opened.open("ana", "/interruptions")
    expect(table.locator("tbody tr")).to_contain_text(["from a phone"])
    expect(table.locator("tbody tr")).to_contain_text(["wrong direction"])


def test_what_a_stop_paused_is_sent_next_or_given_back(screens: Open) -> None:
    opened, world = screens(), running_call()
    world.submit("and a summary")
    page = opened.session("ana", world)
    stop_button(page)
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    world.end()
    expect(page.locator("#waiting .chip[data-held]")).to_have_count(2)
    page.locator(".receipt").get_by_role("button", name="Send next").click()
    expect(page.locator("#waiting .chip[data-held]")).to_have_count(1)
    expect(page.locator("#state")).to_contain_text("Waiting for a worker")
    page.locator("#waiting .chip[data-held]").get_by_role("button", name=re.compile("More about")).click()
    page.get_by_role("button", name="Give back to its author").click()
    expect(page.locator("textarea[aria-label=Message]")).to_have_value("and a summary")
    expect(page.locator("#waiting .chip[data-held]")).to_have_count(0)


@pytest.mark.rule("E12")
def test_stop_and_send_runs_what_is_in_the_box_first(screens: Open) -> None:
    opened, world = screens(), running_call()
    page = opened.session("ana", world)
    message_box(page).fill("do this instead")
    page.locator(".halt.more").click()
    page.locator(".stop-menu .reasons").get_by_text("stuck or too slow").click()
    page.get_by_role("button", name="Stop and send what is in the box").click()
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    expect(message_box(page)).to_have_value("")
    world.end()
    assert world.events("TurnInterrupted")[0].data["reason"] == "stuck or too slow"
    assert world.claim()
    expect(page.locator(".turn").last).to_contain_text("do this instead")
    expect(page.locator("#waiting .chip[data-held]")).to_have_count(1)


@pytest.mark.rule("E12")
def test_what_goes_with_a_stop_cannot_be_sent_again_while_it_is_on_its_way(screens: Open) -> None:
    opened, world = screens(), running_call()
    page = opened.open("ana", "/")
    held: list[tuple[WebSocketRoute, str | bytes]] = []
    holds: list[bool] = []

    def hold(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            held.append((socket, message)) if holds else socket.send(message)

        server.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", hold)
    page.route("**/interrupt", lambda route: None)
    page.goto(f"/s/{world.session}")
    live(page)
    message_box(page).fill("do this instead")
    page.locator(".halt.more").click()
    holds.append(True)
    page.get_by_role("button", name="Stop and send what is in the box").click()
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    message_box(page).press("Enter")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    wait_until(lambda: any('"ack"' in str(message) for _, message in held), "the answer")
    holds.clear()
    for socket, message in held:
        socket.send(message)
    expect(message_box(page)).to_have_value("")
    said = [each.data["text"] for each in world.events("InputQueued", "SteerQueued")]
    assert said.count("do this instead") == 1


@pytest.mark.scenario("D13")
def test_hammering_the_button_is_one_stop_and_everybody_sees_it_at_once(screens: Open) -> None:
    opened, world = screens(), running_call()
    one, two = opened.session("ana", world), opened.session("ana", world, "phone")
    for _ in range(3):
        stop_button(one)
    expect(two.locator("#state")).to_contain_text("Stopping, asked by ana")
    stop_button(two)
    expect(two.locator("#stop-says")).to_contain_text("Already stopping, asked by ana")
    for _ in range(3):
        stop_button(one)
    expect(one.locator("#stop-says")).to_contain_text("Already stopping")
    world.end()
    stop_button(one)  # meant for what has just ended, not for what starts now
    assert len(world.events("InterruptRequested")) == 1
    assert len(world.events("TurnInterrupted")) == 1
    assert one.locator("[role=alert]").count() == 0


@pytest.mark.rule("E12", "E13")
@pytest.mark.parametrize("lost", [False, True])
def test_a_stop_whose_event_comes_before_its_receipt_says_what_the_receipt_says(screens: Open, lost: bool) -> None:
    """`lost`: the connection goes between the two; that it was carried out is known, so it is not called NOT sent."""
    opened, world = screens(), World.create("ana")
    serving(world)
    page = opened.open("ana", "/")
    seen: list[str] = []
    early: list[str | bytes] = []

    def event_first(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            frame = json.loads(text)
            if frame["t"] == "ack" and not seen:
                early.append(text)
                return
            if frame["t"] == "ack" and lost:
                return
            socket.send(text)
            if frame.get("type") != "KillRequested" or seen:
                return
            seen.append(frame["cause"])
            if lost:
                socket.close(code=1011)
            for ack in [] if lost else early:
                socket.send(ack)

        server.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", event_first)
    page.route("**/interrupt", lambda route: None)
    page.goto(f"/s/{world.session}")
    live(page)
    stop_button(page)
    expect(page.locator("#background small")).to_have_text("being ended by ana")
    live(page)
    expect(page.locator(".halt small").first).to_have_text("1 process")
    words = "No agent was running. 1 process is being ended in the background."
    expect(page.locator("#stop-says")).to_have_text("" if lost else words)


@pytest.mark.scenario("D01")
def test_a_stop_that_was_not_accepted_says_so_and_stays_usable_after_a_reload(screens: Open) -> None:
    opened, world = screens(), running_call()
    context = opened.context("ana")
    context.route("**/interrupt", lambda route: route.fulfill(status=502, body="bad gateway"))
    page = context.new_page()

    def deaf(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(lambda text: None if '"interrupt"' in str(text) else server.send(text))

    page.route_web_socket("**/ws/sessions/**", deaf)
    page.goto(f"/s/{world.session}")
    live(page)
    page.reload()
    live(page)
    expect(page.locator("#stop .halts")).to_have_attribute("data-is", "running")
    stop_button(page)
    expect(page.locator("#stop-says")).to_contain_text("Not stopped.")
    assert not world.events("InterruptRequested")
    context.unroute("**/interrupt")
    page.get_by_role("button", name="Try again").click()
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    world.end()
    expect(page.locator(".receipt[data-over]")).to_be_visible()
    expect(page.locator("#stop-says .warn")).to_have_count(0)
    assert len(world.events("TurnInterrupted")) == 1


def test_a_stop_pressed_offline_is_not_sent_and_never_leaves_later(screens: Open) -> None:
    opened, world = screens(), running_call()
    context = opened.context("ana", "phone")
    context.clock.install()
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    context.set_offline(True)
    expect(page.locator("#connection")).to_have_text("Offline")
    stop_button(page)
    expect(page.locator("#stop-says")).to_contain_text("NOT sent")
    page.clock.fast_forward(60_000)  # a minute by everything the page can tell time from
    expect(page.locator("#connection")).to_have_text("Offline")
    context.set_offline(False)
    live(page)
    stays_true(lambda: not world.events("InterruptRequested"), "nothing being stopped", 2)
    expect(page.locator("#stop-says")).to_contain_text("NOT sent")
    expect(page.locator("#state")).to_have_attribute("data-is", "running")
    page.get_by_role("button", name="Try again").click()
    wait_until(lambda: world.events("InterruptRequested"), "the mark")


@pytest.mark.parametrize("forward_h", [0, 1], ids=["clock-right", "clock-put-forward"])
def test_a_stop_that_a_dead_network_delivers_later_stops_nothing(screens: Open, forward_h: int) -> None:
    opened, world = screens(), running_call()
    context = opened.context("ana", "phone")
    context.clock.install()
    held: list[Callable[[], None]] = []
    context.route("**/interrupt", lambda route: None)  # it never leaves: the browser gives it up
    page = context.new_page()

    def hold(socket: WebSocketRoute) -> None:
        """A network that takes a frame, says nothing, and delivers it in the end, whatever the page did meanwhile."""
        server = socket.connect_to_server()
        socket.on_message(lambda text: held.append(lambda: server.send(text)) if _stops(text) else server.send(text))
        socket.on_close(lambda code, reason: None)

    page.route_web_socket("**/ws/sessions/**", hold)
    page.goto(f"/s/{world.session}")
    live(page)
    page.clock.set_system_time(datetime.now(UTC) + timedelta(hours=forward_h))
    stop_button(page)
    expect(page.locator("#stop-says")).to_contain_text("NOT sent")
    (deliver,) = held
    deliver()
    wait_until(lambda: page.evaluate("1") and _refusals(world) == ["too_late"], "the refusal of what came too late")
    assert not world.events("InterruptRequested")


def _stops(text: str | bytes) -> bool:
    return '"interrupt"' in str(text)


def _refusals(world: World) -> list[str]:
    with db.cursor("read") as cur:
        rows = cur.execute("SELECT outcome FROM audit WHERE session = %s ORDER BY id", (world.session,)).fetchall()
    return [str(row[0]) for row in rows]


# What stands still while a device sleeps: the page's clock is behind by as much until the server tells it the time.
STANDS = """() => {
  const real = performance.now.bind(performance);
  window.stood = 0;
  performance.now = () => real() - window.stood;
}"""


@pytest.mark.parametrize("wrong", ["put-back", "put-forward", "slept"])
def test_a_device_with_a_wrong_idea_of_the_time_still_stops_at_once(screens: Open, wrong: str) -> None:
    opened, world = screens(), running_call()
    context = opened.context("ana", "phone")
    context.clock.install()
    context.add_init_script(f"({STANDS})()")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    hours = {"put-back": -3, "put-forward": 3, "slept": 0}[wrong]
    page.clock.set_system_time(datetime.now(UTC) + timedelta(hours=hours))
    if wrong == "slept":
        page.evaluate("window.stood = 3 * 3_600_000")
    stop_button(page)
    wait_until(lambda: page.evaluate("1") and world.events("InterruptRequested"), "the mark")
    world.end()
    expect(page.locator(".receipt[data-over]")).to_be_visible()
    expect(page.locator("#stop-says .warn")).to_have_count(0)


def test_a_second_try_is_not_refused_by_the_late_answer_to_the_first(screens: Open) -> None:
    opened, world = screens(), running_call()
    context = opened.context("ana", "phone")
    late = {"code": "too_late", "detail": "This stop came too late."}
    rest: list[str] = []

    def by_rest(route: Route) -> None:
        rest.append(route.request.headers["idempotency-key"])
        if len(rest) == 1:
            body = json.dumps({**late, "now_ms": round(datetime.now(UTC).timestamp() * 1000)})
            route.fulfill(status=409, content_type="application/problem+json", body=body)

    context.route("**/interrupt", by_rest)
    page = context.new_page()
    frames: list[Any] = []

    def by_socket(socket: WebSocketRoute) -> None:
        """The first stop hangs until the second comes; then it is answered, and the second goes on."""
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if not _stops(text):
                server.send(text)
                return
            frames.append(json.loads(text))
            if len(frames) == 2:
                socket.send(json.dumps({"t": "error", "id": frames[0]["id"], **late, "data": {}}))
                server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", by_socket)
    page.goto(f"/s/{world.session}")
    live(page)
    stop_button(page)
    wait_until(lambda: page.evaluate("1") and world.events("InterruptRequested"), "the mark")
    expect(page.locator("#state")).to_contain_text("Stopping, asked by ana")
    expect(page.locator("#stop .halts small")).to_have_text("by ana")
    expect(page.locator("#stop-says .warn")).to_have_count(0)
    first, second = (frame["id"] for frame in frames)
    assert first != second
    assert rest[0] == first


def test_a_stop_with_scripts_blocked_works_and_shows_its_receipt(screens: Open) -> None:
    opened, world = screens(), running_call()
    page = opened.open("ana", f"/s/{world.session}", "phone", java_script_enabled=False)
    expect(page.locator(".turn")).to_contain_text("I run it.")
    stop_button(page)
    expect(page.locator(".receipt")).to_contain_text("ana, from a phone")
    assert [event.data["queue"] for event in world.events("InterruptRequested")] == ["hold"]
    wait_until(lambda: world.events("TurnInterrupted"), "the fence, as nobody plays the worker")
    page.reload()
    expect(page.locator(".receipt li[data-done]")).to_have_count(3)
    expect(page.locator(".rule.stopped")).to_contain_text("cut off")


@pytest.mark.rule("C3")
@pytest.mark.scenario("D20")
def test_what_was_shown_before_the_stop_stays_marked_as_cut_off(screens: Open) -> None:
    opened = screens()
    world = World.create("ana")
    world.start("q" * 3000)
    said = Stream(world)
    page = opened.session("ana", world)
    for _ in range(15):
        said.say("a" * 99 + " ")
    expect(page.locator(".step .prose")).to_have_text(said.text.strip())
    stop_button(page)
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    world.end(cut_off={"text": said.text})
    observe(world, "kim")
    late = opened.session("kim", world)
    page.reload()
    for one in (page, late):
        expect(one.locator(".step .prose.cut")).to_have_text(said.text.strip())
        expect(one.locator(".said")).to_contain_text("q" * 3000)
        expect(one.locator(".rule.stopped")).to_contain_text("1,500 characters")


def test_two_escapes_stop_and_one_does_not(screens: Open) -> None:
    opened, world = screens(), running_call()
    page = opened.session("ana", world)
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("Escape")
    stays_true(lambda: not world.events("InterruptRequested"), "nothing being stopped", 0.8)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    wait_until(lambda: world.events("InterruptRequested"), "the mark")


@pytest.mark.rule("E1")
def test_a_press_that_is_held_opens_the_choices_and_stops_nothing_and_a_short_one_stops(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    page = opened.session("ana", world)
    expect(page.locator("#state")).to_contain_text("Thinking")
    page.locator("#stop .halt:not(.more)").hover()
    page.mouse.down()
    page.evaluate("new Promise((done) => setTimeout(done, 700))")
    page.mouse.up()
    expect(page.locator(".stop-menu")).to_be_visible()
    assert not world.events("InterruptRequested")
    page.keyboard.press("Escape")
    expect(page.locator(".stop-menu")).to_have_count(0)
    page.locator("#stop .halt:not(.more)").click()
    expect(page.locator("#state")).to_contain_text("Stopping")
    assert len(world.events("InterruptRequested")) == 1
