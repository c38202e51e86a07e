"""A worker killed or frozen at each phase of a turn: nothing keeps running, the turn ends, the session goes on."""

import pytest

from tests.conftest import MakeStack
from tests.support.frost import frost
from tests.support.locks import held_once
from tests.support.model_server import ModelServer, call, say, stall
from tests.support.running import ENDLESS, Running
from tests.support.stack import Stack
from tests.support.waiting import stays_true, wait_until
from tests.worker.wardens import MODES, alive, new_token

WITHIN_S = 120
LEAVES_ONE_BEHIND = (
    "(setsid sh -c 'while true; do date >> g; sleep 0.1; done' &) ; until [ -e go ]; do sleep 0.05; done"
)
"""A command that ends when told to, with a child of its own session that does not."""


@pytest.mark.rule("J1", "J2", "J3", "J6", "C4", "F")
@pytest.mark.scenario("D31")
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_in_a_call(make_stack: MakeStack, how: str) -> None:
    with ModelServer() as server:
        stack = make_stack(webs=1, env=server.environ())
        server.script([call("shell", command=ENDLESS)], [say("Back again.")])
        session = Running.create()
        session.submit("Run it.")
        session.until_grows("f", "g")
        _lose(stack, how)
        terminal = session.until("TurnInterrupted", timeout_s=WITHIN_S)
        stays_true(session.unchanged("f", "g"), "the files' sizes", 0.5)
        settled = session.events("ToolSettled")[0]
        assert settled.data["outcome"] == "lost"
        commands = " ".join(process["command"] for process in settled.data["processes"]["ended"])
        assert "date >> f" in commands and "date >> g" in commands
        assert [terminal.data[key] for key in ("cause", "ended_by", "phase")] == ["worker_lost", "sweep", "tool"]
        assert terminal.data["processes"]["unknown"] is False and terminal.actor.kind == "system"
        _goes_on(stack, how, session, server)


@pytest.mark.rule("J2", "C3")
@pytest.mark.scenario("D31")
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_in_a_stream(make_stack: MakeStack, how: str) -> None:
    with ModelServer() as server:
        stack = make_stack(webs=1, env=server.environ())
        server.script([say("Half a thought ", delay_s=0.1), stall()], [say("Back again.")])
        session = Running.create()
        session.submit("Think.")
        server.wait_for(lambda s: bool(s.requests) and s.requests[0].sent_tokens >= 3, 60)
        session.until_saved("Half a thought")
        _lose(stack, how)
        terminal = session.until("TurnInterrupted", timeout_s=WITHIN_S)
        assert terminal.data["cause"] == "worker_lost" and terminal.data["steps_kept"] == 0
        assert terminal.data["cut_off"]["text"].startswith("Half a thought")
        _goes_on(stack, how, session, server)


@pytest.mark.rule("A8", "C5", "F", "J2", "J6")
@pytest.mark.scenario("D31")
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_between_two_steps(make_stack: MakeStack, how: str) -> None:
    """The first step is done, and the worker is lost while it asks whether it may begin the next one."""
    with ModelServer() as server:
        stack = make_stack(webs=1, env=server.environ())
        server.script([say("First."), call("shell", command=LEAVES_ONE_BEHIND)], [say("Back again.")])
        session = Running.create()
        session.submit("Run it.")
        session.until_grows("g")
        begin, happened = session.file("go").touch, lambda: session.count("StepDone") == 1
        with held_once(stack.database, session.id, begin, happened) as lock:
            assert session.count("TurnInterrupted") == 0
            lock.wait_for_another()
            _lose(stack, how)
        terminal = session.until("TurnInterrupted", timeout_s=WITHIN_S)
        assert len(server.requests) == 1, "the next step's model was never asked"
        _ended_between_steps(session)
        assert terminal.data["cut_off"]["text"] == ""
        _goes_on(stack, how, session, server)


@pytest.mark.rule("C5", "F", "J2", "J6")
@pytest.mark.scenario("D31")
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_before_the_first_word_of_the_next_step(make_stack: MakeStack, how: str) -> None:
    """The first step is done, and the worker is lost while the model has its second request and says nothing."""
    with ModelServer() as server:
        stack = make_stack(webs=1, env=server.environ())
        server.script([say("First."), call("shell", command=LEAVES_ONE_BEHIND)], [stall(unanswered=True)])
        session = Running.create()
        session.submit("Run it.")
        session.until_grows("g")
        session.file("go").touch()
        server.wait_for(lambda s: len(s.requests) == 2, 60)
        _lose(stack, how)
        session.until("TurnInterrupted", timeout_s=WITHIN_S)
        _ended_between_steps(session)
        server.script([say("Back again.")])
        _goes_on(stack, how, session, server)


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
        _goes_on(stack, "frozen", session, server)


@pytest.mark.rule("E7", "J6", "F")
@pytest.mark.parametrize("isolation", MODES)
def test_the_later_end_of_what_outlives_the_kill_and_its_worker_is_told(
    make_stack: MakeStack, server: ModelServer, isolation: str
) -> None:
    stack = make_stack(webs=1, env={**server.environ(), "STEERWEB_ISOLATION": isolation})
    token = new_token()
    server.script([call("shell", command=f"sleep {token} & wait")])
    session = Running.create()
    session.submit("Run it.")
    wait_until(lambda: alive(token), "the sleep")
    [pid] = alive(token)
    with frost(pid) as thaw:
        stack.kill_worker()
        terminal = session.until("TurnInterrupted", timeout_s=WITHIN_S)
        named = terminal.data["processes"]["surviving"]
        assert [each["pid"] for each in named] == [pid], "once, whoever has seen it"
        assert session.count("ProcessesEnded") == 0
        thaw()
        ended = session.until("ProcessesEnded", timeout_s=WITHIN_S)
    assert (ended.turn, ended.data["processes"]["ended"]) == (terminal.turn, named)
    assert ended.data["call"] == session.events("ToolSettled")[0].data["call"]
    assert alive(token) == []


def _lose(stack: Stack, how: str) -> None:
    if how == "killed":
        stack.kill_worker()
    else:
        stack.freeze_worker()


def _ended_between_steps(session: Running) -> None:
    """The step that was done stays as it was, none was begun after it, and nothing of its call runs."""
    terminal = session.events("TurnInterrupted")[0]
    assert [terminal.data[key] for key in ("cause", "ended_by", "phase")] == ["worker_lost", "sweep", "model"]
    assert terminal.data["steps_kept"] == 1 and terminal.data["processes"]["unknown"] is False
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["ok"]
    stays_true(session.unchanged("g"), "the file's size", 0.5)


def _goes_on(stack: Stack, how: str, session: Running, server: ModelServer) -> None:
    """A fresh worker takes the next message, the strict server takes the history, and a thawed one changes nothing."""
    stack.start_worker()
    session.submit("And now?")
    session.until("TurnDone", timeout_s=WITHIN_S)
    assert server.violations == []
    if how == "frozen":
        stack.thaw_worker()
        stack.workers[0].wait(20)
    assert session.count("TurnInterrupted") == 1 and session.count("TurnDone") == 1
