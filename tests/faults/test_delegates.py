"""Delegates at work (G), with real processes: one slot, a stopped subtree, deaths, and hand-overs in between."""

import signal
from typing import Any

import pytest

from sessions_app.log import read
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, say
from tests.support.running import ENDLESS, Running
from tests.support.waiting import stays_true, wait_until


def chain(seen: Seen) -> ScriptedReply:
    """Each agent hands a task one deeper, down to the third, and passes on what it hears."""
    if seen.last.role == "tool":
        return [say(f"heard: {seen.last.text}")]
    depth = int(seen.last.text.rsplit(" ", 1)[-1])
    return [call("delegate", task=f"depth {depth + 1}")] if depth < 3 else [say("bottom")]


def loops(session: Running) -> dict[str, Any]:
    return dict(read.snapshot(session.id)["state"]["loops"])


@pytest.mark.rule("G1", "G2")
def test_three_delegates_deep_finish_with_one_slot(make_stack: MakeStack, server: ModelServer) -> None:
    make_stack(webs=0, env={**server.environ(), "STEERWEB_TURNS": "1"})
    server.handler = chain
    session = Running.create()
    session.submit("depth 0")
    session.until("SessionIdle")
    answers = [event.data["text"] for event in session.events("StepDone") if event.data.get("text")]
    assert answers == ["bottom", "heard: bottom", "heard: heard: bottom", "heard: heard: heard: bottom"]
    assert session.count("TurnDone") == session.count("TurnStarted") == 4
    assert session.count("LoopClosed") == 3


@pytest.mark.rule("G2", "G3", "J4")
def test_a_family_moves_with_its_workers_and_finishes_with_one_slot(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, env={**server.environ(), "STEERWEB_TURNS": "1", "STEERWEB_GRACE_S": "60"})
    slow = "until [ -e go ]; do sleep 0.05; done; echo bottom"

    def replies(seen: Seen) -> ScriptedReply:
        reply = chain(seen)
        return [call("shell", command=slow)] if reply == [say("bottom")] else reply

    server.handler = replies
    session = Running.create()
    session.submit("depth 0")
    wait_until(lambda: "tool" in [each["phase"] for each in read.phases(session.id)], "the deepest command")
    stack.start_worker()
    stack.worker.send(signal.SIGTERM)
    session.until("TurnHandedOver", 3)
    session.file("go").touch()
    assert stack.worker.wait(30)
    session.until("SessionIdle")
    assert session.count("TurnDone") == session.count("TurnStarted") == 4
    assert session.count("TurnInterrupted") == 0


def two_sides(seen: Seen) -> ScriptedReply:
    """The first agent asks two others; each runs an endless command."""
    if seen.last.role == "tool":
        return [say("So be it.")]
    if seen.last.text.startswith("both"):
        return [call("delegate", task="left"), call("delegate", task="right")]
    side = seen.last.text
    return [call("shell", command=ENDLESS.replace(">> g", f">> {side}-g").replace(">> f", f">> {side}-f"))]


def side(session: Running, task: str) -> str:
    """The loop of the delegate with that task."""
    return next(str(event.loop) for event in session.events("LoopStarted") if event.data.get("task") == task)


@pytest.mark.rule("G3", "E1", "E7")
def test_a_stopped_delegate_leaves_no_process_and_its_sibling_untouched(
    make_stack: MakeStack, server: ModelServer
) -> None:
    make_stack(webs=0, env=server.environ())
    server.handler = two_sides
    session = Running.create()
    session.submit("both sides")
    session.until_grows("left-f", "left-g", "right-f", "right-g")
    left, right = side(session, "left"), side(session, "right")
    outcome = session.stop(loop=left, reason="the right one will do")
    assert outcome["stopped"]
    assert [event.loop for event in session.events("TurnInterrupted")] == [left]
    stays_true(session.unchanged("left-f", "left-g"), "the stopped side's files", 0.4)
    session.until_grows("right-f", "right-g")
    assert loops(session)[left]["status"] == "closed"
    assert loops(session)[right]["turn"]["mark"] is None
    assert session.stop()["stopped"]
    assert len(session.events("TurnInterrupted")) == 3
    stays_true(session.unchanged("left-f", "left-g", "right-f", "right-g"), "all files", 0.4)
    session.until("SessionIdle")


@pytest.mark.rule("G3", "E8", "E1")
def test_a_stop_of_the_session_ends_the_whole_family_from_below(make_stack: MakeStack, server: ModelServer) -> None:
    make_stack(webs=0, env=server.environ())
    server.handler = two_sides
    session = Running.create()
    session.submit("both sides")
    session.until_grows("left-f", "right-f")
    primary = session.events("LoopStarted")[0].loop
    outcome = session.stop()
    assert outcome["stopped"]
    assert len(outcome["turns"]) == 3
    ended = session.events("TurnInterrupted")
    assert ended[-1].loop == primary
    assert {event.data["cause"] for event in ended} == {"person"}
    assert [event.data["outcome"] for event in session.events("ToolSettled") if event.loop == primary] == [
        "interrupted", "interrupted",
    ]  # fmt: skip
    stays_true(session.unchanged("left-f", "left-g", "right-f", "right-g"), "all files", 0.4)
    session.submit("both sides")
    session.until("TurnStarted", 4)


@pytest.mark.rule("G3", "J2", "E8")
def test_a_family_whose_worker_dies_ends_from_below_and_the_session_is_usable(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, env=server.environ())
    server.handler = two_sides
    session = Running.create()
    session.submit("both sides")
    session.until_grows("left-f", "right-f")
    stack.kill_worker()
    stack.start_worker()
    session.until("SessionIdle")
    ended = session.events("TurnInterrupted")
    assert [event.data["cause"] for event in ended] == ["worker_lost"] * 3
    primary = session.events("LoopStarted")[0].loop
    assert ended[-1].loop == primary
    assert [event.data["outcome"] for event in session.events("ToolSettled") if event.loop == primary] == ["lost"] * 2
    stays_true(session.unchanged("left-f", "left-g", "right-f", "right-g"), "all files", 0.4)
    server.handler = lambda seen: [say("Here.")]
    session.submit("Are you there?")
    session.until("TurnDone")
