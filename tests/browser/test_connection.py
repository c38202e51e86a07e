"""What a page shows while its connection comes and goes: every event once, nothing lost, old news shown as old."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.models import Person
from sessions_app.people.signin import make_link
from tests.browser.screens import Screens, Stream, live, observe, texts
from tests.doors.callers import token_of
from tests.support.sockets import never_reads, was_cut
from tests.support.waiting import wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
SOCKETS = "**/ws/sessions/**"


def send(page: Page, text: str, key: str = "Enter") -> None:
    page.locator("#say textarea").fill(text)
    page.keyboard.press(key)


@pytest.mark.rule("L1")
@pytest.mark.scenario("D16")
def test_each_resume_asks_for_what_comes_after_the_last_event_shown(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    context = opened.context("ana")
    page = context.new_page()
    asked: list[int] = []
    received: list[list[int]] = []

    def note(socket: WebSocketRoute) -> None:
        asked.append(int(re.findall(r"after=(\d+)", socket.url)[0]))
        seqs: list[int] = []
        received.append(seqs)
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if socket in cut:  # the server has not noticed yet, and the page hears nothing of it
                return
            frame = json.loads(text)
            if frame["t"] == "event":
                seqs.append(frame["seq"])
            socket.send(text)

        server.on_message(pass_on)
        sockets.append(socket)

    sockets: list[WebSocketRoute] = []
    cut: list[WebSocketRoute] = []
    page.route_web_socket(SOCKETS, note)
    page.goto(f"/s/{world.session}")
    live(page)
    for round_ in range(3):
        for number in range(10):
            world.plan(f"c{round_}-{number}")
            world.start_tool(f"c{round_}-{number}")
            world.settle(f"c{round_}-{number}")
            world.begin()
        head = world.events()[-1].seq
        expect(page.locator(".tool")).to_have_count(10 * (round_ + 1))
        cut.append(sockets[-1])
        sockets[-1].close(code=1011)
        world.submit(f"while away {round_}")
        expect(page.locator("#waiting .chip")).to_have_count(round_ + 1)
        assert asked[-1] == head
        assert received[-1][0] == head + 1
        assert len(received[-1]) < 50
    every = [seq for seqs in received for seq in seqs]
    assert every == list(range(asked[0] + 1, world.events()[-1].seq + 1))


@pytest.mark.rule("A4")
@pytest.mark.scenario("D17")
def test_an_input_whose_acknowledgement_is_lost_is_sent_again_and_stands_once(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    context = opened.context("ana")
    page, other = context.new_page(), opened.session("ana", world)
    lost: list[str] = []

    def swallow_first_ack(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            frame = json.loads(text)
            if not lost and (frame["t"] == "ack" or frame.get("type") == "InputQueued"):
                lost.append(frame["t"])
                socket.close(code=1011)
            else:
                socket.send(text)

        server.on_message(pass_on)

    page.route_web_socket(SOCKETS, swallow_first_ack)
    page.goto(f"/s/{world.session}")
    live(page)
    send(page, "only once, please")
    for one in (page, other):
        expect(one.locator("#waiting .chip")).to_contain_text(["only once, please"])
    expect(page.locator("#say textarea")).to_have_value("")
    assert lost
    assert len(world.events("InputQueued")) == 1
    assert world.claim()
    for one in (page, other):
        expect(one.locator(".said")).to_have_count(1)
        expect(one.locator("#waiting .chip")).to_have_count(0)


def test_a_draft_survives_a_reload_and_leaves_only_once_received(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    context = opened.context("ana")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    page.locator("#say textarea").fill("half a thought")
    page.reload()
    live(page)
    expect(page.locator("#say textarea")).to_have_value("half a thought")
    context.set_offline(True)
    expect(page.locator("#connection")).to_have_text("Offline")
    page.locator("#say textarea").press("Enter")
    expect(page.locator("#says")).to_contain_text("Not received yet")
    expect(page.locator("#say textarea")).to_have_value("half a thought")
    assert not world.events("InputQueued")
    context.set_offline(False)
    wait_until(lambda: world.events("InputQueued"), "the message")
    expect(page.locator("#say textarea")).to_have_value("")


@pytest.mark.parametrize("given_up", [False, True])
def test_a_press_that_cannot_be_sent_yet_says_so_and_can_be_given_up(screens: Open, given_up: bool) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    world.submit("and then this")
    world.stop(queue="hold")
    world.end()
    context = opened.context("ana", "phone")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    context.set_offline(True)
    expect(page.locator("#connection")).to_have_text("Offline")
    page.locator("#waiting").get_by_role("button", name=re.compile("^Send next")).click()
    expect(page.locator("#trouble")).to_contain_text("Not received yet. It is sent again as soon as the connection is")
    if given_up:
        page.get_by_role("button", name="Give it up").click()
        expect(page.locator("#trouble")).to_be_empty()
    context.set_offline(False)
    live(page)
    if given_up:
        world.submit("a later one")
        expect(page.locator("#waiting .chip")).to_have_count(2)
        assert not world.events("InputReleased")
    else:
        wait_until(lambda: world.events("InputReleased"), "the press")
        expect(page.locator("#trouble")).to_be_empty()


@pytest.mark.parametrize("received", [False, True])
def test_what_was_on_its_way_when_its_page_was_left_is_not_lost_and_not_sent_twice(
    screens: Open, received: bool
) -> None:
    opened, world = screens(), World.create("ana")
    context = opened.context("ana")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    page.locator("#say textarea").fill("only once, please")
    context.set_offline(True)
    expect(page.locator("#connection")).to_have_text("Offline")
    page.locator("#say textarea").press("Enter")
    expect(page.locator("#says")).to_contain_text("Not received yet")
    id = page.evaluate("() => JSON.parse(Object.values(localStorage).find((one) => one.includes('only once'))).id")
    page.goto("about:blank")
    context.set_offline(False)
    if received:
        control.submit(world.owner, world.session, id, text="only once, please")
    page.goto(f"/s/{world.session}")
    live(page)
    if not received:
        expect(page.locator("#say textarea")).to_have_value("only once, please")
        expect(page.locator("#says")).to_contain_text("Send it again: it is never taken twice.")
        page.locator("#say textarea").press("Enter")
    expect(page.locator("#say textarea")).to_have_value("")
    expect(page.locator("#waiting .chip")).to_have_count(1)
    assert [event.cause for event in world.events("InputQueued")] == [id]


def test_whoever_signs_in_on_the_same_browser_finds_no_words_of_somebody_else(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    context = opened.context("ana")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    page.locator("#say textarea").fill("ana's own thought")
    page.goto("about:blank")
    for name, words in (("ben", ""), ("ana", "ana's own thought")):
        page.goto(f"{opened.stack.url}{make_link(Person.objects.get(username=name))}")
        page.goto(f"/s/{world.session}")
        live(page)
        expect(page.locator("#say textarea")).to_have_value(words)


def test_what_one_page_sends_leaves_another_pages_draft(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    context = opened.context("ana")
    one, two = (opened.look(context, f"/s/{world.session}") for _ in range(2))
    for page, words in ((one, "the first page's"), (two, "the second page's")):
        live(page)
        page.locator("#say textarea").fill(words)
    one.locator("#say textarea").press("Enter")
    expect(one.locator("#say textarea")).to_have_value("")
    two.reload()
    live(two)
    expect(two.locator("#say textarea")).to_have_value("the second page's")
    two.locator("#say textarea").press("Enter")
    expect(two.locator("#say textarea")).to_have_value("")
    for page in (one, two):
        page.reload()
        live(page)
        expect(page.locator("#say textarea")).to_have_value("")
    assert len(world.events("InputQueued")) == 2


@pytest.mark.rule("D9")
@pytest.mark.scenario("D15")
def test_a_steer_is_received_first_and_delivered_later_on_every_screen(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    world.start()
    page, kim = opened.session("ana", world), opened.session("kim", world)
    send(page, "mind the tests")
    expect(page.locator("#say textarea")).to_have_value("")
    for one in (page, kim):
        expect(one.locator("#waiting .chip")).to_contain_text(["at next step"])
        expect(one.locator(".said.steer")).to_have_count(0)
    world.answer("all done")  # yields to the steer
    for one in (page, kim):
        expect(one.locator(".step .cut")).to_have_text("all done")
        expect(one.locator(".step")).to_contain_text([re.compile("Replaced by ana.s message")])
        expect(one.locator(".said.steer")).to_contain_text("mind the tests")
        expect(one.locator("#waiting .chip")).to_have_count(0)
    world.begin()
    world.answer("now really")
    send(page, "too late")  # the page may or may not know yet that the turn is over: nothing is lost
    for one in (page, kim):
        expect(one.locator("#waiting .chip")).to_contain_text(["too late"])


def test_a_refused_text_stays_in_the_box_with_the_reason(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    page = opened.session("ana", world)
    text = "ä" * 4097
    send(page, text)
    expect(page.locator("#says")).to_contain_text("8,194 bytes")
    expect(page.locator("#says")).to_contain_text("8,192 bytes")
    expect(page.locator("#say textarea")).to_have_value(text)
    for number in range(16):
        world.steer(f"steer {number}")
    expect(page.locator("#waiting .chip")).to_have_count(16)
    send(page, "the seventeenth")
    expect(page.locator("#says")).to_contain_text("16 steers wait already.")
    expect(page.locator("#say textarea")).to_have_value("the seventeenth")
    assert len(world.events("SteerQueued")) == 16


@pytest.mark.rule("L2")
@pytest.mark.scenario("D19")
def test_leaving_and_coming_back_in_mid_stream_shows_everything_so_far_and_goes_on(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    said = Stream(world)
    context = opened.context("ana")
    first = opened.look(context, f"/s/{world.session}")
    live(first)
    for number in range(20):
        said.say(f"word{number} ")
    expect(first.locator(".step .prose")).to_have_text(said.text.strip())
    first.goto("/")
    for number in range(20, 40):
        said.say(f"word{number} ")
    first.goto(f"/s/{world.session}")
    second = opened.look(context, f"/s/{world.session}")
    for page in (first, second):
        live(page)
        expect(page.locator(".step .prose")).to_have_text(said.text.strip())
        expect(page.locator("#state")).to_have_attribute("data-is", "running")
        expect(page.locator("#stop .halts")).to_have_attribute("data-is", "running")
    said.say("🚀 and the end")
    for page in (first, second):
        expect(page.locator(".step .prose")).to_have_text(said.text)
    world.answer(said.text)
    for page in (first, second):
        expect(page.locator(".turn")).to_have_attribute("data-is", "done")
        assert texts(page, ".step .prose") == [said.text]


@pytest.mark.scenario("D03")
def test_losing_the_connection_never_reads_as_stopped(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    observe(world, "kim")
    context = opened.context("ana")
    page = opened.look(context, f"/s/{world.session}")
    live(page)
    watcher = opened.session("kim", world)
    for each in (page, watcher):
        each.evaluate("""() => {
          window.seen = new Set();
          const state = document.getElementById("state");
          const note = () => window.seen.add(state.dataset.is + (state.hasAttribute("data-stale") ? " stale" : ""));
          new MutationObserver(note).observe(state, { attributes: true });
          note();
        }""")
    for number in range(10):
        context.set_offline(True)
        expect(page.locator("#connection")).to_have_text("Offline")
        world.plan(f"c{number}")
        world.start_tool(f"c{number}")
        world.settle(f"c{number}")
        world.begin()
        context.set_offline(False)
        live(page)
        for each in (page, watcher):
            expect(each.locator(".tool")).to_have_count(number + 1)
        assert page.locator("#state").get_attribute("data-is") == watcher.locator("#state").get_attribute("data-is")
    assert set(page.evaluate("[...window.seen]")) <= {"running", "running stale"}
    assert watcher.evaluate("[...window.seen]") == ["running"]


CLOCK = """(skew) => {
  const RealDate = Date;
  const now = () => RealDate.now() + skew;
  window.Date = class extends RealDate {
    constructor(...given) { if (given.length) super(...given); else super(now()); }
    static now() { return now(); }
  };
}"""


@pytest.mark.scenario("D36")
def test_a_wrong_clock_neither_reorders_nor_shows_negative_times(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("first")
    world.plan("c1")
    world.start_tool("c1")
    pages = []
    for skew_h in (5, -0.17):
        context = opened.context("ana")
        context.add_init_script(f"({CLOCK})({skew_h * 3_600_000})")
        pages.append(opened.look(context, f"/s/{world.session}"))
        live(pages[-1])
    ahead, behind = pages
    for page in pages:
        expect(page.locator("#state")).to_have_text(re.compile(r"^Running a command, \d+ s$"))
        expect(page.locator(".tool .push").first).to_have_text(re.compile(r"^\d+ s$"))
    ahead.locator("#stop .halt:not(.more)").click()
    expect(behind.locator("#state")).to_have_text(re.compile(r"^Stopping, asked by ana [\d.]+ m?s ago$"))
    world.end(acknowledged_ms=5)
    for page in pages:
        expect(page.locator(".receipt[data-over]")).to_have_count(1)
        assert not re.search(r"-\d|\d h\b", page.locator(".receipt").text_content() or "")
    send(behind, "second")
    wait_until(lambda: len(world.events("InputQueued")) == 2, "the second message")
    assert world.claim()
    shown = [texts(page, ".said .prose") for page in pages]
    for page in pages:
        expect(page.locator(".said .prose")).to_have_text(["first", "second"])
    times = [texts(page, ".turn > header time") for page in pages]
    assert times[0] == times[1], (times, shown)


@pytest.mark.scenario("D37")
def test_a_page_that_slept_shows_old_news_as_old_until_it_knows_better(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    context = opened.context("ana", "phone")
    page = context.new_page()
    page.clock.install()
    sockets: list[Any] = []

    def freeze_first(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server = socket.connect_to_server()
        number = len(sockets)
        server.on_message(lambda text: None if number in frozen else socket.send(text))
        if number > 1 and hold:
            waiting_to_answer.append(server)

    frozen: set[int] = set()
    hold: list[bool] = []
    waiting_to_answer: list[Any] = []
    page.route_web_socket(SOCKETS, freeze_first)
    page.goto(f"/s/{world.session}")
    live(page)
    expect(page.locator("#state")).to_have_attribute("data-is", "running")
    frozen.add(1)  # open to the script, dead to the world
    world.answer("the end")
    frozen.add(2)  # the first fresh answer takes its time
    page.clock.fast_forward("02:00")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#connection")).to_have_text("Updating")
    expect(page.locator("#state")).to_have_text(re.compile(r"^At \d\d:\d\d:\d\d: \w"))
    assert len(sockets) == 2
    frozen.discard(2)
    sockets[1].close(code=1011)
    page.clock.run_for(6_000)
    live(page)
    expect(page.locator("#state")).to_have_text("Nothing running")
    expect(page.locator(".step .prose")).to_have_text("the end")


@pytest.mark.scenario("D30")
def test_live_markup_stays_text_on_every_screen(screens: Open) -> None:
    hostile = '<details open ontoggle="window.__x=1">x</details></p></script><img src=x onerror="window.__x=1">'
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    world.start(hostile)
    page, kim = opened.session("ana", world), opened.session("kim", world)
    said = Stream(world)
    for start in range(0, len(hostile), 25):
        said.say(hostile[start : start + 25])
    world.steer(hostile, urgent=True)
    for one in (page, kim):
        expect(one.locator(".step .prose")).to_have_text(hostile)
        expect(one.locator("#waiting .chip .what")).to_have_text([hostile])
    world.answer(hostile)
    world.begin()
    control.change_session(world.owner, world.session, new_id(), title=hostile)
    world.plan("c1", text=hostile)
    world.start_tool("c1")
    output = Stream(world, "tool", "c1")
    output.say(hostile)
    world.settle("c1", output=hostile)
    world.stop(person("ana"), reason=hostile)
    world.end()
    for one in (page, kim):
        expect(one.locator(".rule.stopped")).to_contain_text(hostile)
        expect(one.locator(".tool pre")).to_contain_text(hostile)
        expect(one.locator("#title")).to_have_text(hostile)
        assert one.locator("#timeline img, #timeline details[ontoggle]").count() == 0
        one.reload()
        live(one)
        assert one.evaluate("window.__x") is None


@pytest.mark.scenario("D37")
def test_every_clock_stands_still_while_nobody_knows_and_goes_on_with_the_connection(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    world.plan("c1")
    world.start_tool("c1")
    page = opened.context("ana").new_page()
    page.clock.install()
    away: list[bool] = []
    sockets: list[WebSocketRoute] = []

    def route(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        if not away:
            server = socket.connect_to_server()
            server.on_message(lambda text: None if away else socket.send(text))

    page.route_web_socket(SOCKETS, route)
    page.goto(f"/s/{world.session}")
    live(page)
    clocks = [page.locator(one) for one in (".tool header .push", ".turn > header span", "#say .hint", "#state")]
    for clock in clocks:
        expect(clock).to_have_text(re.compile(r"\d s"))
    away.append(True)
    sockets[0].close(code=1011)
    page.clock.run_for(3_000)
    expect(page.locator("#state")).to_have_text(re.compile(r"^At \d\d:\d\d:\d\d: running a command, "))
    stood = [clock.text_content() for clock in clocks]
    page.clock.run_for(90_000)
    assert [clock.text_content() for clock in clocks] == stood
    away.clear()
    sockets[-1].close(code=1011)
    page.clock.run_for(15_000)
    live(page)
    page.clock.run_for(1_000)
    for clock, before in zip(clocks, stood, strict=True):
        expect(clock).not_to_have_text(before or "")


@pytest.mark.rule("L3")
@pytest.mark.scenario("D21")
def test_a_client_that_never_reads_costs_a_page_nothing_and_is_seen_to_go(own_screens: Open) -> None:
    opened, world = own_screens(), World.create("ana")
    page = opened.session("ana", world)
    observe(world, "ben")
    world.start("count")
    waiting = world.submit("begin")
    people = page.locator("#watching")
    with never_reads(opened.stack.url, f"/ws/sessions/{world.session}/", token_of("ben")) as raw:
        expect(people).to_have_attribute("aria-label", re.compile("^Watching: ana, ben"))
        for number in range(900):
            control.edit_input(world.owner, world.session, new_id(), waiting, text=f"{number} {'x' * 16_000}")
        expect(page.locator("#waiting")).to_contain_text("899 xxx")
        world.answer("Counted.")
        expect(page.locator(".prose", has_text="Counted.")).to_be_visible()
        wait_until(lambda: was_cut(raw), "the end of the client that never reads")
        expect(people).to_have_attribute("aria-label", "Watching: ana")
    expect(page.locator("#connection")).to_have_attribute("data-is", "live")
