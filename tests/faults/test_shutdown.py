"""A worker that is told to end: its turns end as a shutdown, apart from any person's stop (E8, F)."""

import signal

import pytest

from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, call, say
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
        assert terminal.actor.kind == "system" and len(terminal.data["processes"]["ended"]) > 1
        assert session.events("ToolSettled")[0].data["outcome"] == "interrupted"
        assert stack.worker.wait(20), "the worker leaves"
        stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
        stack.start_worker()
        session.until("TurnDone")
        assert server.violations == [] and "shut down" in server.requests[-1].last.text
