"""Budgets over a real worker: steps, time and repetition end a turn, and what waited stays (B7)."""

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from tests.support.model_server import ModelServer, call, say
from tests.support.running import ENDLESS, Running
from tests.support.waiting import stays_true

pytestmark = [pytest.mark.usefixtures("worker"), pytest.mark.rule("B7")]


def limited(**limits: float) -> Running:
    session = Running.create()
    control.change_loop(session.owner, session.id, new_id(), limits=limits)
    return session


def test_a_turn_ends_when_its_steps_are_used_up_and_what_waits_is_held(server: ModelServer) -> None:
    session = limited(steps=2)
    server.handler = lambda request: [call("shell", command=f"echo {request.number}")]
    session.submit("Go on for ever.")
    waiting = session.submit("And then this.")
    terminal = session.until("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["which"], terminal.data["steps_kept"]) == ("budget", "steps", 2)
    assert terminal.data["inputs"]["held"] == [waiting]
    session.until_idle()
    assert len(server.requests) == 2


@pytest.mark.rule("E7")
def test_a_command_that_outlasts_the_turn_s_time_is_ended_with_all_its_processes(server: ModelServer) -> None:
    session = limited(wall_s=1.5)
    server.script([call("shell", command=ENDLESS)])
    session.submit("Run it.")
    terminal = session.until("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["which"], terminal.data["phase"]) == ("budget", "wall_s", "tool")
    assert session.events("ToolSettled")[0].data["outcome"] == "interrupted"
    stays_true(session.unchanged("f", "g"), "the files' sizes", 0.5)


def test_a_wait_for_a_person_is_no_work(server: ModelServer) -> None:
    server.script([call("shell", command="touch made")], [say("Done.")])
    session = limited(wall_s=3)
    control.set_mode(session.owner, session.id, new_id(), mode="ask")
    session.submit("Make it.")
    gate = session.until("GateOpened")
    stays_true(lambda: session.count("TurnInterrupted") == 0, "the turn waiting", 4)
    control.resolve(session.owner, session.id, new_id(), gate.data["gate"], decision="allow")
    session.until("TurnDone")


def test_the_same_call_three_times_in_a_row_fails_the_turn(server: ModelServer) -> None:
    session = Running.create()
    server.handler = lambda _: [call("shell", command="echo again")]
    session.submit("Loop.")
    failed = session.until("TurnFailed")
    assert failed.data["error"]["code"] == "repeated_call"
    assert session.count("ToolStarted") == 2
