"""A part of the product is killed, frozen or told to end while turns are at everything a turn can be at."""

import os
import signal

import psycopg
import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, fail, say, stall
from tests.support.running import Running
from tests.support.stack import Stack
from tests.support.waiting import stays_true, wait_until

TOOL = "while [ ! -e go ]; do date >> f; sleep 0.1; done; echo over"
PHASES = {"model": "model", "tool": "tool", "gate": "gate", "retry": "retry", "delegate": "delegate"}


class Everything:
    """One session for each phase a turn can be in, each in it."""

    def __init__(self, server: ModelServer) -> None:
        self.server, self.over = server, False
        server.handler = self.reply
        self.sessions = {phase: Running.create(mode="ask" if phase == "gate" else "auto") for phase in PHASES}
        for phase, session in self.sessions.items():
            session.submit(phase)
        for phase, session in self.sessions.items():
            wait_until(lambda p=phase, s=session: p in self.phases(s), f"the phase {phase}", 90)  # type: ignore[misc]
        self.sessions["tool"].until_grows("f")

    @staticmethod
    def phases(session: Running) -> list[str]:
        return [each["phase"] for each in read.phases(session.id)]

    def reply(self, seen: Seen) -> ScriptedReply:
        """What keeps an agent in its phase, until it is over."""
        kind = next(said.text for said in seen.history if said.role == "user")
        if self.over or seen.last.role == "tool":
            return [say("It is over.")]
        if kind in ("tool", "gate"):
            return [call("shell", command=TOOL)]
        if kind == "delegate":
            return [call("delegate", task="model")]
        return [fail(503, retry_after=5)] if kind == "retry" else [say("It is"), stall()]

    def let_go(self) -> None:
        """Everything may come to its end."""
        self.over = True
        self.server.release()
        self.sessions["tool"].file("go").touch()
        gate = self.sessions["gate"]
        gate.file("go").touch()
        asked = gate.events("GateOpened")[0].data["gate"]
        control.resolve(gate.owner, gate.id, new_id(), asked, decision="allow")

    def check_done(self) -> None:
        """Nothing was interrupted, and nothing done twice."""
        for phase, session in self.sessions.items():
            session.until("SessionIdle", timeout_s=90)
            assert session.count("TurnInterrupted") == session.count("TurnFailed") == 0, phase
            assert session.count("TurnStarted") == (2 if phase == "delegate" else 1)

    def check_lost(self) -> None:
        """Every turn ended as lost, its command with it, and every session goes on."""
        for phase, session in self.sessions.items():
            session.until("SessionIdle")
            assert {event.data["cause"] for event in session.events("TurnInterrupted")} == {"worker_lost"}, phase
        stays_true(self.sessions["tool"].unchanged("f"), "the command's file", 0.5)
        assert self.sessions["tool"].events("ToolSettled")[0].data["outcome"] == "lost"
        assert self.sessions["gate"].events("ToolSettled")[0].data["outcome"] == "not_run"
        self.over = True
        for session in self.sessions.values():
            session.submit("Are you there?")
            session.until("TurnDone")


def warden_pid(stack: Stack) -> int:
    with psycopg.connect(stack.database) as connection:
        row = connection.execute("SELECT warden_pid FROM worker").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.rule("J5", "J6")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_the_web_process_is_nothing_to_a_turn(make_stack: MakeStack, server: ModelServer, how: signal.Signals) -> None:
    stack = make_stack(webs=1, env=server.environ())
    everything = Everything(server)
    stack.web.send(how)
    everything.let_go()
    everything.check_done()


@pytest.mark.rule("J6")
def test_a_warden_that_is_asked_to_end_stays_with_its_tools(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, env=server.environ())
    everything = Everything(server)
    os.kill(warden_pid(stack), signal.SIGTERM)
    everything.let_go()
    everything.check_done()


@pytest.mark.rule("J2", "J6", "C4", "F", "G3")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_without_its_warden_a_worker_has_no_authority_left(
    make_stack: MakeStack, server: ModelServer, how: signal.Signals
) -> None:
    stack = make_stack(webs=1, env=server.environ())
    everything = Everything(server)
    os.kill(warden_pid(stack), how)
    assert stack.worker.wait(40), "the worker gives up"
    stack.start_worker()
    everything.check_lost()


@pytest.mark.rule("J2", "J6", "C4", "F", "G3")
def test_a_killed_worker_loses_whatever_its_turns_were_at(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=1, env=server.environ())
    everything = Everything(server)
    stack.kill_worker()
    stack.start_worker()
    everything.check_lost()
