"""The main job with everything real: two devices and an observer, a worker, a strict model server, real processes."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app.log import read
from tests.browser.screens import Screens, kept_seqs, live
from tests.support.model_server import ModelServer, call, say, stall
from tests.support.running import ENDLESS, Running
from tests.support.waiting import stays_true, wait_until

pytestmark = pytest.mark.usefixtures("database", "redis_url")


def receipt(page: Page) -> None:
    expect(page.locator(".receipt[data-over]")).to_be_visible()


@pytest.mark.rule("E6", "E7", "E8", "E10", "C4")
@pytest.mark.scenario("D05", "D07")
def test_the_stop_from_a_phone_ends_the_command_and_its_escaped_child_on_all_three_screens(
    own_screens: Callable[..., Screens], server: ModelServer
) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    desk = opened.open("ana", f"/s/{session.id}")
    desk.get_by_role("button", name="People").first.click()
    opened.context("kim").close()  # the account exists; its browser comes later
    desk.locator("dialog#people input[name=person]").fill("kim")
    desk.locator("dialog#people").get_by_role("button", name="Add", exact=True).click()
    expect(desk.locator("dialog#people .member")).to_have_count(2)
    desk.locator("dialog#people [data-closes]").click()

    server.script([say("I run it."), call("shell", command=ENDLESS)])
    desk.locator("#say textarea").fill("Run the endless thing.")
    desk.keyboard.press("Enter")
    phone, kim = opened.open("ana", f"/s/{session.id}", "phone"), opened.open("kim", f"/s/{session.id}")
    for page in (desk, phone, kim):
        live(page)
        expect(page.locator(".tool[data-is=running]")).to_contain_text("while true")
    session.until_grows("f", "g")

    phone.locator("#stop .halt:not(.more)").tap()
    for page in (desk, phone, kim):
        receipt(page)
    stays_true(session.unchanged("f", "g"), "the files' sizes", 1)
    (terminal,) = session.events("TurnInterrupted")
    ended = " ".join(process["command"] for process in terminal.data["processes"]["ended"])
    assert "date >> f" in ended
    assert "date >> g" in ended
    for page in (desk, phone, kim):
        assert kept_seqs(page) == [terminal.seq, terminal.seq]
        expect(page.locator(".rule.stopped")).to_contain_text("Stopped by ana from a phone")

    phone.locator(".receipt").get_by_role("button", name="Everything ended").tap()  # one line until it is unfolded
    phone.locator(".reasons").get_by_text("seen enough").tap()
    server.script([say("Hello again.")])
    desk.locator("#say textarea").fill("hello")
    desk.keyboard.press("Enter")
    for page in (desk, phone, kim):
        expect(page.locator(".turn").last.locator(".step .prose")).to_have_text("Hello again.")
    desk.goto("/interruptions")
    row = desk.locator("tbody tr")
    for words in ("ana", "from a phone", "seen enough", "a running tool"):
        expect(row).to_contain_text(words)
    row.locator("a").first.click()
    expect(desk.locator("main")).to_contain_text("date >> g")
    assert server.violations == []


@pytest.mark.rule("E6", "C3")
@pytest.mark.scenario("D04", "D20")
def test_a_stop_in_mid_stream_closes_the_models_connection_and_keeps_what_was_read(
    own_screens: Callable[..., Screens], server: ModelServer
) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    page = opened.open("ana", f"/s/{session.id}")
    live(page)
    server.script([say("Once upon a time there was a stream that went on and on. "), stall()])
    page.locator("#say textarea").fill("Tell me a story.")
    page.keyboard.press("Enter")
    expect(page.locator(".step .prose")).to_contain_text("went on and on")
    expect(page.locator("#state")).to_contain_text("Writing")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    receipt(page)
    server.wait_for(lambda one: one.requests[-1].closed_at is not None, 5)
    expect(page.locator(".step .prose.cut")).to_contain_text("went on and on")
    server.script([say("Stopped, as you wished.")])
    page.locator("#say textarea").fill("thanks")
    page.keyboard.press("Enter")
    expect(page.locator(".turn").last.locator(".step .prose")).to_have_text("Stopped, as you wished.")


def test_the_demonstration_is_one_button_away_and_can_be_steered_and_stopped(
    own_screens: Callable[..., Screens],
) -> None:
    opened = own_screens(workers=1)
    page = opened.open("ana", "/")
    page.get_by_role("button", name="Start the demonstration").click()
    page.wait_for_url("**/s/*")
    live(page)
    expect(page.locator(".strip .label")).to_have_text("Demonstration")
    session = page.url.rsplit("/", 1)[1]
    expect(page.locator(".tool").first).to_be_visible(timeout=60_000)
    page.locator("#say textarea").fill("Please mention the word marmalade.")
    page.keyboard.press("Enter")
    expect(page.locator(".said.steer")).to_contain_text("marmalade")
    page.locator("#stop .halt:not(.more)").click()
    receipt(page)
    state = read.snapshot(session)["state"]
    wait_until(lambda: all(loop["turn"] is None for loop in state["loops"].values()), "the end of the turn")
    page.goto("/")
    expect(page.locator("#sessions li")).to_contain_text(["Nothing running"])
    expect(page.locator("#sessions .label")).to_have_text(["Demonstration"])
