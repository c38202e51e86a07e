"""A worker killed or frozen at each phase of a turn: nothing keeps running, the turn ends, the session goes on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from pytest_django import DjangoDbBlocker

from tests.conftest import MakeStack, note_stack, point_at
from tests.support import services
from tests.support.locks import held_once
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, say, stall
from tests.support.running import ENDLESS, Running
from tests.support.stack import Stack, stack_folder
from tests.support.waiting import stays_true

WITHIN_S = 30
LEAVES_ONE_BEHIND = (
    "(setsid sh -c 'while true; do date >> g; sleep 0.1; done' &) ; until [ -e go ]; do sleep 0.05; done"
)
"""A command that ends when told to, with a child of its own session that does not."""
CALL, STREAM, BETWEEN, UNANSWERED = "Run it.", "Think.", "Run it, and then.", "Run it, and what then?"
"""What four sessions are told: where each is in its turn when their worker is lost."""
AFTERWARDS = "And now?"


@dataclass
class Lost:
    """Four sessions whose worker was lost, and who went on with the next one."""

    stack: Stack
    server: ModelServer
    sessions: dict[str, Running]

    def asked(self, what: str) -> list[Seen]:
        """The requests of that session's turn."""
        return [one for one in self.server.requests if _told(one) == what and AFTERWARDS not in one.text]

    def went_on(self, what: str) -> None:
        """The next worker took the next message, the strict server the history, and a thawed worker changed nothing."""
        assert self.server.violations == []
        assert self.sessions[what].count("TurnInterrupted") == 1 and self.sessions[what].count("TurnDone") == 1


@pytest.fixture(scope="module", params=["killed", "frozen"])
def lost(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Lost]:
    """One loss for the four places in a turn: the wait for the lease is the same for all."""
    how = str(request.param)
    with ModelServer(handler=_reply) as server, services.clone() as url, django_db_blocker.unblock(), point_at(url):
        stack = Stack(url, services.clean_redis(), stack_folder(f"lost-{how}"), server.environ())
        note_stack(request.node, stack)
        try:
            stack.start_web()
            stack.start_worker()
            found = Lost(stack, server, {what: Running.create() for what in (CALL, STREAM, BETWEEN, UNANSWERED)})
            _get_there(found)
            _lose_between_steps(found, stack.kill_worker if how == "killed" else stack.freeze_worker)
            with ThreadPoolExecutor(len(found.sessions)) as threads:
                list(threads.map(_until_ended, found.sessions.values()))
            stack.start_worker()
            for session in found.sessions.values():
                session.submit(AFTERWARDS)
            for session in found.sessions.values():
                session.until("TurnDone", timeout_s=WITHIN_S)
            if how == "frozen":
                stack.thaw_worker()
                stack.workers[0].wait(20)
            yield found
        finally:
            stack.stop()


def _told(request: Seen) -> str:
    """The first message of the session that asks."""
    return next(said.text for said in request.history if said.role == "user")


def _reply(request: Seen) -> ScriptedReply:
    if AFTERWARDS in request.text:
        return [say("Back again.")]
    if request.last.role == "tool":
        return [stall(unanswered=True)]
    told = _told(request)
    if told == CALL:
        return [call("shell", command=ENDLESS)]
    if told == STREAM:
        return [say("Half a thought ", delay_s=0.1), stall()]
    return [say("First."), call("shell", command=LEAVES_ONE_BEHIND)]


def _get_there(lost: Lost) -> None:
    """Every session is where it is to be, but for one that still has to get from its first step to the next."""
    for what, session in lost.sessions.items():
        session.submit(what)
    lost.sessions[CALL].until_grows("f", "g")
    lost.server.wait_for(lambda _: any(one.sent_tokens >= 3 for one in lost.asked(STREAM)), 60)
    lost.sessions[STREAM].until_saved("Half a thought")
    lost.sessions[BETWEEN].until_grows("g")
    lost.sessions[UNANSWERED].until_grows("g")
    lost.sessions[UNANSWERED].file("go").touch()
    lost.server.wait_for(lambda _: len(lost.asked(UNANSWERED)) == 2, 60)


def _lose_between_steps(lost: Lost, lose: Callable[[], None]) -> None:
    session = lost.sessions[BETWEEN]
    begin, happened = session.file("go").touch, lambda: session.count("StepDone") == 1
    with held_once(lost.stack.database, session.id, begin, happened) as lock:
        assert all(one.count("TurnInterrupted") == 0 for one in lost.sessions.values())
        lock.wait_for_another()
        lose()


def _until_ended(session: Running) -> None:
    """Wait for the end of a turn: nothing of it runs any more."""
    session.until("TurnInterrupted", timeout_s=WITHIN_S)
    stays_true(session.unchanged("f", "g"), "the files' sizes", 0.5)


@pytest.mark.rule("J1", "J2", "J3", "J6", "C4", "F")
@pytest.mark.scenario("D31")
def test_in_a_call(lost: Lost) -> None:
    session = lost.sessions[CALL]
    [terminal] = session.events("TurnInterrupted")
    settled = session.events("ToolSettled")[0]
    assert settled.data["outcome"] == "lost"
    commands = " ".join(process["command"] for process in settled.data["processes"]["ended"])
    assert "date >> f" in commands and "date >> g" in commands
    assert [terminal.data[key] for key in ("cause", "ended_by", "phase")] == ["worker_lost", "sweep", "tool"]
    assert terminal.data["processes"]["unknown"] is False and terminal.actor.kind == "system"
    lost.went_on(CALL)


@pytest.mark.rule("J2", "C3")
@pytest.mark.scenario("D31")
def test_in_a_stream(lost: Lost) -> None:
    [terminal] = lost.sessions[STREAM].events("TurnInterrupted")
    assert terminal.data["cause"] == "worker_lost" and terminal.data["steps_kept"] == 0
    assert terminal.data["cut_off"]["text"].startswith("Half a thought")
    lost.went_on(STREAM)


@pytest.mark.rule("A8", "C5", "F", "J2", "J6")
@pytest.mark.scenario("D31")
def test_between_two_steps(lost: Lost) -> None:
    """The first step is done, and the worker is lost while it asks whether it may begin the next one."""
    assert len(lost.asked(BETWEEN)) == 1, "the next step's model was never asked"
    _ended_between_steps(lost.sessions[BETWEEN])
    assert lost.sessions[BETWEEN].events("TurnInterrupted")[0].data["cut_off"]["text"] == ""
    lost.went_on(BETWEEN)


@pytest.mark.rule("C5", "F", "J2", "J6")
@pytest.mark.scenario("D31")
def test_before_the_first_word_of_the_next_step(lost: Lost) -> None:
    """The first step is done, and the worker is lost while the model has its second request and says nothing."""
    assert len(lost.asked(UNANSWERED)) == 2
    _ended_between_steps(lost.sessions[UNANSWERED])
    lost.went_on(UNANSWERED)


def _ended_between_steps(session: Running) -> None:
    """The step that was done stays as it was, and none was begun after it."""
    [terminal] = session.events("TurnInterrupted")
    assert [terminal.data[key] for key in ("cause", "ended_by", "phase")] == ["worker_lost", "sweep", "model"]
    assert terminal.data["steps_kept"] == 1 and terminal.data["processes"]["unknown"] is False
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["ok"]


@pytest.mark.rule("J2", "E8", "E9")
@pytest.mark.scenario("D31")
def test_a_stop_pressed_while_the_worker_is_frozen_is_that_persons(make_stack: MakeStack) -> None:
    """The warden hears the stop by itself and kills; the fence writes the terminal."""
    with ModelServer() as server:
        stack = make_stack(webs=1, env=server.environ())
        server.script([call("shell", command=ENDLESS)], [say("Back again.")])
        session = Running.create()
        session.submit("Run it.")
        session.until_grows("f", "g")
        stack.freeze_worker()
        outcome = session.stop(reason="stuck", queue="hold")
        stays_true(session.unchanged("f", "g"), "the files' sizes", 0.5)
        assert outcome["stopped"] is True
        terminal = session.events("TurnInterrupted")[0]
        assert (terminal.data["cause"], terminal.data["ended_by"]) == ("person", "fence")
        assert terminal.actor.name == "ana" and terminal.data["processes"]["unknown"] is False
        stack.start_worker()
        session.submit(AFTERWARDS)
        session.until("TurnDone", timeout_s=WITHIN_S)
        assert server.violations == []
        stack.thaw_worker()
        stack.workers[0].wait(20)
        assert session.count("TurnInterrupted") == 1 and session.count("TurnDone") == 1
