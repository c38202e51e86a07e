"""Generated histories: people, a worker, the fence and the sweep do anything they can, in any order (A2 and others)."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessions_app.engine import commands as c
from sessions_app.engine.decide.gates import open_gates
from sessions_app.engine.errors import Refused
from sessions_app.engine.state import MODES
from tests.engine.harness import ANA, BEN, BOT, LOOP, Memory
from tests.engine.invariants import check

EXAMPLES = int(os.environ.get("STEERWEB_HISTORIES", "150"))
PEOPLE = st.sampled_from([ANA, BEN])
ANYBODY = st.sampled_from([ANA, BEN, BOT])
QUEUE = st.sampled_from([None, "run", "hold", "clear"])
OUTCOME = st.sampled_from(["ok", "error", "interrupted"])
EFFECT = st.sampled_from(
    [None, c.Effect("command", "git push origin"), c.Effect("command", "rm x", risky=True), c.Effect("other")]
)
PLACES = [
    "idle", "running", "planned", "called", "asked", "marked in a reply", "marked in a call", "marked at a gate",
]  # fmt: skip
SURVIVOR = {"ended": [], "surviving": [{"pid": 7, "command": "sleep"}], "background": []}


class Session(RuleBasedStateMachine):
    """One session under everything at once. A refusal is allowed anywhere; a broken invariant nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.old: list[tuple[str, int]] = []
        self.effects: dict[tuple[str, int, str], Any] = {}

    def do(self, command: Any, actor: Any = None) -> Any:
        try:
            return self.memory.do(command) if actor is None else self.memory.do(command, actor)
        except Refused:
            return None

    @property
    def loop(self) -> Any:
        return self.memory.state.loops[LOOP]

    @initialize(where=st.sampled_from(PLACES), mode=st.sampled_from(MODES))
    def begin(self, where: str, mode: Any) -> None:
        """Histories begin where things meet: a random walk from an empty session seldom gets so far."""
        memory = self.memory
        self.mode(ANA, "ask" if where in ("asked", "marked at a gate") else mode)
        if where == "idle":
            return
        self.go(ANA)
        if where not in ("running", "marked in a reply"):
            memory.plan("call0", "call1", "call2")
        if where in ("called", "marked in a call"):
            memory.call("call0")
        elif where in ("asked", "marked at a gate"):
            self.tool("ok", True, c.Effect("command", "git push origin"), False)
        if where.startswith("marked"):
            memory.stop(BEN, queue="hold")

    def pick(self, entries: Any, index: int) -> str:
        return str(entries[index % len(entries)].id) if entries else "none"

    @rule(who=ANYBODY, text=st.sampled_from(["one", "two", " "]), delivery=st.sampled_from(["queue", "fold"]))
    def submit(self, who: Any, text: str, delivery: str) -> None:
        self.do(c.Submit(self.memory.new_id("i"), text, delivery=delivery), who)

    @precondition(lambda self: self.loop.failed is not None)
    @rule(who=PEOPLE)
    def retry(self, who: Any) -> None:
        failed = self.loop.failed
        self.do(c.Retry("none" if failed is None else failed.id, self.memory.new_id("i")), who)

    @rule(who=PEOPLE, urgent=st.booleans(), named=st.booleans())
    def steer(self, who: Any, urgent: bool, named: bool) -> None:
        turn = self.loop.turn.id if named and self.loop.turn else None
        self.do(c.SendSteer(self.memory.new_id("s"), "steer", urgent, turn=turn), who)

    @precondition(lambda self: self.loop.inbox)
    @rule(
        who=PEOPLE, index=st.integers(0, 5), promote=st.sampled_from([None, "normal", "urgent"]), to=st.integers(0, 4)
    )
    def edit(self, who: Any, index: int, promote: Any, to: int) -> None:
        entry = self.pick(self.loop.inbox, index)
        self.do(c.EditInput(entry, "changed", to, promote, self.memory.new_id("s")), who)

    @precondition(lambda self: self.loop.inbox or self.loop.steers)
    @rule(who=PEOPLE, index=st.integers(0, 5), steer=st.booleans(), how=st.integers(0, 2))
    def take_back(self, who: Any, index: int, steer: bool, how: int) -> None:
        if not steer:
            self.do(c.RetractInput(self.pick(self.loop.inbox, index)), who)
        elif how == 0:
            self.do(c.WithdrawSteer(self.pick(self.loop.steers, index)), who)
        else:
            entry = self.pick(self.loop.steers, index)
            self.do(c.EditSteer(entry, "again", how == 2, self.memory.new_id("i")), who)

    @precondition(lambda self: any(each.held for each in (*self.loop.inbox, *self.loop.steers)))
    @rule(who=PEOPLE, to=st.sampled_from(["run", "authors"]), index=st.integers(0, 5), every=st.booleans())
    def release(self, who: Any, to: Any, index: int, every: bool) -> None:
        inputs = None if every else [self.pick(self.loop.inbox, index)]
        self.do(c.Release(inputs, None if every else [], to), who)

    @rule(
        who=ANYBODY,
        queue=QUEUE,
        then=st.sampled_from([None, "text", "input"]),
        index=st.integers(0, 5),
        named=st.booleans(),
    )
    def interrupt(self, who: Any, queue: Any, then: Any, index: int, named: bool) -> None:
        after = None
        if then == "text":
            after = c.Then(self.memory.new_id("i"), "then")
        elif then == "input":
            after = c.Then(self.pick(self.loop.inbox, index))
        turn = self.loop.turn.id if named and self.loop.turn else None
        decision = self.do(c.Interrupt(self.memory.new_id("r"), None, turn, "why", queue, after), who)
        if decision is not None and decision.receipt["accepted"]:
            assert decision.receipt["turns"] or decision.receipt["note"] == "not_started"

    @precondition(lambda self: self.loop.status == "idle")
    @rule(who=PEOPLE)
    def go(self, who: Any) -> None:
        """A message, and the turn it opens."""
        self.submit(who, "go", "queue")
        self.claim()
        if self.loop.turn is not None:
            self.do(c.BeginStep(self.loop.turn.id, self.loop.turn.epoch))

    @precondition(lambda self: self.loop.runnable())
    @rule()
    def claim(self) -> None:
        decision = self.do(c.Claim(LOOP, self.memory.new_id("t"), "w"))
        if decision is not None and decision.receipt["claimed"]:
            self.old.append((decision.receipt["turn"], decision.receipt["epoch"]))

    @precondition(lambda self: self.loop.turn is not None and self.loop.turn.calls is None)
    @rule(calls=st.integers(0, 3), again=st.booleans())
    def model(self, calls: int, again: bool) -> None:
        turn = self.loop.turn
        if turn is None:
            return
        self.do(c.BeginStep(turn.id, turn.epoch))
        if again:
            return
        turn = self.loop.turn
        planned = tuple(c.PlannedCall(f"call{n}", "shell", {"command": "x"}) for n in range(calls))
        self.do(c.FinishModel(turn.id, turn.epoch, turn.step, "text", calls=planned, usage={"output_tokens": 1}))

    @precondition(lambda self: self.loop.turn is not None and self.loop.turn.calls is not None)
    @rule(outcome=OUTCOME, start_only=st.booleans(), effect=EFFECT, survivor=st.booleans())
    def tool(self, outcome: Any, start_only: bool, effect: Any, survivor: bool) -> None:
        turn = self.loop.turn
        call = next((call for call in (turn.calls or ()) if call.status != "settled"), None) if turn else None
        if turn is None or call is None:
            return
        if call.status == "planned":
            effect = self.effects.setdefault(
                (turn.id, turn.step, call.call), effect
            )  # a call has one, however often it asks
            gate, strictest = self.memory.new_id("g"), self.strictest()
            started = self.do(c.StartTool(turn.id, turn.epoch, turn.step, call.call, {}, effect, gate))
            if effect is not None and started is not None and started.receipt.get("outcome") == "started":
                allowed = call.answer == "allow" or bool(self.memory.state.rules)
                assert allowed or (strictest == "auto" and not effect.risky), "it started without leave"
                assert strictest != "plan" or call.answer == "allow", "it only plans"
        if not start_only:
            settled = c.Settlement(outcome, "out", processes=SURVIVOR) if survivor else c.Settlement(outcome, "out")
            self.do(c.SettleTool(turn.id, turn.epoch, turn.step, call.call, settled))

    @rule(times=st.integers(1, 6), calls=st.integers(0, 2), outcome=OUTCOME, effect=EFFECT)
    def work(self, times: int, calls: int, outcome: Any, effect: Any) -> None:
        """What a worker does one after the other: without it a history seldom gets to the end of a step."""
        for _ in range(times):
            turn = self.loop.turn
            if turn is None:
                self.claim()
            elif turn.calls is None:
                self.model(calls, False)
            else:
                self.tool(outcome, False, effect, False)

    @rule(early=st.booleans(), index=st.integers(0, 9))
    def survivors_end(self, early: bool, index: int) -> None:
        """What survived a call ends: while its turn goes on, after it, or before the call is settled (refused)."""
        turn = self.loop.turn
        left = [(turn.id, each.call) for each in (turn.calls or ()) if early] if turn is not None else []
        if not early:
            left = [
                (event.turn, event.data["call"])
                for event in self.memory.events("ToolSettled")
                if event.data["processes"]["surviving"]
            ]
        if left:
            of, call = left[index % len(left)]
            self.do(c.SurvivorsEnded(of, LOOP, call, SURVIVOR["surviving"]))

    def strictest(self) -> str:
        """The strictest mode since the step began, read from the log (I1)."""
        modes: list[str] = []
        for event in self.memory.log:
            if event.type in ("LoopStarted", "ModeChanged"):
                modes.append(event.data["mode"])
            elif event.type in ("TurnStarted", "StepDone", "OutputSuperseded"):
                modes = modes[-1:]
        return min(modes, key=MODES.index)

    @rule(who=ANYBODY, mode=st.sampled_from(MODES))
    def mode(self, who: Any, mode: Any) -> None:
        self.do(c.SetMode(None, mode), who)

    @precondition(lambda self: self.memory.events("GateOpened"))
    @rule(who=ANYBODY, decision=st.sampled_from(["allow", "allow_rule", "deny"]), late=st.integers(0, 3))
    def answer(self, who: Any, decision: Any, late: int) -> None:
        gates = [event.data["gate"] for event in self.memory.events("GateOpened")]
        if late < 3 and self.loop.turn is not None:
            gates = open_gates(self.loop.turn) or gates  # mostly what is asked now
        if gates:
            resolve = c.Resolve(gates[-1 - late % len(gates)], decision, rule_id=self.memory.new_id("rule"))
            assert self.do(resolve, who) is None or who != BOT, "an agent answered"

    @precondition(lambda self: self.memory.state.rules)
    @rule(who=PEOPLE, index=st.integers(0, 3))
    def revoke(self, who: Any, index: int) -> None:
        self.do(c.RevokeRule(self.pick(self.memory.state.rules, index)), who)

    @precondition(lambda self: self.loop.turn is not None)
    @rule(
        by=st.sampled_from(["worker", "fence", "sweep"]),
        cause=st.sampled_from([None, "worker_lost", "worker_shutdown"]),
        unknown=st.booleans(),
        survivor=st.booleans(),
    )
    def end(self, by: Any, cause: Any, unknown: bool, survivor: bool) -> None:
        turn = self.loop.turn
        if turn is None or (by != "worker" and cause is None):
            return
        settlements = {}
        if survivor:
            settlements = {call.call: c.Settlement("interrupted", processes=SURVIVOR) for call in turn.calls or ()}
        self.do(c.EndTurn(turn.id, turn.epoch, by, cause, settlements, {"text": "cut"}, unknown=unknown))

    @precondition(lambda self: self.loop.turn is not None)
    @rule()
    def fail(self) -> None:
        if self.loop.turn is not None:
            self.do(c.Fail(self.loop.turn.id, self.loop.turn.epoch, "provider_error", "no"))

    @precondition(lambda self: self.old)
    @rule(index=st.integers(0, 9), kind=st.integers(0, 3))
    def late_report(self, index: int, kind: int) -> None:
        """A worker that lost its turn goes on reporting: nothing may come of it (C1)."""
        gone = [old for old in self.old if self.loop.turn is None or old != (self.loop.turn.id, self.loop.turn.epoch)]
        if not gone:
            return
        turn, epoch = gone[index % len(gone)]
        late: list[Any] = [
            c.BeginStep(turn, epoch),
            c.FinishModel(turn, epoch, 1, "late"),
            c.SettleTool(turn, epoch, 1, "call0", c.Settlement("ok")),
            c.EndTurn(turn, epoch, "worker", "worker_lost"),
        ]
        before = len(self.memory.log)
        with pytest.raises(Refused) as refused:
            self.memory.do(late[kind])
        assert refused.value.code == "stale"
        assert len(self.memory.log) == before

    @rule(keep=st.booleans(), queue=st.sampled_from(["run", "hold", "clear"]))
    def settings(self, keep: bool, queue: str) -> None:
        self.do(c.ChangeSession(settings={"keep_partial_reply": keep, "stop_queue": queue}), ANA)

    @rule(sure=st.integers(0, 9))
    def close(self, sure: int) -> None:
        if sure == 0:
            self.do(c.Close(self.memory.new_id("r")), ANA)

    @invariant()
    def holds(self) -> None:
        check(self.memory)


TestSession = pytest.mark.rule(
    "A1",
    "A2",
    "A3",
    "B3",
    "B5",
    "B6",
    "C1",
    "C4",
    "C6",
    "D3",
    "D8",
    "E2",
    "E3",
    "E10",
    "H1",
    "H2",
    "H3",
    "I1",
    "K1",
    "F",
)(Session.TestCase)
TestSession.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
