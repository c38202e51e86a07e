"""A rolling restart of two workers under fifty running turns (J4): what is interrupted, and that nothing runs twice."""

import signal

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, say, stall
from tests.support.running import Running
from tests.support.stack import Stack
from tests.support.waiting import wait_until

LONG = "echo run >> ran; until [ -e go ]; do sleep 0.1; done; echo finished"
"""The command of ten minutes: it ends when somebody makes the file `go`."""
KINDS = {"command": 10, "stream": 15, "gate": 10, "steps": 15}
START_S = 120


class Fifty:
    """Fifty sessions, each at work in its own way."""

    def __init__(self, server: ModelServer) -> None:
        self.server, self.short = server, False
        server.handler = self.reply
        self.sessions = {
            kind: [Running.create(mode="ask" if kind == "gate" else "auto") for _ in range(n)]
            for kind, n in KINDS.items()
        }
        for kind, sessions in self.sessions.items():
            for session in sessions:
                session.submit(kind)
        for kind, phase in {"command": "tool", "gate": "gate", "stream": "model"}.items():
            for session in self.sessions[kind]:
                self.until_in(session, phase)
        for session in self.sessions["command"]:
            wait_until(lambda session=session: session.size("ran") > 0, "its command", START_S)  # type: ignore[misc]

    def reply(self, seen: Seen) -> ScriptedReply:
        """What the model says, by what its agent was told and how far it is."""
        kind = next(said.text for said in seen.history if said.role == "user")
        results = sum(said.role == "tool" for said in seen.history)
        if kind == "command" and not results:
            return [call("shell", command=LONG)]
        if kind == "gate" and not results:
            return [call("shell", command="echo run >> ran")]
        if kind == "steps" and (results < 3 or not self.short):
            return [call("shell", command=f"echo {results} >> ran; sleep 0.3")]
        return [say("It is")] if self.short else [say("It is"), stall()]

    @staticmethod
    def until_in(session: Running, phase: str) -> None:
        wait_until(lambda: phase in [each["phase"] for each in read.phases(session.id)], f"the phase {phase}", START_S)

    def finish(self) -> None:
        """Everything may come to its end now."""
        self.short = True
        self.server.release()
        for session in self.sessions["gate"]:
            gate = session.events("GateOpened")[0].data["gate"]
            control.resolve(session.owner, session.id, new_id(), gate, decision="allow")

    def let_commands_end(self) -> None:
        for session in self.sessions["command"]:
            session.file("go").touch()

    def check(self, interrupted: set[str]) -> None:
        """Every turn has ended, those of `interrupted` by the shutdown; nothing was repeated."""
        for kind, sessions in self.sessions.items():
            for session in sessions:
                session.until("SessionIdle", timeout_s=START_S)
                assert session.count("TurnStarted") == 1
                causes = [event.data["cause"] for event in session.events("TurnInterrupted")]
                assert causes == (["worker_shutdown"] if kind in interrupted else []), kind
                started = [(event.step, event.data["call"]) for event in session.events("ToolStarted")]
                assert len(started) == len(set(started)), "a call started twice"
        for session in self.sessions["command"] + self.sessions["gate"]:
            assert session.file("ran").read_text() == "run\n"
        for session in self.sessions["steps"]:
            runs = session.file("ran").read_text().split()
            assert runs == [str(n) for n in range(len(runs))], "each command of the row ran once"


def workers(stack: Stack) -> list[str]:
    """The ids of the living workers, oldest first."""
    from sessions_app.log import db

    with db.cursor("read") as cur:
        return [str(row[0]) for row in cur.execute("SELECT id FROM worker ORDER BY id").fetchall()]


@pytest.mark.rule("J4")
def test_a_drained_restart_interrupts_nothing(make_stack: MakeStack, server: ModelServer) -> None:
    stack = make_stack(webs=0, workers=2, env={**server.environ(), "STEERWEB_TURNS": "60"})
    fifty = Fifty(server)
    old = workers(stack)
    stack.start_worker()
    for worker in old:
        assert stack.run("drain", worker, "--timeout", "0").returncode == 1, "its command goes on"
    fifty.finish()
    for session in fifty.sessions["command"]:
        assert session.count("ToolSettled") == 0, "a command was ended"
    fifty.let_commands_end()
    assert all(worker.wait(60) for worker in stack.workers[:2]), "drained workers end"
    fifty.check(set())


@pytest.mark.rule("J4")
def test_a_restart_without_a_drain_ends_the_ten_commands_and_nothing_else(
    make_stack: MakeStack, server: ModelServer
) -> None:
    stack = make_stack(webs=0, workers=2, env={**server.environ(), "STEERWEB_TURNS": "60", "STEERWEB_GRACE_S": "4"})
    fifty = Fifty(server)
    stack.start_worker()
    for number in (0, 1):
        stack.workers[number].send(signal.SIGTERM)
    assert all(worker.wait(60) for worker in stack.workers[:2]), "they end"
    fifty.finish()
    fifty.check({"command"})
