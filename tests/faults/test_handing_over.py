"""Turns that move from worker to worker (J4): real processes, SIGTERM, drain, and nothing done twice."""

import signal

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, fail, say, stall
from tests.support.running import Running
from tests.support.stack import Stack
from tests.support.waiting import wait_until

ONCE = "echo run >> ran; until [ -e go ]; do sleep 0.05; done; echo finished"
"""A command that notes each of its runs and ends when somebody makes the file `go`."""


def leave(stack: Stack, number: int = 0) -> None:
    """Tell a worker to end, and wait until it has."""
    stack.workers[number].send(signal.SIGTERM)
    assert stack.workers[number].wait(30), "the worker leaves"


def moves(session: Running) -> list[str]:
    return [event.data["at"] for event in session.events("TurnHandedOver")]


@pytest.mark.rule("J4", "L2")
def test_a_model_call_that_outlasts_the_grace_is_dropped_and_asked_again_elsewhere(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, env=server.environ())
    server.script([say("Half a reply"), stall()], [say("The whole answer.")])
    session = Running.create()
    session.submit("Go.")
    session.until_saved("Half a reply")
    leave(stack)
    assert moves(session) == ["model"]
    assert session.events("TurnHandedOver")[0].data["usage"]["output_tokens"] > 0
    assert read.phases(session.id) == []
    stack.start_worker()
    done = session.until("TurnDone")
    assert session.count("TurnStarted") == session.count("TurnResumed") == 1
    assert done.turn == session.events("TurnStarted")[0].turn
    assert session.events("StepDone")[0].data["text"] == "The whole answer."
    assert len(server.requests) == 2
    assert server.requests[1].history == server.requests[0].history


@pytest.mark.rule("J4", "C4")
def test_a_call_that_ends_in_its_grace_is_settled_and_the_next_one_runs_elsewhere(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, env={**server.environ(), "STEERWEB_GRACE_S": "30"})
    server.script([call("shell", command=ONCE), call("shell", command="echo two >> ran")], [say("Both ran.")])
    session = Running.create()
    session.submit("Run both.")
    wait_until(lambda: session.size("ran") > 0, "the first command")
    stack.worker.send(signal.SIGTERM)
    session.file("go").touch()
    assert stack.worker.wait(30)
    assert moves(session) == ["call"]
    stack.start_worker()
    session.until("TurnDone")
    assert session.file("ran").read_text() == "run\ntwo\n"
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["ok", "ok"]


@pytest.mark.rule("J4", "H1")
def test_an_open_gate_is_answered_while_nobody_has_its_turn_and_the_call_runs_once(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, env=server.environ())
    server.script([call("shell", command="echo run >> ran")], [say("It ran.")])
    session = Running.create(mode="ask")
    session.submit("Run it.")
    gate = session.until("GateOpened").data["gate"]
    leave(stack)
    assert moves(session) == ["gate"]
    control.resolve(session.owner, session.id, new_id(), gate, decision="allow")
    stack.start_worker()
    session.until("TurnDone")
    assert session.file("ran").read_text() == "run\n"
    assert session.count("GateOpened") == 1


@pytest.mark.rule("J4", "E6")
def test_a_back_off_is_left_at_once(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, env={**server.environ(), "STEERWEB_GRACE_S": "60"})
    server.script([fail(503, retry_after=50)], [say("Now.")])
    session = Running.create()
    session.submit("Go.")
    wait_until(lambda: [each["phase"] for each in read.phases(session.id)] == ["retry"], "the back-off")
    leave(stack)
    assert moves(session) == ["back_off"]
    stack.start_worker()
    session.until("TurnDone")


@pytest.mark.rule("J4", "E2")
def test_a_stop_ends_a_turn_that_nobody_has_without_any_worker(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, env=server.environ())
    server.script([say("Half"), stall()], [say("Next.")])
    session = Running.create()
    session.submit("Go.")
    session.until_saved("Half")
    leave(stack)
    outcome = session.stop(reason="not now", wait_s=1)
    assert outcome["stopped"]
    ended = session.events("TurnInterrupted")[0]
    assert (ended.data["ended_by"], ended.data["cause"], ended.actor.name) == ("request", "person", "ana")
    session.submit("Next, then.")
    stack.start_worker()
    session.until("TurnDone")
    assert session.count("TurnResumed") == 0


@pytest.mark.rule("J4")
def test_a_drained_worker_lets_its_command_finish_moves_the_rest_and_ends(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, workers=2, env=server.environ())

    def answers(seen: Seen) -> ScriptedReply:
        if seen.last.role == "tool":
            return [say("It is done.")]
        return [call("shell", command=ONCE)] if "command" in seen.text else [say("Long"), stall()]

    server.handler = answers
    sessions = [Running.create() for _ in range(4)]
    for session in sessions:
        session.submit("Run the command.")
    for session in sessions:
        wait_until(lambda session=session: session.size("ran") > 0, "its command")  # type: ignore[misc]
    drain = stack.run("drain", "--timeout", "0")
    assert drain.returncode == 1, "they are still at work"
    assert "in a command" in drain.stdout
    for session in sessions:
        session.file("go").touch()
    assert all(worker.wait(30) for worker in stack.workers), "drained workers end"
    stack.start_worker()
    for session in sessions:
        session.until("TurnDone")
        assert session.count("TurnInterrupted") == 0
        assert session.file("ran").read_text() == "run\n"


@pytest.mark.rule("J4")
def test_a_turn_moves_only_to_a_worker_that_has_its_workspace(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, env=server.environ())
    server.script([say("Half"), stall()], [say("Whole.")])
    session = Running.create()
    session.submit("Go.")
    session.until_saved("Half")
    leave(stack)
    elsewhere = session.workspace.with_name("elsewhere")
    session.workspace.rename(elsewhere)
    other = Running.create()
    other.submit("Something else.")
    server.handler = lambda seen: [say("Done.")]
    stack.start_worker()
    other.until("TurnDone")
    assert session.count("TurnResumed") == 0
    elsewhere.rename(session.workspace)
    session.until("TurnDone")
