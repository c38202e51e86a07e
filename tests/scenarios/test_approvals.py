"""An agent that asks: a real worker waits at the gate, and everything that can end the wait does."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Event
from sessions_app.ids import new_id
from tests.support.model_server import ModelServer, call, say
from tests.support.running import Running
from tests.support.waiting import stays_true, wait_until
from tests.support.world import person

pytestmark = pytest.mark.usefixtures("worker")


def asking(server: ModelServer, *commands: str) -> Running:
    """A session whose agent has asked whether the first of these commands may run."""
    server.script([call("shell", command=command) for command in commands], [say("Done.")])
    session = Running.create(mode="ask")
    session.submit("Do it.")
    session.until("GateOpened")
    return session


def answer(session: Running, decision: str, gate: Event, **fields: object) -> None:
    control.resolve(session.owner, session.id, new_id(), gate.data["gate"], decision=decision, **fields)  # type: ignore[arg-type]


def told(server: ModelServer) -> list[str]:
    """What the model was told of its calls."""
    return [said.text for said in server.requests[-1].history if said.role == "tool"]


@pytest.mark.rule("H1", "I1")
def test_nothing_runs_before_a_person_allows_it_and_then_it_runs_once(server: ModelServer) -> None:
    session = asking(server, "echo ran >> log")
    stays_true(lambda: not session.file("log").exists(), "the command not running", 1)
    answer(session, "allow", session.events("GateOpened")[0])
    session.until("TurnDone")
    assert session.file("log").read_text() == "ran\n"
    assert session.count("ToolStarted") == 1


@pytest.mark.rule("H3", "C4")
def test_a_denied_call_does_not_run_and_the_model_goes_on_knowing_why(server: ModelServer) -> None:
    session = asking(server, "touch made")
    answer(session, "deny", session.events("GateOpened")[0], message="use the other folder")
    session.until("TurnDone")
    assert not session.file("made").exists()
    assert "did not allow" in told(server)[0] and "use the other folder" in told(server)[0]


@pytest.mark.rule("H3")
def test_a_rule_lets_the_next_such_call_run_without_asking(server: ModelServer) -> None:
    session = asking(server, "mkdir a", "mkdir b", "rmdir a")
    rule = {"kind": "command", "value": "mkdir a"}
    answer(session, "allow_rule", session.events("GateOpened")[0], rule=rule)
    second = session.until("GateOpened", 2)
    assert session.file("a").is_dir() and second.data["offers"][0]["value"] == "mkdir b"
    answer(session, "allow", second)
    answer(session, "allow", session.until("GateOpened", 3))
    session.until("TurnDone")
    assert not session.file("a").exists() and session.file("b").is_dir()
    server.script([call("shell", command="mkdir a")], [say("Again.")])
    session.submit("Once more.")
    session.until("TurnDone", 2)
    assert session.count("GateOpened") == 3 and session.file("a").is_dir()


@pytest.mark.rule("E6", "H2")
def test_a_stop_at_a_gate_ends_the_turn_at_once(server: ModelServer) -> None:
    session = asking(server, "touch made")
    outcome = session.stop(reason="no", queue="hold")
    assert outcome["stopped"] is True
    (terminal,) = session.events("TurnInterrupted")
    assert (terminal.data["phase"], terminal.data["ended_by"]) == ("gate", "worker")
    assert terminal.data["gates"] == [session.events("GateOpened")[0].data["gate"]]
    assert session.events("ToolSettled")[0].data["outcome"] == "not_run"
    assert not session.file("made").exists()


@pytest.mark.rule("D11")
def test_an_urgent_steer_withdraws_the_question_and_the_model_reads_it_next(server: ModelServer) -> None:
    session = asking(server, "touch made", "touch more")
    session.steer("first read the README", urgent=True)
    session.until("TurnDone")
    assert "first read the README" in server.requests[-1].text
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["not_run", "not_run"]
    assert not session.file("made").exists()


@pytest.mark.rule("I1")
def test_in_plan_mode_the_model_is_given_only_what_reads(server: ModelServer) -> None:
    session = asking(server, "touch made")
    control.set_mode(session.owner, session.id, new_id(), mode="plan")
    session.until("TurnDone")
    assert "only read and plan" in told(server)[0]
    offered = [tool["function"]["name"] for tool in server.requests[-1].body["tools"]]
    assert offered == ["read_file", "search", "delegate"]  # a delegate only reads then, too
    control.set_mode(session.owner, session.id, new_id(), mode="auto")
    server.script([call("shell", command="touch made")], [say("Made.")])
    session.submit("Now.")
    session.until("TurnDone", 2)
    assert session.file("made").exists()


@pytest.mark.rule("H1")
def test_of_many_answers_at_once_one_counts(server: ModelServer) -> None:
    session = asking(server, "echo ran >> log")
    gate = session.events("GateOpened")[0].data["gate"]
    owners = [session.owner]
    for name in ("ben", "kim", "zoe"):
        owners.append(person(name))
        control.set_member(session.owner, session.id, new_id(), person=name, role="owner")

    def press(number: int) -> str:
        decision = "allow" if number % 2 else "deny"
        try:
            control.resolve(owners[number % 4], session.id, new_id(), gate, decision=decision)  # type: ignore[arg-type]
        except Refused as refused:
            return refused.code
        return decision

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(press, range(16)))
    session.until("TurnDone")
    won = [outcome for outcome in outcomes if outcome != "gate_closed"]
    assert len(won) == 1 and outcomes.count("gate_closed") == 15
    wait_until(lambda: session.file("log").exists() == (won == ["allow"]), "what was decided")
