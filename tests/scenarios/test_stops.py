"""Stops against a real worker, real processes and a real provider connection."""

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Event
from sessions_app.ids import new_id
from sessions_app.log import read, stream
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, fail, say, stall
from tests.support.running import ENDLESS, Running
from tests.support.stack import free_port
from tests.support.waiting import stays_true, wait_until
from tests.support.world import person

pytestmark = pytest.mark.usefixtures("worker")


@pytest.mark.rule("E6", "E7", "E8", "C4", "C5")
@pytest.mark.scenario("D05", "D07")
def test_an_endless_command_and_its_escaped_child_are_dead_and_the_history_stays_acceptable(
    server: ModelServer,
) -> None:
    session = Running.create()
    for round_ in range(1, 6):
        server.script([say(f"Round {round_}."), call("shell", command=ENDLESS)])
        before = {name: session.size(name) for name in ("f", "g")}
        session.submit("Run it.")
        wait_until(lambda: all(session.size(n) > before[n] for n in ("f", "g")), "both files growing")  # noqa: B023
        outcome = session.stop(reason="seen enough", queue="hold")
        assert outcome == {"stopped": True, "joined": False, "turns": outcome["turns"], "note": None}
        stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
        terminal = session.events("TurnInterrupted")[-1]
        listed = " ".join(process["command"] for process in terminal.data["processes"]["ended"])
        assert "date >> f" in listed and "date >> g" in listed
        assert terminal.data["processes"]["surviving"] == [] and terminal.data["steps_kept"] == 1
        assert terminal.data["ended_by"] == "worker"
    server.script([say("Hello.")])
    session.submit("hello")
    session.until("TurnDone")
    results = [said for said in server.requests[-1].history if said.role == "tool"]
    assert len(results) == 5 and all("ended by a stop" in said.text for said in results)


@pytest.mark.rule("E6")
@pytest.mark.scenario("D06")
def test_a_port_held_by_a_grandchild_is_free_again(server: ModelServer) -> None:
    port = free_port()
    command = f"sh -c 'python3 -m http.server {port} --bind 127.0.0.1 & wait'"
    session = Running.create()

    def listening() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    for _ in range(2):
        server.script([call("shell", command=command)])
        session.submit("Serve.")
        wait_until(listening, "the server's port")
        session.stop(queue="hold")
        assert not listening()


@pytest.mark.rule("C4")
@pytest.mark.scenario("D08")
def test_the_model_is_told_what_a_stopped_command_had_done(server: ModelServer) -> None:
    session = Running.create()
    command = "for i in $(seq 1 100); do echo line $i | tee -a out; sleep 0.05; done"
    server.script([call("shell", command=command)], [say("I see.")])
    session.submit("Write.")
    wait_until(lambda: "line 5\n" in _text(session, "tool"), "five lines of live output")
    session.stop(queue="hold")
    session.submit("What happened?")
    session.until("TurnDone")
    told = next(said.text for said in server.requests[-1].history if said.role == "tool")
    assert "started" in told and "partial effects" in told and "line 5" in told and "line 100" not in told
    assert session.file("out").read_text().count("line") == told.count("line ")
    assert session.events("ToolSettled")[0].data["outcome"] == "interrupted"


def _text(session: Running, kind: str) -> str:
    return "".join(piece.text for piece in stream.read(session.id) if piece.kind == kind)


@pytest.mark.rule("E6", "C3", "L2")
@pytest.mark.scenario("D04", "D20")
def test_a_streaming_reply_is_cut_off_its_connection_closed_and_its_text_kept_for_review(server: ModelServer) -> None:
    session = Running.create()
    words = " ".join(f"w{n}" for n in range(2000))
    server.script([say(words, delay_s=0.02)], [say("Fresh.")])
    session.submit("Talk. " + "x" * 3000)
    server.wait_for(lambda s: s.requests[-1].sent_tokens >= 40, 60)
    session.stop(reason="too long", queue="hold")
    server.wait_for(lambda s: s.requests[0].closed_at is not None, 5)
    sent = server.requests[0].sent_tokens
    terminal = session.events("TurnInterrupted")[0]
    cut = terminal.data["cut_off"]["text"]
    assert words.startswith(cut) and len(cut.split()) >= 30 and terminal.data["phase"] == "model"
    assert terminal.data["ended_by"] == "worker"
    assert abs(terminal.data["usage"]["output_tokens"] - len(cut) / 4) < 2
    stays_true(lambda: server.requests[0].sent_tokens == sent, "the count of sent tokens", 0.3)
    session.submit("Go on.")
    session.until("TurnDone")
    assert "too long" in server.requests[-1].last.text and "w1 w2" not in server.requests[-1].text


@pytest.mark.rule("E6", "E8")
@pytest.mark.scenario("D43")
def test_a_stop_cuts_the_third_of_four_growing_waits_short_and_the_model_is_not_asked_again(
    server: ModelServer,
) -> None:
    session = Running.create()
    server.script(*([fail(429, retry_after=wait_s)] for wait_s in (2, 4, 8, 16)), [say("Too late.")])
    session.submit("Ask.")

    def next_try_s() -> float | None:
        """In how long the fourth attempt is due, while the third wait lasts."""
        phases = [each for each in read.phases(session.id) if (each["phase"], each["attempt"]) == ("retry", 4)]
        return (datetime.fromisoformat(phases[0]["next_at"]) - datetime.now(UTC)).total_seconds() if phases else None

    wait_until(lambda: (left := next_try_s()) is not None and left <= 7, "a second of the wait of eight")
    due = time.monotonic() + 8
    assert session.stop(queue="hold")["stopped"] is True
    session.until_idle()
    assert len(server.requests) == 3
    [terminal] = session.events("TurnInterrupted")
    assert (terminal.data["phase"], terminal.data["ended_by"], terminal.data["cause"]) == ("retry", "worker", "person")
    assert terminal.data["settled_ms"] < 4000, "seven seconds of the wait were left"
    assert session.count("InterruptRequested") == 1
    wait_until(lambda: time.monotonic() > due, "the time of the next try")
    assert len(server.requests) == 3 and session.count("TurnStarted") == 1


ENDS = ("TurnDone", "TurnInterrupted", "TurnFailed")
RACES, ENDLESS_RUN, SHORT_RUN = range(200), 200, 201


@pytest.mark.rule("E3", "B6")
@pytest.mark.scenario("D14")
def test_a_stop_around_completion_has_one_outcome_two_hundred_times(server: ModelServer) -> None:
    """The stop comes 0 to 50 ms after the model was asked; its reply takes about 25.

    Whoever comes first, the stop's answer and the turn's only end agree. How often each side wins is the machine's, and
    printed; beside the 200 races there is one run that the stop must win and one that it must lose. Ten sessions share
    the runs: each turn sends its session's whole history, of 200 turns that would be most of the work.
    """
    asked = {number: threading.Event() for number in (*RACES, ENDLESS_RUN, SHORT_RUN)}

    def reply(request: Seen) -> ScriptedReply:
        number = int(re.findall(r"run (\d+)", request.last.text)[-1])
        asked[number].set()
        return [stall()] if number == ENDLESS_RUN else [say("ok", delay_s=0.0 if number == SHORT_RUN else 0.02)]

    def race(session: Running, number: int, earlier: list[Event]) -> list[Event]:
        """One run and its stop; the ends of all the session's turns so far."""
        session.submit(f"run {number}")
        assert asked[number].wait(60), f"run {number} did not ask the model"
        if number == SHORT_RUN:
            session.until_idle()
        threading.Event().wait(number // 8 * 0.002)
        outcome = session.stop(queue="run")
        session.until_idle()
        ends = session.events(*ENDS)
        assert len(ends) == len(earlier) + 1 and ends[-1].type != "TurnFailed"
        assert outcome["stopped"] == (ends[-1].type == "TurnInterrupted")
        assert outcome["note"] == (None if outcome["stopped"] else "idle")
        return ends

    def races(first: int) -> dict[int, str]:
        """How each run of one session ended, by its number."""
        session, ends = Running.create(), list[Event]()
        numbers = [number for number in asked if number % 10 == first]
        for number in numbers:
            ends = race(session, number, ends)
        assert session.count("TurnStarted") == len(numbers)
        return {number: end.type for number, end in zip(numbers, ends, strict=True)}

    server.handler = reply
    with ThreadPoolExecutor(4) as threads:
        ended = {number: end for each in threads.map(races, range(10)) for number, end in each.items()}
    assert ended.keys() == asked.keys()
    assert (ended[ENDLESS_RUN], ended[SHORT_RUN]) == ("TurnInterrupted", "TurnDone")
    print("the stop won", sum(ended[number] == "TurnInterrupted" for number in RACES), "of", len(RACES), "races")


@pytest.mark.rule("E3", "B6")
@pytest.mark.scenario("D14")
def test_a_stop_around_a_failure_keeps_the_error_or_stops_it(server: ModelServer) -> None:
    session = Running.create()
    server.handler = lambda _: [fail(400, "scripted refusal")]
    for number in range(31):
        session.submit(f"run {number}")
        session.until("TurnStarted", number + 1)
        if number == 30:  # beside the races, one that the stop must lose
            session.until_idle()
        threading.Event().wait((number % 15) * 0.003)
        outcome = session.stop(queue="clear")
        session.until_idle()
        end = session.events("TurnDone", "TurnInterrupted", "TurnFailed")[-1]
        assert outcome["stopped"] == (end.type == "TurnInterrupted")
        if end.type == "TurnFailed":
            assert "scripted refusal" in end.data["error"]["detail"]
    assert session.count("TurnFailed") > 0 and session.count("TurnDone") == 0


@pytest.mark.rule("E5", "E10")
@pytest.mark.scenario("D12")
@pytest.mark.parametrize(("gap_s", "rounds"), [(0, 20), (0.05, 20), (0.3, 20), (3, 3)])
def test_what_is_sent_right_after_a_stop_runs_and_is_answered(server: ModelServer, gap_s: float, rounds: int) -> None:
    session = Running.create()
    server.handler = lambda request: (
        [say("done instead")] if "instead" in request.last.text else [call("shell", command="sleep 60")]
    )
    for number in range(rounds):
        session.submit(f"work {number}")
        session.until("ToolStarted", number + 1)
        receipt = control.interrupt(session.owner, session.id, new_id(), queue="hold")
        threading.Event().wait(gap_s)
        session.submit(f"do {number} instead")
        assert control.wait_stopped(session.id, receipt, 10)["stopped"] is True
        session.until("TurnDone", number + 1)
        session.until_idle()
    assert session.count("TurnInterrupted") == rounds and session.count("TurnStarted") == 2 * rounds


@pytest.mark.rule("E10", "E5", "B6")
@pytest.mark.scenario("D12")
def test_after_a_hundred_stops_the_session_runs_what_is_sent_next_also_beside_what_is_held(server: ModelServer) -> None:
    session = Running.create()
    server.handler = lambda request: [say("Still here.")] if "hundred and first" in request.last.text else [stall()]
    for number in range(100):
        session.submit(f"work {number}")
        server.wait_for(lambda s: len(s.requests) > number, 60)  # noqa: B023
        if number == 0:
            session.submit("set aside")
        assert session.stop(queue="hold")["stopped"] is True
    assert session.count("TurnInterrupted") == session.count("TurnStarted") == 100
    session.submit("the hundred and first")
    session.until("TurnDone")
    session.until_idle()
    assert session.events("StepDone")[0].data["text"] == "Still here." and len(server.requests) == 101
    assert session.count("InputHeld") == 1 and "set aside" not in server.requests[-1].text


@pytest.mark.rule("E6", "E8")
def test_forty_streams_stopped_at_once_are_each_stopped_and_every_connection_is_closed(server: ModelServer) -> None:
    """Who ends each turn is a matter of 4 s, and so of the machine: where the worker is later, the fence does."""
    sessions = [Running.create() for _ in range(40)]
    server.handler = lambda _: [say("I begin"), stall()]
    for session in sessions:
        session.submit("Talk.")
    server.wait_for(lambda s: len(s.requests) == 40 and all(seen.sent_tokens == 2 for seen in s.requests), 60)
    receipts = [control.interrupt(session.owner, session.id, new_id()) for session in sessions]
    for session, receipt in zip(sessions, receipts, strict=True):
        assert control.wait_stopped(session.id, receipt, 30)["stopped"] is True
    server.wait_for(lambda s: all(seen.closed_at for seen in s.requests))
    assert [session.count("TurnInterrupted") for session in sessions] == [1] * 40


@pytest.mark.rule("E3", "E7")
@pytest.mark.scenario("D13")
def test_six_presses_and_a_second_owner_make_one_stop_of_a_tool_that_ignores_being_asked(server: ModelServer) -> None:
    session = Running.create()
    ben = person("ben", "phone")
    control.set_member(session.owner, session.id, new_id(), person="ben", role="owner")
    server.script([call("shell", command="trap '' TERM; echo ready; while true; do sleep 0.1; done")])
    session.submit("Ignore me.")
    wait_until(lambda: "ready" in _text(session, "tool"), "the tool")
    presses = [control.interrupt(session.owner, session.id, new_id(), queue="hold") for _ in range(6)]
    presses.append(control.interrupt(ben, session.id, new_id(), queue="clear"))
    assert [press["joined"] for press in presses] == [False, *[True] * 6]
    outcomes = [control.wait_stopped(session.id, press, 10) for press in presses]
    assert [outcome["stopped"] for outcome in outcomes] == [True, *[False] * 6]
    assert session.count("InterruptRequested") == session.count("TurnInterrupted") == 1
    terminal = session.events("TurnInterrupted")[0]
    assert terminal.actor.name == "ana" and terminal.data["processes"]["surviving"] == []


@pytest.mark.rule("E4")
def test_a_deadline_claims_nothing_and_the_stop_goes_on(server: ModelServer) -> None:
    session = Running.create()
    server.script([call("shell", command="trap '' TERM; echo ready; while true; do sleep 0.1; done")])
    session.submit("Ignore me.")
    wait_until(lambda: "ready" in _text(session, "tool"), "the tool")
    with pytest.raises(Refused) as refused:
        session.stop(wait_s=0.05, queue="hold")
    assert refused.value.code == "deadline" and refused.value.data["turns"]
    assert session.until("TurnInterrupted").data["cause"] == "person"


@pytest.mark.rule("J5", "C4")
@pytest.mark.scenario("D09")
def test_with_nobody_watching_a_turn_runs_to_its_end(server: ModelServer) -> None:
    session = Running.create()
    server.script(
        [call("shell", command="echo one")], [call("shell", command="echo two")], [say("Both done.")], [say("Yes.")]
    )
    session.submit("Two calls.")
    session.until("TurnDone")
    assert [event.data["output"].strip() for event in session.events("ToolSettled")] == ["one", "two"]
    session.submit("Are they?")
    session.until("TurnDone", 2)
    assert session.count("TurnInterrupted") == 0
