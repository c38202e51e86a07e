"""What users of other products reported, seen in the browser: floods, broken terminals, lost prompts, zones, sizes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screens import Screens, live, observe
from tests.support.model_server import ModelServer, call, say
from tests.support.running import Running
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
ZONES = {"ana": "Asia/Kolkata", "kim": "America/Sao_Paulo"}
MOST_NODES = 5_000


@pytest.mark.scenario("D26")
def test_a_flood_of_lines_can_be_stopped_while_it_prints(own_screens: Open, server: ModelServer) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    page, slow = opened.open("ana", f"/s/{session.id}"), opened.open("ana", f"/s/{session.id}", "phone")
    slow.context.new_cdp_session(slow).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    for one in (page, slow):
        live(one)
    server.script([call("shell", command="seq -f %0120.0f 1 50000; while true; do seq -f %0120.0f 1 50000; done")])
    page.locator("#say textarea").fill("Print.")
    page.keyboard.press("Enter")
    for one in (page, slow):
        expect(one.locator(".tool[data-is=running] pre")).to_contain_text("0000")
    expect(page.locator(".tool pre")).to_contain_text(re.compile(r"[\d,]+ lines hidden"))
    page.locator("#say textarea").fill("typed meanwhile")
    page.locator("#stop .halt:not(.more)").click()
    for one in (page, slow):
        expect(one.locator(".receipt[data-over]")).to_be_visible()
        expect(one.locator(".tool pre")).to_contain_text(re.compile(r"[\d,]+ (more )?lines hidden"))
        assert one.evaluate("document.querySelectorAll('*').length") < MOST_NODES
    expect(page.locator("#say textarea")).to_have_value("typed meanwhile")


@pytest.mark.scenario("D29")
def test_control_sequences_of_a_real_command_leave_the_view_whole(own_screens: Open, server: ModelServer) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    page = opened.open("ana", f"/s/{session.id}")
    live(page)
    bar = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); printf '\\r%s of 200' $i; done"
    end = "printf '\\nafter\\n\\033]0;no end'"
    command = f"printf '\\033[32mgreen\\033[0m\\n\\033[3;9r\\033[H\\033[?1000hkept\\n'; {bar}; {end}"
    server.script([call("shell", command=command)], [say("All of it is there.")])
    page.locator("#say textarea").fill("Print.")
    page.keyboard.press("Enter")
    expect(page.locator(".step .prose")).to_have_text("All of it is there.")
    for _ in range(2):
        pre = page.locator(".tool pre")
        expect(pre).to_have_text("green\nkept\n200 of 200\nafter", use_inner_text=True)
        expect(pre.locator(".ansi")).to_have_text("green")
        expect(page.locator(".step .prose")).to_be_in_viewport()
        page.reload()
        live(page)


@pytest.mark.scenario("D40")
def test_an_approval_asked_for_while_one_is_away_is_there_after_each_return(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    mine, kim = opened.session("ana", world), opened.session("kim", world)
    mine.context.set_offline(True)
    expect(mine.locator("#connection")).not_to_have_attribute("data-is", "live")
    world.ask("c1")
    expect(kim.locator("#asks .ask")).to_contain_text("git push origin")
    expect(kim.get_by_role("button", name="Allow once")).to_have_count(0)
    mine.context.set_offline(False)
    for _ in range(3):
        live(mine)
        expect(mine.locator("#asks .ask")).to_contain_text("git push origin")
        expect(mine.locator("#asks .ask")).to_contain_text(re.compile(r"asked \d+ s ago"))
        mine.reload()
    mine.get_by_role("button", name="Allow once").click()
    expect(mine.locator("#asks .ask")).to_have_count(0)
    expect(kim.locator("#asks .ask")).to_have_count(0)
    expect(kim.locator(".tool")).to_contain_text(re.compile("allowed by ana", re.IGNORECASE))
    assert len(world.events("GateResolved")) == 1


@pytest.mark.scenario("D45")
def test_a_stop_has_the_same_instant_in_every_zone_before_and_after_loading_anew(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    world.start()
    pages = {name: opened.open(name, f"/s/{world.session}", timezone_id=zone) for name, zone in ZONES.items()}
    for page in pages.values():
        live(page)
    world.stop()
    world.end()
    (asked,) = world.events("InterruptRequested")
    at = datetime.fromtimestamp(asked.at_ms / 1000, UTC)
    for name, page in pages.items():
        here = at.astimezone(ZoneInfo(ZONES[name]))
        for _ in range(2):
            when = page.locator(".rule.stopped time")
            expect(when).to_contain_text(f"{here:%H:%M}")
            assert when.get_attribute("datetime") == f"{at:%Y-%m-%dT%H:%M:%S}.{asked.at_ms % 1000:03}Z"
            expect(when).to_have_attribute("title", re.compile(f"{at:%H:%M:%S}.*UTC"))
            page.reload()
            live(page)
        page.goto("/interruptions")
        expect(page.locator("tbody time").first).to_contain_text(f"{here:%H:%M}")


def put(page: Page, text: str, times: int) -> None:
    """As a paste would: all at once."""
    page.locator("#say textarea").evaluate(
        "(box, text) => { box.value = text; box.dispatchEvent(new Event('input', { bubbles: true })) }", text * times
    )


@pytest.mark.scenario("D49")
def test_what_is_too_long_is_refused_before_it_leaves_and_stays_in_the_box(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    page, kim = opened.session("ana", world), opened.session("kim", world)
    sent: list[int] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(len(frame))))
    page.reload()
    live(page)
    for size in (1_200_000, 10_000_000):
        put(page, "x", size)
        page.locator("#say textarea").press("Enter")
        expect(page.locator("footer.dock")).to_contain_text("at most 1.00 MiB are allowed. Nothing was sent")
        assert page.locator("#say textarea").evaluate("box => box.value.length") == size
        assert max(sent, default=0) < 100_000
        live(page)
    put(page, "y", 900_000)
    page.locator("#say textarea").press("Enter")
    expect(page.locator("#say textarea")).to_have_value("")
    queued = world.events("InputQueued")
    assert len(queued) == 1
    assert max(sent) > 900_000
    live(kim)
