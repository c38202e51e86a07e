"""Gates and modes: what asks, who answers, and what an answer meets on its way (H, I)."""

from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import ResultEntry
from tests.engine.harness import ANA, BEN, BOT, LOOP, Memory
from tests.engine.invariants import check

PUSH = c.Effect("command", "git push origin")
RISKY = c.Effect("command", "git push origin", risky=True)


def planned(mode: str = "ask", *calls: str) -> Memory:
    """A step whose calls have not started."""
    memory = Memory()
    memory.mode(mode)
    memory.start()
    memory.plan(*(calls or ("a", "b")))
    return memory


def result(memory: Memory, call: str) -> ResultEntry:
    """What the model reads of a settled call."""
    transcript = Transcript()
    transcript.feed(memory.log)
    return next(entry for entry in transcript.entries if isinstance(entry, ResultEntry) and entry.call == call)


@pytest.mark.rule("I1", "H1")
@pytest.mark.parametrize(
    ("mode", "effect", "outcome"),
    [
        ("plan", None, "started"), ("plan", PUSH, "settled"), ("plan", RISKY, "settled"),
        ("ask", None, "started"), ("ask", PUSH, "asked"), ("ask", RISKY, "asked"),
        ("auto", None, "started"), ("auto", PUSH, "started"), ("auto", RISKY, "asked"),
    ],
)  # fmt: skip
def test_what_each_mode_makes_of_a_call(mode: str, effect: Any, outcome: str) -> None:
    memory = planned(mode)
    before = len(memory.log)
    assert memory.call("a", effect)["outcome"] == outcome
    assert memory.types(before) == [
        {"started": "ToolStarted", "settled": "ToolSettled", "asked": "GateOpened"}[outcome]
    ]
    check(memory)


@pytest.mark.rule("H1", "C2")
def test_an_allowed_call_runs_once_and_a_late_answer_finds_no_gate() -> None:
    memory = planned()
    gate = memory.ask()
    assert memory.call("a", PUSH) == {"marked": False, "outcome": "asked", "gate": gate}, "it is the same question"
    assert memory.resolve(gate) == {"gate": gate, "decision": "allow"}
    late = memory.refused(c.Resolve(gate, "deny"), BEN)
    assert (late.code, late.data) == ("gate_not_found", {"gate": gate})
    assert memory.call("a", PUSH)["outcome"] == "started"
    memory.settle("a")
    memory.ask("b")
    check(memory)


@pytest.mark.rule("H3", "C4")
def test_a_denied_call_has_no_effect_and_the_model_is_told_what_was_said() -> None:
    memory = planned("ask", "a")
    memory.resolve(memory.ask(), "deny", BEN, message="wrong remote")
    before = len(memory.log)
    assert memory.call("a", PUSH) == {"marked": False, "outcome": "settled"}
    assert memory.types(before) == ["ToolSettled", "StepDone"]
    told = result(memory, "a").text
    assert "did not allow" in told and "wrong remote" in told
    assert memory.events("GateResolved")[0].actor == BEN
    check(memory)


@pytest.mark.rule("H3", "A5")
def test_an_agent_answers_no_gate() -> None:
    memory = planned()
    gate = memory.ask()
    assert memory.refused(c.Resolve(gate, "allow"), BOT).code == "not_allowed"
    assert memory.call("a", PUSH)["outcome"] == "asked"


@pytest.mark.rule("H3")
def test_a_rule_covers_later_calls_until_it_is_revoked() -> None:
    memory = planned("ask", "a", "b", "c", "d")
    gate = memory.ask("a", "git push origin")
    offered = memory.events("GateOpened")[0].data["offers"]
    assert offered == [{"kind": "command", "value": "git push origin"}, {"kind": "command_prefix", "value": "git push"}]
    wide = memory.refused(c.Resolve(gate, "allow_rule", c.RuleSpec("command_prefix", "git")))
    assert (wide.code, wide.data["offers"]) == ("invalid", offered)
    memory.resolve(gate, "allow_rule", rule=c.RuleSpec("command_prefix", "git push"))
    memory.call("a", PUSH)
    memory.settle("a")
    assert memory.call("b", c.Effect("command", "git push --tags"))["outcome"] == "started"
    memory.settle("b")
    memory.resolve(memory.ask("c", "git pull"), "allow")
    memory.call("c", c.Effect("command", "git pull"))
    memory.settle("c")
    (rule,) = memory.state.rules
    assert [data.get("rule") for data in memory.data("ToolStarted")] == [None, rule.id, None], (
        "each says what let it run"
    )
    memory.do(c.RevokeRule(rule.id), BEN)
    assert memory.call("d", PUSH)["outcome"] == "asked"
    assert memory.refused(c.RevokeRule(rule.id)).code == "not_found"
    check(memory)


@pytest.mark.rule("H3", "A3")
def test_a_rule_is_for_its_tool_and_an_erased_one_covers_nothing() -> None:
    memory = planned("ask", "a", "b")
    memory.resolve(memory.ask(), "allow_rule")
    memory.call("a", PUSH)
    memory.settle("a")
    memory.erase(memory.events("GateResolved")[0].seq)
    assert memory.call("b", PUSH)["outcome"] == "asked"


@pytest.mark.rule("H2", "C6", "E6")
@pytest.mark.parametrize("answer", ["before", "after"])
def test_a_stop_at_a_gate_closes_it_and_a_late_answer_is_calm(answer: str) -> None:
    memory = planned()
    gate = memory.ask()
    before = len(memory.log)
    memory.stop(BEN)
    assert memory.data("InterruptRequested")[0]["phases"] == {memory.turn.id: "gate"}
    if answer == "before":
        refused = memory.refused(c.Resolve(gate, "allow"))
        assert (refused.code, refused.data) == ("gate_closed", {"gate": gate}), "the mark came first"
    memory.end()
    assert memory.types(before) == [
        "InterruptRequested", "GateClosed", "ToolSettled", "ToolSettled", "TurnInterrupted", "LoopIdle", "SessionIdle",
    ]  # fmt: skip
    assert memory.data("TurnInterrupted")[0]["gates"] == [gate]
    assert [data["outcome"] for data in memory.data("ToolSettled")] == ["not_run", "not_run"]
    assert memory.refused(c.Resolve(gate, "allow")).code == "gate_not_found"
    check(memory)


@pytest.mark.rule("H1", "E3")
def test_an_answer_before_the_stop_stands_and_the_call_still_does_not_run() -> None:
    memory = planned()
    memory.resolve(memory.ask(), "deny", message="no")
    memory.stop()
    assert memory.call("a", PUSH) == {"marked": True}
    memory.end()
    assert [data["outcome"] for data in memory.data("ToolSettled")] == ["denied", "not_run"]
    assert memory.data("TurnInterrupted")[0]["gates"] == []
    check(memory)


@pytest.mark.rule("D11")
def test_an_urgent_steer_withdraws_the_gated_call_and_a_normal_one_waits() -> None:
    memory = planned()
    gate = memory.ask()
    memory.steer("by the way")
    assert memory.call("a", PUSH)["outcome"] == "asked"
    memory.steer("not there", urgent=True)
    assert memory.data("GateClosed")[0]["reason"] == "steer"
    assert memory.refused(c.Resolve(gate, "allow")).code == "gate_not_found"
    before = len(memory.log)
    assert memory.call("a", PUSH)["outcome"] == "skipped"
    assert memory.types(before) == ["ToolSettled", "ToolSettled", "StepDone", "SteerDelivered", "SteerDelivered"]
    check(memory)


@pytest.mark.rule("D11", "B4")
@pytest.mark.parametrize("how", ["promoted", "released"])
def test_a_message_that_becomes_urgent_withdraws_the_gated_call_too(how: str) -> None:
    memory = Memory()
    memory.mode("ask")
    if how == "released":
        memory.start()
        steer = memory.steer("not there", urgent=True)
        memory.stop(queue="hold")
        memory.end()
    memory.start()
    memory.plan("a")
    memory.ask()
    if how == "released":
        memory.do(c.Release(steers=[steer]), ANA)
    else:
        memory.do(c.EditInput(memory.submit("not there"), promote="urgent", steer="s"), ANA)
    assert memory.data("GateClosed")[0]["reason"] == "steer"
    assert memory.call("a", PUSH)["outcome"] == "skipped"
    check(memory)


@pytest.mark.rule("D11")
def test_a_steer_that_is_taken_back_does_not_bring_the_question_back() -> None:
    memory = planned("ask", "a")
    memory.ask()
    memory.do(c.WithdrawSteer(memory.steer("not there", urgent=True)), BEN)
    assert memory.call("a", PUSH)["outcome"] == "settled"
    assert "urgent message" in result(memory, "a").text
    check(memory)


@pytest.mark.rule("I1")
def test_a_stricter_mode_binds_calls_that_have_not_started_and_a_looser_one_the_next_step() -> None:
    memory = planned("ask")
    memory.mode("auto")
    gate = memory.ask("a")
    memory.mode("plan")
    assert memory.data("GateClosed") == [{"gate": gate, "call": "a", "reason": "mode"}]
    assert memory.call("a", PUSH)["outcome"] == "settled"
    assert "only read and plan" in result_text_of(memory, "a")
    memory.mode("auto")
    assert memory.call("b", PUSH)["outcome"] == "settled", "the step began before"
    memory.plan("c")
    assert memory.call("c", PUSH)["outcome"] == "started"
    check(memory)


def result_text_of(memory: Memory, call: str) -> str:
    return next(str(data["output"]) for data in memory.data("ToolSettled") if data["call"] == call)


@pytest.mark.rule("I1")
def test_an_answer_already_given_stays_valid_under_a_stricter_mode() -> None:
    memory = planned("ask", "a")
    memory.resolve(memory.ask())
    memory.mode("plan")
    assert memory.call("a", PUSH)["outcome"] == "started"
    check(memory)


@pytest.mark.rule("I1", "E2")
def test_a_mode_is_changed_on_a_marked_turn_too_and_binds_the_next_turn() -> None:
    memory = planned("auto")
    memory.stop()
    assert memory.mode("ask") == {"mode": "ask", "changed": True}
    assert memory.mode("ask") == {"mode": "ask", "changed": False}
    memory.end()
    memory.start()
    memory.plan("a")
    memory.ask()
    check(memory)


@pytest.mark.rule("I1")
def test_a_model_and_instructions_change_from_the_next_turn_on() -> None:
    memory = Memory()
    memory.start()
    memory.do(c.ChangeLoop(None, "openai-chat:other", "Be brief."), ANA)

    def heard() -> tuple[str, str]:
        transcript = Transcript()
        transcript.feed(memory.log)
        return transcript.model, transcript.instructions

    assert heard() == ("demo:", "")
    assert memory.loop.model == "openai-chat:other"
    memory.answer()
    memory.start()
    assert heard() == ("openai-chat:other", "Be brief.")
    assert memory.refused(c.ChangeLoop(None)).code == "invalid"
    assert memory.refused(c.ChangeLoop("nobody", "demo:")).code == "loop_not_found"


@pytest.mark.rule("H2", "J2")
@pytest.mark.parametrize("end", ["lost", "failed", "closed"])
def test_no_gate_outlives_its_turn(end: str) -> None:
    memory = planned("ask", "a")
    gate = memory.ask()
    if end == "lost":
        memory.end("sweep", cause="worker_lost")
    elif end == "failed":
        memory.fail()
    else:
        memory.close()
        memory.end()
    assert [data["gate"] for data in memory.data("GateClosed")] == [gate]
    assert memory.refused(c.Resolve(gate, "allow")).code == "gate_not_found"
    assert memory.state.loops[LOOP].turn is None
    check(memory)


@pytest.mark.rule("H3", "D5", "C4")
def test_an_urgent_steer_does_not_unsay_a_denial() -> None:
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan("a", "b")
    memory.resolve(memory.ask("a"), "deny", message="not this one")
    memory.steer("this way", urgent=True)
    assert memory.call("a", c.Effect("command", "git push origin"))["outcome"] == "skipped"
    settled = memory.data("ToolSettled")
    assert [each["outcome"] for each in settled] == ["denied", "not_run"]
    assert settled[0]["output"] == "not this one"
    check(memory)


def that_ask(*effects: c.Effect) -> tuple[Memory, list[str], list[str]]:
    """Delegates beside each other that ask, each for its effect; their loops and their gates."""
    memory = Memory()
    memory.mode("ask")
    memory.start()
    memory.plan_delegates(*(f"1.{n}" for n in range(len(effects))))
    loops = [memory.delegate(f"1.{n}") for n in range(len(effects))]
    gates = []
    for loop, effect in zip(loops, effects, strict=True):
        memory.at = loop
        memory.resume()
        memory.plan("a")
        gates.append(str(memory.call("a", effect)["gate"]))
    return memory, loops, gates


@pytest.mark.rule("H1", "H3")
def test_a_rule_answers_the_other_questions_that_it_covers() -> None:
    effects = [
        c.Effect("command", each) for each in ("git push a", " git push b", "git commit -m x", "git push c | sh")
    ]
    memory, loops, gates = that_ask(*effects, c.Effect("path", "git push"), c.Effect("other"))
    before = len(memory.log)
    memory.resolve(gates[0], "allow_rule", BEN, rule=c.RuleSpec("command_prefix", "git push"), message="go on")
    answers = memory.log[before:]
    assert [event.data["gate"] for event in answers] == gates[:2], "what it does not cover is asked on"
    assert all((event.type, event.actor, event.data["decision"]) == ("GateResolved", BEN, "allow") for event in answers)
    asked = next(event for event in memory.events("GateOpened") if event.data["gate"] == gates[1])
    assert (answers[1].loop, answers[1].turn, answers[1].step) == (asked.loop, asked.turn, asked.step)
    assert answers[1].data.keys() == {"gate", "call", "decision"} and len(memory.state.rules) == 1, "it is one rule"
    outcomes = []
    for memory.at, effect in zip(loops, effects, strict=False):
        outcomes.append(memory.call("a", effect)["outcome"])
    assert outcomes == ["started", "started", "asked", "asked"]
    check(memory)


@pytest.mark.rule("H3")
def test_a_rule_for_a_folder_answers_for_what_is_in_it() -> None:
    paths = ("src/a.py", "src/deep/../b.py", "src/deep/c.py", "src", "source/a.py")
    memory, _, gates = that_ask(*(c.Effect("path", path) for path in paths))
    before = len(memory.log)
    memory.resolve(gates[0], "allow_rule", rule=c.RuleSpec("path", "src/"))
    assert [event.data["gate"] for event in memory.log[before:]] == gates[:3]
    check(memory)


@pytest.mark.rule("H2", "H3")
def test_a_rule_answers_nothing_of_a_turn_that_is_being_stopped() -> None:
    memory, loops, gates = that_ask(PUSH, PUSH)
    memory.stop(loop=loops[1])
    before = len(memory.log)
    memory.resolve(gates[0], "allow_rule")
    assert [event.data["gate"] for event in memory.log[before:]] == gates[:1]
    check(memory)


@pytest.mark.rule("H1", "A3")
def test_what_is_asked_is_asked_until_it_is_answered_though_a_rule_would_cover_it() -> None:
    """What its question offers has been erased: the rule does not know that it covers that too."""
    memory, loops, gates = that_ask(PUSH, PUSH)
    memory.erase(memory.events("GateOpened")[1].seq)
    memory.resolve(gates[0], "allow_rule")
    memory.at = loops[1]
    assert memory.call("a", PUSH) == {"marked": False, "outcome": "asked", "gate": gates[1]}
    memory.resolve(gates[1])
    assert memory.call("a", PUSH)["outcome"] == "started"
    check(memory)
