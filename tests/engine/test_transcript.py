"""What the next model request says of what happened: every outcome, stop and steer in its own words."""

from dataclasses import replace
from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.actors import Actor
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import AssistantEntry, Call, Entry, ResultEntry, UserEntry
from tests.engine.harness import ANA, BEN, LOOP, Memory

OUTCOMES: tuple[Any, ...] = ("ok", "error", "denied", "interrupted", "not_run", "lost")


def entries(memory: Memory) -> list[Entry]:
    """The next request's conversation. Fed one by one, in pieces or at once, it is the same."""
    at_once, one_by_one = Transcript(), Transcript()
    at_once.feed(memory.log)
    for event in memory.log:
        one_by_one.feed([event])
    assert at_once.entries == one_by_one.entries
    return at_once.entries


def results(memory: Memory) -> list[ResultEntry]:
    return [entry for entry in entries(memory) if isinstance(entry, ResultEntry)]


@pytest.mark.rule("B8", "C5")
def test_a_plain_conversation() -> None:
    memory = Memory()
    memory.start("hello")
    memory.answer("hi")
    memory.start("again")
    assert entries(memory) == [UserEntry("hello"), AssistantEntry("hi"), UserEntry("again")]


@pytest.mark.rule("C2", "C4")
def test_results_stand_in_reply_order_right_after_their_reply() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b", text="two things")
    for call in ("a", "b"):
        memory.call(call)
        memory.settle(call, output=f"{call} done")
    calls = (Call("a", "shell", {"command": "echo a"}), Call("b", "shell", {"command": "echo b"}))
    assert entries(memory)[1:] == [
        AssistantEntry("two things", calls),
        ResultEntry("a", "shell", "a done"),
        ResultEntry("b", "shell", "b done"),
    ]


@pytest.mark.rule("C4")
@pytest.mark.scenario("D08")
def test_the_six_outcomes_are_told_apart() -> None:
    """Started and stopped is never worded like not allowed, nor like not run (D08)."""
    said: dict[str, str] = {}
    for outcome in OUTCOMES:
        memory = Memory()
        memory.start()
        memory.plan("a")
        if outcome == "not_run":
            memory.stop()
            memory.end()
        else:
            memory.call("a")
            memory.settle("a", outcome, "lines 1 to 25")
        [result] = results(memory)
        assert result.outcome == outcome
        said[outcome] = result.text
    assert len(set(said.values()) - {said["ok"], said["error"]}) == 4
    assert "started" in said["interrupted"]
    assert "partial effects" in said["interrupted"]
    assert "lines 1 to 25" in said["interrupted"]
    assert "did not run" in said["denied"]
    assert "not run" in said["not_run"]
    assert "unknown" in said["lost"]
    assert "lines 1 to 25" in said["lost"]
    for word in ("denied", "not_run"):
        assert "partial" not in said[word]
        assert "no effect" in said[word]


@pytest.mark.rule("C4")
@pytest.mark.parametrize(
    ("output", "exit", "text"),
    [
        ("fine", 0, "fine"), ("fine", None, "fine"), ("", 0, "[no output]"), ("bad", 2, "bad\n[exit status 2]"),
        ("", 2, "[exit status 2]"),
    ],
)  # fmt: skip
def test_an_exit_status_is_said_where_it_means_something(output: str, exit: int | None, text: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", "ok" if not exit else "error", output, exit=exit)
    assert results(memory)[0].text == text


@pytest.mark.rule("C3")
@pytest.mark.parametrize("keep", [False, True])
def test_a_reply_that_was_cut_off_goes_to_the_model_only_if_the_session_says_so(keep: bool) -> None:
    memory = Memory(settings={"keep_partial_reply": keep})
    memory.start("write a poem")
    memory.stop(BEN, reason="no poems")
    memory.end(cut_off={"text": "Roses are", "reasoning": "rhyme"})
    memory.start("write code")
    said = entries(memory)
    kept = [AssistantEntry("Roses are [cut off here]")] if keep else []
    assert said[:-1] == [UserEntry("write a poem"), *kept]
    note, text = said[-1].text.split("\n\n")
    assert text == "write code"
    assert "stopped by Ben" in note
    assert "no poems" in note
    assert ("stands above" if keep else "not part of this conversation") in note


@pytest.mark.rule("C3")
def test_the_setting_counts_that_holds_when_the_turn_ends() -> None:
    memory = Memory()
    memory.do(c.ChangeSession(settings={"keep_partial_reply": True}), ANA)
    memory.start()
    memory.stop()
    memory.end(cut_off={"text": "Roses"})
    memory.do(c.ChangeSession(settings={"keep_partial_reply": False}), ANA)
    assert entries(memory)[1] == AssistantEntry("Roses [cut off here]")


@pytest.mark.rule("C3")
def test_a_discarded_step_never_enters_the_conversation() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", text="first")
    memory.call("a")
    memory.settle("a", output="1")
    memory.begin()
    memory.stop()
    assert memory.plan("b", text="second") == {"marked": True}
    memory.end()
    memory.start("go on")
    assert [type(entry).__name__ for entry in entries(memory)] == [
        "UserEntry", "AssistantEntry", "ResultEntry", "UserEntry",
    ]  # fmt: skip
    assert "unfinished reply" not in entries(memory)[-1].text, "nothing had been seen of it"


@pytest.mark.rule("C3", "A5")
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("person", "by Ana"), ("token", "by Ana via CI"), ("admin", "by Kim"),
        ("worker_lost", "the process that ran it died"), ("worker_shutdown", "the program was shut down"),
    ],
)  # fmt: skip
def test_the_next_request_says_by_what_the_last_turn_was_stopped(how: Any, words: str) -> None:
    memory = Memory()
    memory.start()
    if how in ("worker_lost", "worker_shutdown"):
        memory.end("sweep", cause=how)
    else:
        memory.stop(
            {"person": ANA, "token": Actor("token", "t", "Ana via CI"), "admin": Actor("admin", "k", "Kim")}[how]
        )
        memory.end()
    memory.start("next")
    assert words in entries(memory)[-1].text


@pytest.mark.rule("C3", "C4")
@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("worker_lost", "because the process that ran it died"),
        ("worker_shutdown", "because the program was shut down"),
        ("budget", "because a limit of this session was reached"),
        ("person", "by a stop"),
    ],
)
def test_a_call_that_a_turn_s_end_cut_short_says_what_ended_it(cause: Any, words: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    memory.plan("a", "b")  # a model may use an id again
    memory.call("a")
    cut = {"a": c.Settlement("interrupted", "half")}
    if cause == "person":
        memory.stop()
        memory.end(settlements=cut)
    else:
        memory.end("worker", cause=cause, which="steps" if cause == "budget" else "", settlements=cut)
    first, second, other = results(memory)
    assert first.text == "out"
    assert f"then ended {words} before it was finished" in second.text
    assert second.text.endswith("half")
    assert "not run" in other.text


@pytest.mark.rule("C3")
def test_the_note_is_said_once() -> None:
    memory = Memory()
    memory.start()
    memory.stop()
    memory.end()
    memory.start("next")
    memory.answer("fine")
    memory.start("and now")
    assert entries(memory)[-1] == UserEntry("and now")


@pytest.mark.rule("C3")
def test_a_failed_turn_is_not_called_a_stop() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    memory.fail()
    memory.start("next")
    assert "technical fault" in entries(memory)[-1].text
    assert "stopped" not in entries(memory)[-1].text


@pytest.mark.rule("D3", "D7")
def test_steers_stand_after_all_results_in_order_with_their_senders() -> None:
    memory = Memory()
    memory.start("hello")
    memory.plan("a", "b")
    memory.call("a")
    memory.steer("left", who=BEN)
    memory.settle("a")
    memory.steer("then right", who=ANA)
    memory.call("b")
    memory.settle("b")
    memory.begin()
    said = entries(memory)
    assert [type(entry).__name__ for entry in said] == [
        "UserEntry", "AssistantEntry", "ResultEntry", "ResultEntry", "UserEntry", "UserEntry",
    ]  # fmt: skip
    assert said[-2:] == [
        UserEntry("[Message from Ben while you work]\nleft", interrupt=True),
        UserEntry("[Message from Ana while you work]\nthen right", interrupt=True),
    ]


@pytest.mark.rule("D3")
def test_an_edited_steer_is_delivered_in_its_last_words_under_its_sender_s_name() -> None:
    memory = Memory()
    steer = memory.steer("left", who=BEN)
    memory.do(c.EditSteer(steer, text="left, please"), BEN)
    memory.start("hello")
    assert entries(memory) == [
        UserEntry("hello"),
        UserEntry("[Message from Ben while you work]\nleft, please", interrupt=True),
    ]


@pytest.mark.rule("B4", "D3", "A5")
def test_a_promoted_input_is_attributed_to_who_wrote_it() -> None:
    memory = Memory()
    memory.start("hello")
    entry = memory.submit("left", BEN)
    memory.do(c.EditInput(entry, promote="normal", steer="s"), ANA)
    memory.begin()
    assert entries(memory)[-1] == UserEntry("[Message from Ben while you work]\nleft", interrupt=True)


@pytest.mark.rule("B4")
def test_an_edited_input_runs_in_its_last_words() -> None:
    memory = Memory()
    entry = memory.submit("delete it")
    memory.do(c.EditInput(entry, text="look at it"), ANA)
    memory.resume()
    assert entries(memory) == [UserEntry("look at it")]


@pytest.mark.rule("D6")
def test_a_withdrawn_output_leaves_no_trace_for_the_model() -> None:
    memory = Memory()
    memory.start("hello")
    memory.steer("left", urgent=True)
    memory.plan("a", text="I will")
    memory.steer("right")
    memory.answer("done")
    assert entries(memory) == [
        UserEntry("hello"),
        UserEntry("[Message from Ben while you work]\nleft", interrupt=True),
        UserEntry("[Message from Ben while you work]\nright", interrupt=True),
    ]


@pytest.mark.rule("D5", "C4")
def test_calls_that_an_urgent_steer_skipped_have_their_results() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.steer("stay", urgent=True)
    memory.call("a")
    assert [(result.call, result.outcome) for result in results(memory)] == [("a", "not_run"), ("b", "not_run")]
    assert entries(memory)[-1] == UserEntry("[Message from Ben while you work]\nstay", interrupt=True)


@pytest.mark.rule("A3")
def test_what_was_erased_is_said_to_be_so_and_breaks_nothing() -> None:
    memory = Memory()
    memory.start("a pasted key")
    memory.plan("a", text="words")
    memory.call("a")
    memory.settle("a", "interrupted", output="secret")
    memory.begin()
    memory.steer("secret")
    memory.begin()
    memory.answer("secret")
    for event in list(memory.log):
        memory.erase(event.seq)
    said = entries(memory)
    assert said == [
        UserEntry("[erased]"),
        AssistantEntry("[erased]", (Call("a", "shell", {"erased": True}),)),
        ResultEntry("a", "shell", results(memory)[0].text, "interrupted"),
        UserEntry("[Message from Ben while you work]\n[erased]", interrupt=True),
        AssistantEntry("[erased]"),
    ]
    assert results(memory)[0].text.endswith("\n[erased]")


@pytest.mark.rule("C2")
def test_arguments_that_are_no_object_are_kept_for_the_model_to_see() -> None:
    memory = Memory()
    memory.start()
    memory.answer("", calls=(c.PlannedCall("a", "shell", "{not json"),))
    reply = entries(memory)[-1]
    assert isinstance(reply, AssistantEntry)
    assert reply.calls == (Call("a", "shell", {"_invalid": "{not json"}),)


@pytest.mark.rule("A3")
def test_a_transcript_that_holds_a_text_erased_since_says_so() -> None:
    memory = Memory()
    memory.start("a pasted key")
    queued = next(event for event in memory.log if event.type == "InputQueued")
    memory.answer("hi")
    erased = replace(queued, seq=memory.log[-1].seq + 1, type="ContentErased", data={"seq": queued.seq, "reason": "x"})
    held = Transcript()
    held.feed(memory.log)
    before = held.stale
    held.feed([erased])
    assert (before, held.stale) == (False, True)
    now = [
        replace(event, data={**event.data, "text": {"erased": True}}) if event is queued else event
        for event in memory.log
    ]
    fresh = Transcript()
    fresh.feed([*now, erased])
    assert not fresh.stale
    assert fresh.entries == [UserEntry("[erased]"), AssistantEntry("hi")]


@pytest.mark.rule("A3")
def test_a_text_erased_stays_a_reason_to_begin_anew_whatever_is_erased_next() -> None:
    memory = Memory()
    memory.start("a pasted key")
    held = Transcript()
    held.feed(memory.log)
    queued = memory.events("InputQueued")[0].seq
    memory.do(c.Erase(queued, "a key"), ANA)
    memory.do(c.Erase(memory.events("TurnStarted")[0].seq, "it has no text"), ANA)
    held.feed(memory.log[-2:])
    assert held.stale


@pytest.mark.rule("A3")
def test_a_reason_that_was_erased_is_not_told() -> None:
    memory = Memory()
    memory.start()
    memory.stop(BEN, reason="secret")
    memory.end()
    memory.erase(memory.events("TurnInterrupted")[0].seq)
    memory.start("next")
    assert "reason" not in entries(memory)[-1].text
    assert "erased" not in entries(memory)[-1].text


@pytest.mark.rule("A3")
def test_what_is_not_there_to_be_told_is_said_to_be_erased() -> None:
    """A transcript that begins in the middle of a log knows no text and no sender of before."""
    memory = Memory()
    memory.submit("hello")
    memory.submit("and more", delivery="fold")
    memory.steer("left")
    before = len(memory.log)
    memory.resume()
    told = Transcript()
    told.feed(memory.log[before:])
    assert told.entries == [
        UserEntry("[erased]"),
        UserEntry("[Message from somebody while you work]\n[erased]", interrupt=True),
        UserEntry("[erased]"),
    ]


@pytest.mark.rule("C3", "M")
def test_settings_that_say_nothing_of_cut_off_replies_leave_that_as_it_was() -> None:
    memory = Memory(settings={"stop_queue": "hold"})
    told = Transcript(keep_partial=True)
    told.feed(memory.log)
    assert told.keep_partial is True
    memory.do(c.ChangeSession(settings={"stop_queue": "clear"}), ANA)
    told.feed(memory.log[-1:])
    assert told.keep_partial is True
    memory.do(c.ChangeSession(settings={"keep_partial_reply": False}), ANA)
    told.feed(memory.log[-1:])
    assert told.keep_partial is False


@pytest.mark.rule("I1")
def test_the_mode_is_that_of_the_loop_and_then_the_one_chosen_last() -> None:
    memory = Memory()
    memory.mode("plan")
    modes = []
    for count in (2, 3):  # the loop's start is the second event
        told = Transcript()
        told.feed(memory.log[:count])
        modes.append(told.mode)
    assert modes == ["auto", "plan"]


@pytest.mark.rule("I1")
def test_model_and_instructions_changed_one_after_the_other_both_count_from_the_next_turn_on() -> None:
    memory = Memory()
    memory.do(c.ChangeLoop(LOOP, model="demo:two"), ANA)
    memory.do(c.ChangeLoop(LOOP, instructions="Be short."), ANA)
    memory.start()
    told = Transcript()
    told.feed(memory.log)
    assert (told.model, told.instructions) == ("demo:two", "Be short.")


@pytest.mark.rule("C4")
def test_calls_are_unsettled_until_they_have_settled() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a", "b")
    memory.call("a")
    memory.settle("a")
    told = Transcript()
    told.feed(memory.log)
    assert [call.id for call in told.unsettled] == ["b"]
    before = len(memory.log)
    memory.call("b")
    memory.settle("b")
    told.feed(memory.log[before:])
    assert told.unsettled == ()


@pytest.mark.rule("C4")
@pytest.mark.parametrize("output", ["  indented", "X marks it", "Xn"])
def test_an_exit_status_changes_no_character_of_the_output(output: str) -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.call("a")
    memory.settle("a", "error", output, exit=2)
    assert results(memory)[0].text == f"{output}\n[exit status 2]"


@pytest.mark.rule("C3")
@pytest.mark.parametrize("keep", [False, True])
def test_the_note_on_a_stop_is_one_in_brackets(keep: bool) -> None:
    memory = Memory(settings={"keep_partial_reply": keep})
    memory.start()
    memory.stop(BEN)
    memory.end(cut_off={"text": "Roses"})
    memory.start("next")
    rest = "stands above." if keep else "is not part of this conversation."
    assert entries(memory)[-1].text == (
        f"[Your last turn was stopped by Ben before you had finished. Your unfinished reply {rest}]\n\nnext"
    )


@pytest.mark.rule("C3")
def test_the_note_on_a_fault_is_one_in_brackets() -> None:
    memory = Memory()
    memory.start()
    memory.plan("a")
    memory.fail()
    memory.start("next")
    assert entries(memory)[-1].text == ("[Your last turn ended by a technical fault before you had finished.]\n\nnext")


def test_the_log_of_these_tests_has_no_event_before_the_first_and_none_behind_the_last() -> None:
    """A number counted from the end would answer with an event that no rule asked for."""
    memory = Memory()
    assert memory.payload(1) is memory.log[0].data
    for seq in (0, -1, len(memory.log) + 1):
        with pytest.raises(LookupError):
            memory.payload(seq)


@pytest.mark.rule("C4", "G3")
def test_a_delegate_s_result_says_itself_what_ended_it_and_one_without_a_word_what_ended_its_turn() -> None:
    memory = Memory()
    memory.start()
    planned = tuple(c.PlannedCall(call, "delegate", {"task": call}) for call in ("a", "b"))
    memory.answer("", calls=(*planned, c.PlannedCall("x", "shell", {"command": "ls"})))
    for call in ("a", "b"):
        memory.at = LOOP
        memory.at = memory.delegate(call)
        memory.resume()
        if call == "a":
            memory.stop(BEN, loop=memory.at)
            memory.end()
        else:
            memory.end(cause="worker_shutdown")
    memory.at = LOOP
    memory.end("sweep", cause="worker_lost")
    told = Transcript()
    told.feed(event for event in memory.log if event.loop in (None, LOOP))
    stopped, silent, _ = (entry.text for entry in told.entries if isinstance(entry, ResultEntry))
    assert "then ended by a stop before" in stopped and stopped.endswith("Ben stopped the delegate.")
    assert "then ended because the process that ran it died before" in silent


@pytest.mark.rule("C3", "C4")
def test_a_call_cut_short_says_what_ended_it_where_it_is_the_last_and_its_reply_the_first() -> None:
    memory = Memory()
    memory.start()
    before = len(memory.log)
    memory.plan("a")
    memory.call("a")
    memory.end(cause="worker_lost", settlements={"a": c.Settlement("interrupted", "half")})
    told = Transcript()
    told.feed(memory.log[before:])
    assert isinstance(told.entries[-1], ResultEntry) and len(told.entries) == 2
    assert "then ended because the process that ran it died before" in told.entries[-1].text


@pytest.mark.rule("C4", "G3")
def test_where_the_end_of_a_turn_settles_its_last_delegates_nobody_is_told_of_a_stop_that_was_none() -> None:
    memory = Memory()
    memory.start()
    memory.answer("", calls=tuple(c.PlannedCall(call, "delegate", {"task": call}) for call in ("a", "b")))
    child = memory.delegate("a")
    memory.delegate("b")
    memory.at = child
    memory.resume()
    memory.end(cause="worker_shutdown")
    memory.at = LOOP
    memory.end("sweep", cause="worker_lost")
    told = Transcript()
    told.feed(event for event in memory.log if event.loop in (None, LOOP))
    results = [entry.text for entry in told.entries if isinstance(entry, ResultEntry)]
    assert len(results) == 2
    assert all("then ended because the process that ran it died before" in text for text in results), results
