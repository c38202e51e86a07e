"""Failures that users of other products reported, re-enacted: approvals, queues, sub-agents, and who did what."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import db, read
from sessions_app.models import Person
from sessions_app.people.principals import Principal
from sessions_app.people.tokens import create_token, principal_from_token
from sessions_app.worker.models.backoff import ATTEMPTS
from tests.support.model_server import ModelServer, ScriptedReply, Seen, call, fail, say, stall
from tests.support.running import MODEL, Running
from tests.support.stack import Stack
from tests.support.waiting import stays_true, wait_until
from tests.support.world import person

pytestmark = pytest.mark.usefixtures("worker")


def told(server: ModelServer, text: str) -> int:
    """In how many pieces of the last request's history a text stands."""
    return sum(text in said.text for said in server.requests[-1].history if said.role == "user")


@pytest.mark.rule("E1", "E3", "E12")
@pytest.mark.scenario("D02")
def test_a_stop_of_the_wrong_session_says_that_nothing_ran_and_stops_nothing(server: ModelServer) -> None:
    running, idle = Running.create(), Running.create()
    server.script([say("Long"), stall()])
    running.submit("Go.")
    running.until_saved("Long")
    waiting = running.submit("And then this.")
    outcome = idle.stop()
    assert (outcome["stopped"], outcome["note"], outcome["turns"]) == (False, "idle", [])
    assert idle.events("InterruptRequested", "TurnInterrupted") == []
    assert running.stop(queue="hold")["stopped"]
    assert running.events("TurnInterrupted")[0].data["inputs"]["held"] == [waiting]
    stays_true(lambda: running.count("TurnStarted") == 1, "the paused message not running", 1)


@pytest.mark.rule("E12", "B4", "B5")
@pytest.mark.scenario("D10")
def test_a_waiting_message_sent_now_ends_the_turn_and_is_read_once(server: ModelServer) -> None:
    session = Running.create()
    person("kim")
    control.set_member(session.owner, session.id, new_id(), person="kim", role="observer")
    server.script([say("Long"), stall()], [say("On staging, then.")])
    session.submit("Deploy it.")
    session.until_saved("Long")
    item = session.submit("use the staging database")

    def waits() -> list[list[str]]:
        """What waits, as an owner and as an observer see it."""
        seen = (read.snapshot(session.id, audience)["state"]["loops"].values() for audience in ("member", "observer"))
        return [[entry["id"] for (loop,) in [loops] for entry in loop["inbox"]] for loops in seen]

    with pytest.raises(Refused) as refused:
        session.stop(then={"input": item}, reason="x" * 5000)
    assert refused.value.code == "too_large"
    assert waits() == [[item], [item]], "a refused stop leaves it where it was"
    session.stop(then={"input": item}, queue="hold")
    session.until("TurnDone")
    assert told(server, "use the staging database") == 1
    assert session.events("TurnStarted")[1].data["input"] == item
    assert session.count("InputCancelled") == 0
    assert waits() == [[], []]
    frames = map(orjson.loads, read.events(session.id, audience="observer"))
    fates = [frame["type"] for frame in frames if frame["data"].get("input") == item]
    assert fates == ["InputQueued", "InputChanged", "TurnStarted"], (
        "one message for an observer, too: moved, then taken"
    )


def primary(session: Running) -> Any:
    (loop,) = read.snapshot(session.id)["state"]["loops"].values()
    return loop


@pytest.mark.rule("B9", "F")
@pytest.mark.scenario("D11")
def test_a_message_that_could_not_be_processed_stays_out_of_the_next_ones(server: ModelServer) -> None:
    session = Running.create()
    server.script([fail(400, "no such thing")], [say("B it is.")], [say("C it is.")], [say("A it is.")])
    item = session.submit("message A")
    session.until("TurnFailed")
    for number, text in enumerate(("message B", "message C"), 1):
        session.submit(text)
        session.until("TurnDone", number)
        assert told(server, text) == 1
        assert "message A" not in server.requests[-1].text
    control.retry_input(session.owner, session.id, new_id(), item)
    session.until("TurnDone", 3)
    assert told(server, "message A") == 1
    with pytest.raises(Refused) as refused:
        control.retry_input(session.owner, session.id, new_id(), item)
    assert refused.value.code == "input_not_found", "once"


@pytest.mark.rule("B9", "F", "B3")
@pytest.mark.scenario("D11")
def test_a_queued_message_that_every_try_refused_leaves_no_trace_in_those_behind_it(server: ModelServer) -> None:
    session = Running.create()
    server.script(
        [call("shell", command="until [ -e go ]; do sleep 0.05; done")], [say("It is there.")],
        *([fail(500, retry_after=0)] for _ in range(ATTEMPTS)), [say("B it is.")], [say("C it is.")],
    )  # fmt: skip
    session.submit("Wait for it.")
    session.until("ToolStarted")
    item = session.submit("message A")
    session.file("go").touch()
    failed = session.until("TurnFailed")
    assert len(server.requests) == 2 + ATTEMPTS and told(server, "message A") == 1
    assert session.events("TurnStarted")[-1].data["input"] == item and failed.data["steps"] == 0
    session.until_idle()
    for number, text in enumerate(("message B", "message C"), 2):
        session.submit(text)
        session.until("TurnDone", number)
        assert told(server, text) == 1
        assert "message A" not in server.requests[-1].text
    assert len(server.requests) == 4 + ATTEMPTS and session.count("TurnStarted") == 4


@pytest.mark.rule("B9")
@pytest.mark.scenario("D11")
def test_a_message_that_could_not_be_processed_is_delivered_once_when_it_is_tried_again(server: ModelServer) -> None:
    session = Running.create()
    server.script([fail(400, "no such thing")], [say("A it is.")])
    item = session.submit("message A")
    session.until("TurnFailed")
    control.retry_input(session.owner, session.id, new_id(), item)
    session.until("TurnDone")
    assert told(server, "message A") == 1


@pytest.mark.rule("E6", "H2", "E3")
@pytest.mark.scenario("D39")
@pytest.mark.parametrize("phase", ["model", "tool", "gate", "retry", "delegate"])
def test_a_stop_works_whatever_the_turn_is_doing(server: ModelServer, phase: str) -> None:
    replies: dict[str, ScriptedReply] = {
        "model": [say("Long"), stall()],
        "tool": [call("shell", command="sleep 600")],
        "gate": [call("shell", command="sleep 600")],
        "retry": [fail(503, retry_after=60)],
        "delegate": [call("delegate", task="wait")],
    }
    server.script(replies[phase], [say("Long"), stall()])
    session = Running.create(mode="ask" if phase == "gate" else "auto")
    session.submit("Go.")
    wait_until(lambda: phase in [each["phase"] for each in read.phases(session.id)], phase, 60)
    assert session.stop()["stopped"]
    ends = session.events("TurnInterrupted")
    assert ends[-1].data["phase"] == phase
    assert {end.data["ended_by"] for end in ends} == {"worker"}, "it did not have to be fenced"
    gates = {event.data["reason"] for event in session.events("GateClosed")}
    assert gates == ({"stop"} if phase == "gate" else set())


@pytest.mark.rule("H1", "L1")
@pytest.mark.scenario("D40")
def test_a_question_is_there_for_whoever_connects_later_and_is_answered_once(server: ModelServer) -> None:
    session = Running.create(mode="ask")
    server.script([call("shell", command="echo ran >> log")], [say("Done.")])
    session.submit("Do it.")
    opened = session.until("GateOpened")
    for _ in range(3):  # each a fresh page: the snapshot alone
        turn = primary(session)["turn"]
        assert [entry["gate"] for entry in turn["calls"] if entry["answer"] == "open"] == [opened.data["gate"]]
        assert [each["phase"] for each in read.phases(session.id)] == ["gate"]
    control.resolve(session.owner, session.id, new_id(), opened.data["gate"], decision="allow")
    session.until("TurnDone")
    assert session.file("log").read_text() == "ran\n"


@pytest.mark.rule("H1", "A9")
@pytest.mark.scenario("D41")
def test_of_two_answers_the_first_counts_fifty_times(server: ModelServer) -> None:
    session = Running.create(mode="ask")
    other = person("ben")
    control.set_member(session.owner, session.id, new_id(), person="ben", role="owner")
    rounds = 50
    for number in range(rounds):
        server.script([call("shell", command=f"echo {number} >> log")])
    server.script([say("Done.")])
    session.submit("Do it fifty times.")
    allowed = []
    for number in range(rounds):
        gate = session.until("GateOpened", number + 1).data["gate"]
        start = threading.Barrier(3)

        def press(who: Principal, decision: str, gate: str = gate, start: threading.Barrier = start) -> str:
            start.wait(10)
            try:
                control.resolve(who, session.id, new_id(), gate, decision=decision)  # type: ignore[arg-type]
            except Refused as refused:
                return f"{refused.code}: {refused.data['by']} {refused.data['decision']}"
            return decision

        with ThreadPoolExecutor(3) as pool:  # ana clicks twice
            pressed = [
                pool.submit(press, who, decision)
                for who, decision in ((session.owner, "allow"), (session.owner, "allow"), (other, "deny"))
            ]
            outcomes = sorted(each.result() for each in pressed)
        late = "gate_closed: ana allow" if "allow" in outcomes else "gate_closed: ben deny"
        assert outcomes == sorted(["allow" if "allow" in outcomes else "deny", late, late])
        allowed += [str(number)] if "allow" in outcomes else []
    session.until("TurnDone")
    assert session.file("log").read_text().split() == allowed if allowed else not session.file("log").exists()
    with db.cursor("read") as cur:
        row = cur.execute(
            "SELECT count(*) FROM audit WHERE session = %s AND outcome = 'gate_closed'", (session.id,)
        ).fetchone()
    assert row == (2 * rounds,), "each late answer is in the audit"


@pytest.mark.rule("H2")
@pytest.mark.scenario("D42")
def test_a_question_of_a_stopped_turn_is_gone_and_a_late_answer_is_told_calmly(
    server: ModelServer, worker: Stack
) -> None:
    session, ben = Running.create(mode="ask"), person("ben")
    control.set_member(session.owner, session.id, new_id(), person="ben", role="owner")
    server.script([call("shell", command="touch made")], [say("Here.")])
    session.submit("Do it.")
    gate = session.until("GateOpened").data["gate"]

    def allow() -> Refused:
        with pytest.raises(Refused) as refused:
            control.resolve(ben, session.id, new_id(), gate, decision="allow")
        assert refused.value.code == "gate_closed"
        return refused.value

    worker.freeze_worker()  # so that the stop is asked for, and the turn has not ended
    try:
        receipt = control.interrupt(session.owner, session.id, new_id())
        assert "being stopped" in allow().detail
        assert session.count("TurnInterrupted") == 0
        session.submit("Are you there?", ben)
    finally:
        worker.thaw_worker()
    assert control.wait_stopped(session.id, receipt, 30)["stopped"]
    assert allow().data["reason"] == "stop"
    [closed], [end] = session.events("GateClosed"), session.events("TurnInterrupted")
    assert (closed.data["gate"], closed.data["reason"], closed.turn) == (gate, "stop", end.turn)
    assert (end.actor.name, end.data["gates"]) == ("ana", [gate])
    session.until("TurnDone")
    assert not session.file("made").exists() and session.count("ToolStarted") == 0


@pytest.mark.rule("G3", "E1", "E7")
@pytest.mark.scenario("D44")
def test_sub_agents_end_with_their_parent_and_do_not_finish_their_work(server: ModelServer) -> None:
    def replies(seen: Seen) -> ScriptedReply:
        if seen.last.text == "both":
            return [call("delegate", task="left"), call("delegate", task="right")]
        return [call("shell", command=f"touch {seen.last.text}; sleep 2; echo finished >> file")]

    server.handler = replies
    session = Running.create()
    session.submit("both")
    wait_until(lambda: session.file("left").exists() and session.file("right").exists(), "both at work")
    outcome = session.stop()
    assert len(outcome["turns"]) == 3
    assert session.count("InterruptRequested") == 1
    assert session.events("InterruptRequested")[0].data["turns"] == outcome["turns"]
    stays_true(lambda: not session.file("file").exists(), "the file not written", 2.5)
    loops = read.snapshot(session.id)["state"]["loops"]
    assert [loop["status"] for loop in loops.values()] == ["idle"], "no running node"
    *children, parent = session.events("TurnInterrupted")  # children first
    assert [end.turn for end in children] != [] and {end.turn for end in (*children, parent)} == set(outcome["turns"])
    for end in children:
        assert end.loop != parent.loop and end.data["request"] == parent.data["request"]
        assert [end.data[key] for key in ("cause", "ended_by", "phase")] == ["person", "worker", "tool"]
        assert "sleep 2" in " ".join(each["command"] for each in end.data["processes"]["ended"])
        assert end.data["processes"]["surviving"] == []
    calls = [event for event in session.events("ToolSettled") if event.loop == parent.loop]
    assert [event.data["outcome"] for event in calls] == ["interrupted", "interrupted"]


@pytest.mark.rule("A5", "E8", "B7", "C3")
@pytest.mark.scenario("D50")
def test_the_history_tells_a_person_a_program_a_limit_and_an_administrator_apart(server: ModelServer) -> None:
    owner = person("ana")
    token = principal_from_token(create_token(Person.objects.get(username="ana"), "nightly"))
    assert token is not None
    boss, _ = Person.objects.get_or_create(username="boss", defaults={"is_superuser": True})
    boss.is_superuser = True
    boss.save()
    seen: dict[str, tuple[str, str, str]] = {}
    notes: dict[str, str] = {}
    for way, who in {"person": owner, "token": token, "budget": None, "admin": person("boss")}.items():
        session = Running.create(model=MODEL)
        server.script([call("shell", command="sleep 600")], [say("Yes.")])
        if who is None:
            control.change_loop(owner, session.id, new_id(), limits={"wall_s": 0.5})
        session.submit("Go.")
        session.until("ToolStarted")
        if who is not None:
            assert session.stop(who)["stopped"]
        ended = session.until("TurnInterrupted")
        seen[way] = (ended.data["cause"], ended.actor.kind, ended.actor.name)
        assert ended.data["phase"] == "tool"
        assert (ended.data.get("request") is None) == (who is None)
        if who is None:
            control.change_loop(owner, session.id, new_id(), limits={"wall_s": 600})
        session.submit("What happened?")
        session.until("TurnDone")
        notes[way] = next(line for line in server.requests[-1].text.splitlines() if "was stopped" in line)
    assert seen == {
        "person": ("person", "person", "ana"),
        "token": ("token", "token", seen["token"][2]),
        "budget": ("budget", "system", seen["budget"][2]),
        "admin": ("admin", "admin", "boss"),
    }
    assert "nightly" in seen["token"][2]
    assert len(set(notes.values())) == 4, notes
