"""Steers and odd output against a real worker and a strict provider."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sessions_app.control import steer as send_steer
from sessions_app.ids import new_id
from sessions_app.log import stream
from tests.support.model_server import ModelServer, call, raw_call, say
from tests.support.running import Running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("worker")


@pytest.mark.rule("D3", "D9")
def test_a_steer_lands_after_the_running_command(server: ModelServer) -> None:
    session = Running.create()
    server.script([call("shell", command="echo working; until [ -e go ]; do sleep 0.05; done")], [say("As you wish.")])
    session.submit("Start.")
    session.until("ToolStarted")
    wait_until(lambda: any("working" in piece.text for piece in stream.read(session.id)), "live output")
    receipt = session.steer("Use the staging database.")
    assert receipt["lands"]["when"] == "safe_point" and receipt["lands"]["after"] == "tool"
    assert receipt["lands"]["running_ms"] >= 0 and session.count("SteerDelivered") == 0
    session.file("go").touch()
    session.until("TurnDone")
    roles = [(said.role, said.text) for said in server.requests[-1].history][-2:]
    assert roles[0][0] == "tool" and roles[1][0] == "user"
    assert "Use the staging database." in roles[1][1] and "ana" in roles[1][1]


@pytest.mark.rule("D4", "D6")
def test_a_steer_replaces_a_final_answer(server: ModelServer) -> None:
    session = Running.create()
    server.script([say("All reports are moved.", delay_s=0.15)], [say("Understood, the column stays.")])
    session.submit("Move the reports.")
    server.wait_for(lambda s: s.requests[-1].sent_tokens >= 2, 60)
    session.steer("Keep the old column.")
    session.until("TurnDone")
    replaced = session.events("OutputSuperseded")[0]
    assert (replaced.data["kind"], replaced.data["text"]) == ("answer", "All reports are moved.")
    assert "All reports are moved." not in server.requests[-1].text
    assert [event.data.get("text") for event in session.events("StepDone")] == ["Understood, the column stays."]


@pytest.mark.rule("D4", "D5", "D6")
def test_an_urgent_steer_withdraws_a_call_and_a_normal_one_does_not(server: ModelServer) -> None:
    for urgent in (False, True):
        session = Running.create()
        server.script(
            [say("I will write a file now.", delay_s=0.15), call("shell", command="touch made")], [say("Fine.")]
        )
        server.requests.clear()
        session.submit("Write.")
        server.wait_for(lambda s: bool(s.requests) and s.requests[0].sent_tokens >= 2, 60)
        session.steer("Do not write anything.", urgent=urgent)
        session.until("TurnDone")
        assert session.file("made").exists() is not urgent
        assert session.count("OutputSuperseded") == session.count("ToolStarted") + (1 if urgent else -1)


@pytest.mark.rule("D5")
def test_an_urgent_steer_in_a_batch_skips_what_has_not_started(server: ModelServer) -> None:
    session = Running.create()
    wait = "echo first; until [ -e go ]; do sleep 0.05; done"
    server.script([call("shell", command=wait), call("shell", command="touch second")], [say("Stopped there.")])
    session.submit("Two calls.")
    session.until("ToolStarted")
    session.steer("Enough.", urgent=True)
    session.file("go").touch()
    session.until("TurnDone")
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["ok", "not_run"]
    assert not session.file("second").exists()


@pytest.mark.rule("D8")
@pytest.mark.scenario("D15")
def test_two_hundred_steers_around_the_ends_of_turns_are_each_delivered_once(server: ModelServer) -> None:
    """Each word is in exactly one request's last words: at the end of the same turn or at the next one's beginning.

    Four sessions side by side, so that one's wait is another's work.
    """
    server.handler = lambda _: [say("a short answer", delay_s=0.01)]
    words = [f"word{number:03d}x" for number in range(200)]
    chance = random.Random(7)
    delays = {word: chance.random() * 0.08 for word in words}

    def steered(number: int) -> Running:
        session, own = Running.create(), words[number * 50 : number * 50 + 50]
        turns = range(0, 50, 8)
        with ThreadPoolExecutor(8) as threads:
            for turn, start in enumerate(turns, 1):
                session.submit(f"turn {turn} of session {number}")
                session.until("TurnStarted", turn)
                list(threads.map(lambda word: _later(session, word, delays[word]), own[start : start + 8]))
                session.until_idle()
        session.submit(f"the last turn of session {number}")
        session.until("TurnDone", len(turns) + 1)
        delivered = [event.data["steer"] for event in session.events("SteerDelivered")]
        assert len(delivered) == len(set(delivered)) == 50
        last = next(seen.text for seen in reversed(server.requests) if f"turn 1 of session {number}" in seen.text)
        assert [last.count(word) for word in words] == [1 if word in own else 0 for word in words]
        return session

    with ThreadPoolExecutor(4) as threads:
        sessions = list(threads.map(steered, range(4)))
    assert sum(session.count("SteerDelivered") for session in sessions) == 200


def _later(session: Running, word: str, delay_s: float) -> None:
    threading.Event().wait(delay_s)
    send_steer(session.owner, session.id, new_id(), text=word)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27", "D28")
def test_bytes_that_are_no_text_are_shown_as_such_and_nothing_is_lost(server: ModelServer) -> None:
    session = Running.create()
    nul = r"printf 'D\000i\000s\000k\000 full\n'; echo next"
    split = r"printf 'start\n\344'; printf '\342\202'; sleep 0.3; printf '\254\n'"
    odd = split + "; until [ -e go ]; do sleep 0.05; done; head -c 2048 /dev/urandom; echo; echo end; exit 3"
    server.script([call("shell", command=nul)], [call("shell", command=odd)], [say("Odd.")])
    session.submit("Print.")

    def live() -> str:
        return "".join(piece.text for piece in stream.read(session.id) if piece.kind == "tool")

    wait_until(lambda: "start\n\ufffd€" in live(), "the character in three parts, live")
    assert "\0" not in live()
    session.file("go").touch()
    session.until("TurnDone")
    first, second = (event.data for event in session.events("ToolSettled"))
    assert "D\ufffdi\ufffds\ufffdk" in first["output"] and "next" in first["output"] and first["replaced"] is True
    assert "start\n\ufffd€" in second["output"] and second["output"].rstrip().endswith("end")
    assert second["exit"] == 3 and second["replaced"] is True


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_an_emoji_cut_in_half_by_the_stream_comes_out_whole(server: ModelServer) -> None:
    session = Running.create()
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    server.script(
        [say("ready \ud83d"), say("\ude80 "), say(family[:3]), say(family[3:5]), say(family[5:]), say(" \ud83d")]
    )
    session.submit("Emoji.")
    session.until("TurnDone")
    text = session.events("StepDone")[0].data["text"]
    assert text == f"ready \U0001f680 {family} \ufffd"
    assert "".join(piece.text for piece in stream.read(session.id) if piece.kind == "text") in text


@pytest.mark.rule("C4")
def test_arguments_that_are_no_json_are_an_error_the_model_can_read(server: ModelServer) -> None:
    session = Running.create()
    server.script([raw_call("shell", '{"command": "ls')], [call("no_such_tool")], [say("I see.")])
    session.submit("Call badly.")
    session.until("TurnDone")
    assert [event.data["outcome"] for event in session.events("ToolSettled")] == ["error", "error"]
