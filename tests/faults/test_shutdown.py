"""A worker that is told to end: its turns end as a shutdown, apart from any person's stop (E8, F)."""

import signal

import pytest

from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, call, say, stall
from tests.support.running import ENDLESS, Running
from tests.support.waiting import stays_true


@pytest.mark.rule("E8", "F", "J1")
def test_sigterm_ends_a_running_call_and_the_next_worker_goes_on(make_stack: MakeStack) -> None:
    with ModelServer() as server:
        stack = make_stack(webs=0, env=server.environ())
        server.script([call("shell", command=ENDLESS)], [say("Next turn.")])
        session = Running.create()
        session.submit("Run it.")
        session.until_grows("f", "g")
        session.submit("And then this.")
        stack.worker.send(signal.SIGTERM)
        terminal = session.until("TurnInterrupted")
        assert (terminal.data["cause"], terminal.data["ended_by"]) == ("worker_shutdown", "worker")
        assert terminal.data["phase"] == "tool" and terminal.data["settled_ms"] > 0
        assert terminal.data["grace_ms"] > 0
        assert terminal.actor.kind == "system" and len(terminal.data["processes"]["ended"]) > 1
        assert session.events("ToolSettled")[0].data["outcome"] == "interrupted"
        assert stack.worker.wait(20), "the worker leaves"
        stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
        stack.start_worker()
        session.until("TurnDone")
        assert server.violations == [] and "shut down" in server.requests[-1].last.text


@pytest.mark.rule("J4", "E8")
def test_a_second_sigterm_leaves_no_grace_and_the_end_is_a_shutdown_all_the_same(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, env={**server.environ(), "STEERWEB_GRACE_S": "600"})
    server.handler = lambda seen: (
        [call("shell", command=ENDLESS)] if "Run" in seen.text else [say("Half a reply"), stall()]
    )
    runs, thinks = Running.create(), Running.create()
    runs.submit("Run it.")
    thinks.submit("Think.")
    runs.until_grows("f", "g")
    thinks.until_saved("Half a reply")
    stack.worker.send(signal.SIGTERM)
    time_is_over = stack.worker.wait(1)
    assert not time_is_over, "the command has its grace"
    stack.worker.send(signal.SIGTERM)
    terminal = runs.until("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["ended_by"]) == ("worker_shutdown", "worker")
    assert stack.worker.wait(20), "the worker leaves"
    assert thinks.events("TurnHandedOver")[0].data["at"] == "model"
    assert thinks.count("TurnInterrupted") == 0
