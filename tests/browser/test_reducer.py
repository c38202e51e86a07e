"""The browser's fold is the server's: the same log, the same state; and live text counts as Python counts."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.browser.screens import Screens
from tests.golden.make import FOLDER, TALES
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")

FOLD = """async (events) => {
  const { evolve, initial } = await import("/static/js/session/state.js");
  return events.reduce(evolve, initial());
}"""
VIEW = """async (events) => {
  const { View } = await import("/static/js/session/view.js");
  const view = new View();
  for (const event of events) view.apply(event);
  return [...view.turns.values()].filter((turn) => turn.end).map((turn) => turn.status);
}"""
WORDS = {"TurnDone": "done", "TurnFailed": "failed", "TurnInterrupted": "stopped"}
STREAM = """async ([events, pieces]) => {
  const { View } = await import("/static/js/session/view.js");
  const view = new View();
  for (const event of events) view.apply(event);
  const said = pieces.map((piece) => view.stream(piece));
  const turn = [...view.turns.values()].pop();
  return [said, turn.keys.get("t:1").said];
}"""


def busy_log() -> World:
    """A session in which nearly everything has happened that may happen to one loop."""
    world = World.create("ana")
    first = world.submit("first")
    world.submit("second")
    world.submit("third")
    control.edit_input(world.owner, world.session, new_id(), first, position=2)
    control.edit_input(world.owner, world.session, new_id(), first, text="first, changed")
    assert world.claim()
    world.begin()
    steer = world.steer("mind the tests")
    control.edit_steer(world.owner, world.session, new_id(), steer, text="mind all tests")
    world.answer("too early")
    world.begin()
    world.plan("a", "b", text="two calls")
    world.start_tool("a")
    world.settle("a", output="ok")
    world.steer("now", urgent=True)
    world.start_tool("b")
    world.begin()
    waiting = world.steer("later")
    control.edit_input(world.owner, world.session, new_id(), first, promote="normal")
    control.withdraw_steer(world.owner, world.session, new_id(), waiting)
    world.plan("c")
    world.start_tool("c")
    world.stop(queue="hold", then={"text": "what I really want"}, reason="wrong branch")
    world.stop()
    return world


def folded(page: Page, world: World) -> tuple[Any, Any]:
    """The state as the browser folds it, and as the server keeps it, both as plain JSON."""
    events = [json.loads(frame) for frame in read.events(world.session)]
    return page.evaluate(FOLD, events), json.loads(json.dumps(read.snapshot(world.session)["state"]))


@pytest.mark.rule("A2")
def test_the_browser_folds_the_golden_logs_to_the_states_python_folds_them_to(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/")
    for name in TALES:
        events = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
        state = json.loads((FOLDER / f"{name}.state.json").read_text())
        assert page.evaluate(FOLD, events) == state, name
        ends = {event["turn"]: event["type"] for event in events if event["type"] in WORDS}
        begun = [event["turn"] for event in events if event["type"] == "TurnStarted"]
        assert page.evaluate(VIEW, events) == [WORDS[ends[turn]] for turn in begun if turn in ends], name


@pytest.mark.rule("A2", "L1")
def test_the_browsers_fold_equals_the_servers_while_a_stop_is_under_way(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/")
    world = busy_log()
    browsers, servers = folded(page, world)
    assert servers["requests"]
    assert browsers == servers


@pytest.mark.rule("A2")
def test_the_browsers_fold_equals_the_servers_after_the_stop_and_the_close(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/")
    world = busy_log()
    world.end(acknowledged_ms=3, cut_off={"text": "half"})
    browsers, servers = folded(page, world)
    assert browsers == servers
    control.release(world.owner, world.session, new_id(), to="run")
    assert world.claim()
    world.begin()
    world.report(commands.Fail(world.turn, world.epoch, "provider", "no more credit"))
    control.close(world.owner, world.session, new_id())
    browsers, servers = folded(page, world)
    assert browsers == servers
    assert servers["status"] == "closed"


@pytest.mark.rule("L2")
@pytest.mark.scenario("D47")
def test_offsets_count_code_points_and_pieces_meet_without_hole_or_repetition(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/")
    world = World.create("ana")
    world.start()
    events = [json.loads(frame) for frame in read.events(world.session)]

    def piece(offset: int, text: str, attempt: int = 1, step: int = 1) -> dict[str, Any]:
        return {
            "turn": world.turn, "step": step, "attempt": attempt, "kind": "text", "offset": offset, "text": text,
        }  # fmt: skip

    family = "👨‍👩‍👧‍👦"
    cases = [
        ("ok", piece(0, "ready ")),
        ("ok", piece(6, "🚀")),
        ("ok", piece(0, "ready 🚀")),  # what a late joiner gets, over what is there already
        ("ok", piece(6, "🚀" + family[:3])),
        ("ok", piece(10, family[3:] + "\ufffd")),
        ("gap", piece(99, "lost")),
    ]
    said, text = page.evaluate(STREAM, [events, [one for _, one in cases]])
    assert said == [expected for expected, _ in cases]
    assert text == f"ready 🚀{family}\ufffd"
    again = [piece(0, "first try"), piece(0, "second", attempt=2), piece(9, "late", attempt=1)]
    said, text = page.evaluate(STREAM, [events, again])
    assert (said, text) == (["ok", "ok", "old"], "second")
