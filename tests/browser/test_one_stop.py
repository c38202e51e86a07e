"""One stop tells one story: the receipt, the timeline, the list, its page, the terminal and the API count alike."""

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.cli import tables
from sessions_app.cli.printer import Printer
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.stops import Stops
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.browser.screens import Screens, Stream
from tests.doors.callers import caller
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
Process = dict[str, Any]


def processes(kind: str, *pids: int) -> dict[str, list[Process]]:
    listed = [{"pid": pid, "command": f"work {pid}"} for pid in pids]
    return {**{each: [] for each in ("ended", "surviving", "background")}, kind: listed}


def settle(world: World, call: str, left: dict[str, list[Process]]) -> None:
    settlement = commands.Settlement("ok", "", processes=left)
    world.report(commands.SettleTool(world.turn, world.epoch, world.step, call, settlement))


def busy() -> tuple[World, list[World]]:
    """A main agent with a server in the background, one sub-agent in a command and two that ask for approval."""
    world = World.create("ana")
    world.start("compare the folders")
    world.plan("bg", command="npm run dev")
    world.start_tool("bg", command="npm run dev")
    settle(world, "bg", processes("background", 71, 72))
    world.begin()
    children = world.delegate("build it", "publish it", "tag it")
    control.set_mode(world.owner, world.session, new_id(), mode="ask")
    for child in children:
        control.set_mode(world.owner, world.session, new_id(), mode="ask", loop=child.loop)
        assert child.claim()
        child.begin()
        child.plan("c", text="I do it.", command=f"make {child.loop[:8]}")
    children[0].start_tool("c")
    for child in children[1:]:
        assert child.start_tool("c", commands.Effect("command", f"make {child.loop[:8]}"))["outcome"] == "asked"
    return world, children


def stop_all(world: World, children: list[World], done: Callable[[], None] = lambda: None) -> None:
    """A stop from the phone that ends all of it; `done`: looked at before the server in the background has ended."""
    world.submit("and then the docs")
    world.stop(person("ana", "phone"), queue="hold", reason="wrong branch")
    killed = {"c": commands.Settlement("interrupted", processes=processes("ended", 81, 82, 83))}
    children[0].end(acknowledged_ms=4, settlements=killed)
    children[1].end(acknowledged_ms=5)
    children[2].end(acknowledged_ms=9)
    world.end(acknowledged_ms=6, cut_off={"text": "", "reasoning": "Hm."})
    done()
    gone = commands.BackgroundEnded(world.turn, world.loop, "bg", processes("ended", 71, 72)["ended"], ())
    reports.background_ended(world.session, gone, WORKER)


def facts(page: Page, selector: str) -> list[str]:
    """A rule's numbers, without the link to the page about it."""
    said = page.locator(f"{selector} .facts > span").all_inner_texts()
    return [" ".join(each.split()) for each in said]


@pytest.mark.rule("E1", "E7", "E8", "E13", "H2", "G1")
def test_one_stop_is_counted_alike_everywhere(screens: Open) -> None:
    opened, (world, children) = screens(), busy()
    page = opened.session("ana", world)

    def not_yet() -> None:
        expect(page.locator(".receipt[data-over]")).to_contain_text("9 ms")
        expect(page.locator(".receipt li[data-done]")).to_have_count(2)  # what runs in the background has not ended
        expect(page.locator(".receipt li").last).to_contain_text("so far")

    stop_all(world, children, not_yet)
    expected = {
        "agents": 4, "steps_kept": 5, "cut_off": 3, "approvals": 2, "ended": 5, "ending": 0, "surviving": 0,
        "unknown": False, "held": 1, "kept": 0, "cancelled": 0, "acknowledged_ms": 9, "ended_by": "worker",
    }  # fmt: skip
    ana = caller("ana")
    (stop,) = ana.get(f"/sessions/{world.session}/stops").json["items"]
    numbers = {name: stop[name] for name in (*expected, "settled_ms")}
    assert numbers == {**expected, "settled_ms": numbers["settled_ms"]}
    assert [turn["numbers"]["ended"] for turn in stop["turns"]][:1] == [0], "the main agent's own calls"
    assert sum(turn["numbers"]["ended"] for turn in stop["turns"]) == 3
    assert [each["numbers"]["ended"] for each in stop["background"]] == [2]
    assert ana.get("/stops").json["items"] == [stop]
    for item in ana.get("/interruptions").json["items"]:
        assert item["stop"] == numbers
        assert ana.get(f"/interruptions/{item['id']}").json["stop"] == numbers

    folded = Stops()
    written: list[str] = []
    printer = Printer(written.append, colour=False)
    for event in map(orjson.loads, read.events(world.session)):
        folded.apply(event)
        printer.frame({"t": "event", **event})
    assert [dict(each.numbers()) for each in folded.by_request.values()] == [numbers]
    watched = "".join(written)
    for words in ("4 agents", "5 steps kept", "3 characters cut off", "5 processes ended", "2 approvals closed"):
        assert words in watched.rpartition("■ everything ended")[2]
    assert "outlived" not in watched
    history = re.split(r"  +", tables.stops([stop]).splitlines()[1])
    assert [history[at] for at in (1, 2, 4, *range(6, 11))] == [
        "4 agents", "ana (phone)", "9 ms", "5 steps", "3 characters", "5 ended", "2 approvals closed, 1 paused",
        "wrong branch",
    ]  # fmt: skip
    assert "in the background: npm run dev, ended in" in tables.stops([stop])

    expect(page.locator(".receipt li[data-done]")).to_have_count(3)
    expect(page.locator(".receipt")).to_contain_text("4 agents, 5 processes, 2 approvals")
    served = opened.open("ana", f"/s/{world.session}?stopped={children[0].turn}", java_script_enabled=False)
    expect(served.locator(".receipt")).to_contain_text("4 agents, 5 processes, 2 approvals")
    expect(served.locator(".receipt")).to_contain_text("1 message stays paused")
    one = opened.open("ana", f"/interruptions/{world.turn}")
    told = facts(one, ".rule.stopped")
    for words in (
        "it ended 4 agents", "workers got it in 9 ms", "kept 5 steps", "cut off 3 characters", "ended 5 processes",
        "closed 2 approvals", "paused 1 message",
    ):  # fmt: skip
        assert words in told
    whole = f'.rule.stopped[data-seq="{stop["turns"][0]["seq"]}"]'
    for each in (page, served):
        assert facts(each, whole) == told
    body = one.locator("body")
    expect(body).to_contain_text("in the background: npm run dev")
    expect(one.locator("#whole")).to_contain_text("make")
    expect(body).not_to_contain_text("Ended by the stop, 0 ms")
    listed = opened.open("ana", "/interruptions").locator("tr.whole")
    for words in ("4 agents", "9 ms", "5 steps", "3 characters", "5 ended", "2 approvals closed, 1 paused"):
        expect(listed).to_contain_text(words)


@pytest.mark.rule("J4", "E8")
def test_the_page_of_a_shutdown_says_what_waited_and_for_how_long_it_waited(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("first")
    later = world.submit("later")
    world.stop(queue="hold")
    world.end()
    world.start("run it")
    world.plan("c1")
    world.start_tool("c1")
    cut = {"c1": commands.Settlement("interrupted", processes=processes("ended", 81))}
    world.end(cause="worker_shutdown", settlements=cut, grace_ms=20_000)
    assert world.events("TurnInterrupted")[-1].data["inputs"]["kept"] == [later]
    page = opened.open("ana", f"/interruptions/{world.turn}")
    about = page.locator(".about-list")
    for words in ("1 message left as it was, paused", "nobody asked", "20 s: so long what ran might go on"):
        expect(about).to_contain_text(words)
    expect(page.locator("body")).not_to_contain_text("no answer")
    expect(page.locator("body")).not_to_contain_text("went on")
    expect(page.locator(".rule.stopped .facts")).to_contain_text("after a grace of 20 s")
    page = opened.session("ana", world)
    expect(page.locator(".rule.stopped .facts").last).to_contain_text("after a grace of 20 s")
    page.goto("/interruptions?cause=worker_shutdown")
    expect(page.locator("tbody tr")).to_contain_text("nobody asked")
    expect(page.locator("tbody tr")).to_contain_text("1 left as it was")


@pytest.mark.rule("J4", "L2")
def test_what_was_shown_of_a_reply_that_another_worker_begins_anew_stays_struck_through(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("write a poem")
    page = opened.session("ana", world)
    Stream(world).say("Roses are half")
    expect(page.locator(".step .prose")).to_contain_text("Roses are half")
    world.report(commands.HandOver(world.turn, world.epoch, "model", {}, 2))
    cut = page.locator(".step", has_text="Roses are half")
    note = "Not finished: begun anew by another worker"
    expect(cut.locator(".prose.cut")).to_be_visible()
    expect(cut).to_contain_text(note)
    expect(page.locator("#timeline")).to_contain_text("the unfinished reply is begun anew by another")
    assert world.claim()
    Stream(world, attempt=2).say("Violets")
    expect(page.locator(".step", has_text="Violets").locator(".prose:not(.cut)")).to_be_visible()
    world.begin()
    world.answer("Violets are blue.")
    expect(page.locator(".step", has_text="Violets are blue.")).to_have_count(1)
    expect(cut).to_contain_text(note)
    later = opened.session("ana", world)
    expect(later.locator("#timeline")).to_contain_text("the unfinished reply is begun anew by another")
    expect(later.locator("#timeline")).not_to_contain_text("Roses")
