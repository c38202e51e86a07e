"""Generated histories: people, workers, the fence and the sweep do anything they can, in any order (A2 and others).

Each verb acts on one loop, drawn among those it fits: the primary one or a delegate, down to three deep.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sessions_app.engine import commands as c
from sessions_app.engine.decide.gates import open_gates
from sessions_app.engine.errors import Refused
from sessions_app.engine.state import MODES, Call, Loop, State, Turn
from tests.engine.harness import ANA, BEN, BOT, LOOP, WORKER, Memory
from tests.engine.invariants import check, check_state

DELEGATE = "delegate"
EXAMPLES = int(os.environ.get("STEERWEB_HISTORIES", "500"))
"""As many as two minutes allow; a night allows 100,000."""
PEOPLE = st.sampled_from([ANA, BEN])
ANYBODY = st.sampled_from([ANA, BOT, BEN])
WORKERS = st.sampled_from(["w1", "w2"])
WHERE = st.integers(0, 5)
QUEUE = st.sampled_from([None, "run", "hold", "clear"])
OUTCOME = st.sampled_from(["ok", "error", "interrupted"])
PUSH = c.Effect("command", "git push origin")
EFFECT = st.sampled_from([PUSH, None, c.Effect("command", "rm x", risky=True), c.Effect("other")])
TOOLS = st.lists(st.sampled_from(["shell", DELEGATE, DELEGATE]), max_size=3)
WITHOUT = st.sampled_from([
    "submit", "retry", "steer", "edit", "take_back", "release", "interrupt", "mode", "limits", "answer", "revoke",
    "settings", "close", "hand_over", "model", "tool", "work", "end", "survivors_end", "background", "late_report",
    "odd_report", "background_ends_too_early",
])  # fmt: skip
PROCESS = [{"pid": 7, "command": "sleep"}]
DECISION = st.sampled_from(["allow", "deny", "allow_rule"])
LEFT = st.sampled_from(["", "", "surviving", "background", "background", "surviving background"])
CAUSE = st.sampled_from(["worker_lost", "worker_shutdown", "budget"])
PLACES = [
    "idle", "running", "planned", "called", "asked", "answered", "marked in a reply", "marked in a call",
    "marked at a gate", "given back", "serving", "marked in a call, sparing",
    "two delegates", "three deep", "family", "family marked", "family given back", "given back in the middle",
    "asked below", "not begun", "three deep given back", "three deep marked",
]  # fmt: skip


def processes(left: str) -> dict[str, Any]:
    """What a call leaves running."""
    return {"ended": [], **{kind: PROCESS if kind in left.split() else [] for kind in ("surviving", "background")}}


def anywhere(loop: Loop) -> bool:
    return True


def running(loop: Loop) -> bool:
    return loop.turn is not None


def held(loop: Loop) -> bool:
    """A worker has its turn."""
    return loop.turn is not None and not loop.turn.given_back()


def thinking(loop: Loop) -> bool:
    """A model call is due or under way."""
    return held(loop) and loop.turn is not None and loop.turn.calls is None


def due(loop: Loop) -> Call | None:
    """The call that its worker would turn to: one that is to start, or that runs; delegates end by themselves."""
    calls = (loop.turn.calls or ()) if held(loop) and loop.turn is not None else ()
    return next((call for call in calls if call.status != "settled" and not call.child), None)


def waiting(loop: Loop) -> bool:
    """It waits for delegates."""
    return loop.turn is not None and bool(loop.turn.delegated())


def asking(loop: Loop) -> bool:
    return loop.turn is not None and bool(open_gates(loop.turn))


class Verb(NamedTuple):
    """Something that somebody may do: drawn `times` as often as another, where it `fits`."""

    does: Callable[..., None]
    times: int
    fits: Callable[[Any], Any]
    arguments: st.SearchStrategy[dict[str, Any]]

    def __repr__(self) -> str:
        return self.does.__name__


VERBS: list[Verb] = []


def verb(times: int = 1, fits: Callable[[Any], Any] = bool, **arguments: Any) -> Callable[[Any], Any]:
    """One of the verbs. Hypothesis would choose by itself, but seldom chooses rules that have preconditions."""

    def noted(does: Callable[..., None]) -> Callable[..., None]:
        VERBS.append(Verb(does, times, fits, st.fixed_dictionaries(arguments)))
        return does

    return noted


class Session(RuleBasedStateMachine):
    """One session under everything at once. A refusal is allowed anywhere; a broken invariant nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.missing: set[str] = set()
        self.checked = 0
        self.effects: dict[tuple[str, int, str], Any] = {}

    def do(self, command: Any, actor: Any = None) -> Any:
        """The receipt, or None of a refusal, which changes nothing."""
        before = len(self.memory.log)
        try:
            receipt = self.memory.do(command, WORKER if actor is None else actor).receipt
        except Refused:
            assert len(self.memory.log) == before
            return None
        check_state(self.memory.state)
        return receipt

    @property
    def state(self) -> State:
        return self.memory.state

    def those(self, which: Callable[[Loop], bool]) -> list[Loop]:
        """The live loops that it fits, the latest first."""
        return [loop for loop in reversed(list(self.state.loops.values())) if loop.status != "closed" and which(loop)]

    def one(self, which: Callable[[Loop], bool], where: int) -> Loop:
        """One of those it fits; the primary one where there are none."""
        loops = self.those(which)
        return loops[where % len(loops)] if loops else self.state.loops[LOOP]

    def pick(self, entries: Any, index: int) -> str:
        return str(entries[index % len(entries)].id) if entries else "none"

    def subtree(self, top: str, before: State) -> set[str]:
        """A loop and all that ever were below it, as far as the state knows or knew."""
        found = {top}
        for loop in (*before.loops.values(), *self.state.loops.values()):  # a child comes behind its parent
            if loop.parent in found:
                found.add(loop.id)
        return found

    def untouched(self, before: State, tops: set[str], *spared: str) -> None:
        """E1, G3: nothing of siblings and strangers has changed, and no ancestor was marked."""
        inside = set().union(*(self.subtree(top, before) for top in tops))
        above = {each.id for top in tops for each in before.ancestors(before.loops[top])}
        for id, loop in before.loops.items():
            if id in above and loop.turn is not None:
                turn = self.state.loops[id].turn if id in self.state.loops else None
                assert turn is None or turn.mark == loop.turn.mark, "a stop marked an ancestor"
            elif id not in self.state.loops:
                assert loop.status == "closed" or id in inside, "a live loop was forgotten"
            elif id not in {*inside, *spared}:
                assert self.state.loops[id] == loop, "a stop touched a sibling"

    # -- where histories begin

    @initialize(
        where=st.sampled_from(PLACES),
        mode=st.sampled_from(["ask", "auto", "plan"]),
        missing=st.sets(WITHOUT, max_size=12),
    )
    def begin(self, where: str, mode: Any, missing: set[str]) -> None:
        """Histories begin where things meet: a random walk from an empty session seldom gets so far."""
        memory, self.missing = self.memory, missing
        memory.mode("ask" if where in ("asked", "answered", "asked below", "marked at a gate") else mode)
        if where == "idle":
            return
        memory.start()
        in_a_call = where == "called" or "marked in a call" in where
        if in_a_call or where in ("planned", "asked", "answered", "marked at a gate", "given back"):
            memory.plan("1.0", "1.1", "1.2")
        if in_a_call:
            memory.call("1.0")
        elif where in ("asked", "answered", "marked at a gate"):
            self.tool(0, "ok", True, PUSH, "")
        elif where == "serving":
            memory.plan("1.0")
            memory.call("1.0")
            memory.settle("1.0", processes=processes("background"))
        elif where in ("two delegates", "asked below", "not begun") or "family" in where or "three deep" in where:
            self.family(where)
        elif where == "given back in the middle":
            self.given_back_in_the_middle()
        if where == "answered":
            memory.resolve(open_gates(memory.turn)[0], "deny")
        elif where == "given back":
            memory.hand_over("call")
        if "marked" in where:
            self.do(c.Interrupt("r-begin", queue="hold", keep_background="sparing" in where), BEN)

    def family(self, where: str) -> None:
        """A parent that waits: for two delegates, in a chain, given back, or for one that has not begun."""
        memory = self.memory
        memory.plan_delegates("1.0", "1.1", "1.2") if where == "two delegates" else memory.plan_delegates("1.0")
        children = [memory.delegate("1.0")] + ([memory.delegate("1.1")] if where == "two delegates" else [])
        if where == "family given back":
            memory.hand_over("delegate")
        for child in [] if where == "not begun" else children:
            memory.at = child
            memory.resume()
        if "three deep" in where:
            for _ in range(2):
                memory.plan_delegates("1.0")
                child = memory.delegate("1.0")
                if "given back" in where:
                    memory.hand_over("delegate")
                memory.at = child
                memory.resume()
        elif where == "asked below":
            memory.plan("1.0")
            self.tool(0, "ok", True, PUSH, "")

    def given_back_in_the_middle(self) -> None:
        """Nobody has the turn between a parent at work and two delegates, of which one may have begun."""
        memory = self.memory
        memory.plan_delegates("1.0")
        memory.at = memory.delegate("1.0")
        memory.resume()
        memory.plan_delegates("1.0", "1.1")
        memory.delegate("1.0")
        memory.delegate("1.1")
        memory.hand_over("delegate")

    # -- people

    @verb(
        times=3,
        who=ANYBODY,
        where=WHERE,
        text=st.sampled_from(["one", "two", " "]),
        delivery=st.sampled_from(["queue", "fold"]),
    )
    def submit(self, who: Any, where: int, text: str, delivery: str) -> None:
        self.do(c.Submit(self.memory.new_id("i"), text, self.one(anywhere, where).id, delivery), who)

    @verb(fits=lambda self: any(loop.failed for loop in self.state.loops.values()), who=PEOPLE, index=WHERE)
    def retry(self, who: Any, index: int) -> None:
        failed = [entry for loop in self.state.loops.values() for entry in loop.failed]
        self.do(c.Retry(self.pick(failed, index), self.memory.new_id("i")), who)

    @verb(times=2, who=PEOPLE, where=WHERE, urgent=st.booleans(), named=st.booleans())
    def steer(self, who: Any, where: int, urgent: bool, named: bool) -> None:
        loop = self.one(anywhere, where)
        turn = loop.turn.id if named and loop.turn else None
        self.do(c.SendSteer(self.memory.new_id("s"), "steer", urgent, loop.id, turn), who)

    @verb(
        times=2,
        fits=lambda self: self.those(lambda loop: bool(loop.inbox)),
        who=PEOPLE,
        where=WHERE,
        index=WHERE,
        promote=st.sampled_from([None, "normal", "urgent"]),
        to=st.integers(0, 4),
    )
    def edit(self, who: Any, where: int, index: int, promote: Any, to: int) -> None:
        entry = self.pick(self.one(lambda loop: bool(loop.inbox), where).inbox, index)
        self.do(c.EditInput(entry, "changed", to, promote, self.memory.new_id("s")), who)

    @verb(
        times=2,
        fits=lambda self: self.those(lambda loop: bool(loop.inbox or loop.steers)),
        who=PEOPLE,
        where=WHERE,
        index=WHERE,
        how=st.integers(0, 2),
    )
    def take_back(self, who: Any, where: int, index: int, how: int) -> None:
        loop = self.one(lambda loop: bool(loop.inbox or loop.steers), where)
        if loop.inbox and not (loop.steers and index % 2):
            self.do(c.RetractInput(self.pick(loop.inbox, index)), who)
        elif how == 0:
            self.do(c.WithdrawSteer(self.pick(loop.steers, index)), who)
        else:
            entry = self.pick(loop.steers, index)
            self.do(c.EditSteer(entry, "again", how == 2, self.memory.new_id("i")), who)

    @verb(
        times=2,
        fits=lambda self: self.those(lambda loop: any(each.held for each in (*loop.inbox, *loop.steers))),
        who=PEOPLE,
        to=st.sampled_from(["run", "authors"]),
        index=WHERE,
        every=st.booleans(),
    )
    def release(self, who: Any, to: Any, index: int, every: bool) -> None:
        waiting = [entry for loop in self.state.loops.values() for entry in loop.inbox if entry.held]
        inputs = None if every else [self.pick(waiting, index)]
        self.do(c.Release(inputs, None if every else [], to), who)

    @verb(
        times=5,
        who=ANYBODY,
        where=WHERE,
        queue=QUEUE,
        then=st.sampled_from([None, None, "text", "input"]),
        named=st.sampled_from(["loop", "turn", "session"]),
        keep=st.booleans(),
    )
    def interrupt(self, who: Any, where: int, queue: Any, then: Any, named: str, keep: bool) -> None:
        """A stop of the session, of a loop, or of one turn, each with all below it."""
        loop = self.one(running if named == "turn" else anywhere, where)
        after = None
        if then == "text":
            after = c.Then(self.memory.new_id("i"), "then")
        elif then == "input":
            after = c.Then(self.pick(loop.inbox, where))
        turn = loop.turn.id if named == "turn" and loop.turn else None
        scope = loop.id if named == "loop" or (named == "turn" and where % 2) else None
        top = LOOP if named == "session" or (named == "turn" and turn is None and scope is None) else loop.id
        before, request = self.state, self.memory.new_id("r")
        receipt = self.do(c.Interrupt(request, scope, turn, "why", queue, after, keep_background=keep), who)
        if receipt is None:
            return
        began = receipt["turns"] or receipt["note"] == "not_started" or receipt.get("background")
        assert not receipt["accepted"] or began
        self.untouched(before, {top})
        asked = self.memory.data("InterruptRequested")[-1:]
        if asked and asked[0]["request"] == request:
            assert asked[0]["scope"] == (top if scope or turn else "session"), "a stop says another reach than it has"
        if before.status == "open":
            self.stopped(before, request, keep, self.subtree(top, before))

    def stopped(self, before: State, request: str, spares: bool, loops: set[str]) -> None:
        """Every turn in its reach is over or marked, and what ran in the background is to end unless it was spared."""
        killers = {old.seq: old.killer for loop in before.loops.values() for old in loop.background}
        for loop in (each for each in self.state.loops.values() if each.id in loops):
            assert loop.turn is None or loop.turn.mark is not None, "a stop passed a turn by"
            mark = None if loop.turn is None else loop.turn.mark
            if loop.turn is not None and mark and not spares and self.state.requests[mark].keep_background:
                started = [call for call in loop.turn.calls or () if call.status == "started" and call.child is None]
                assert all(call.killer for call in started), "what a call will leave was forgotten at a stop"
            for each in loop.background:
                new = killers[each.seq] is None
                assert spares or each.killer is not None, "background was forgotten at a stop"
                assert not (spares and new and each.killer) or loop.status == "closed", "spared background was ended"

    @verb(times=3, fits=lambda self: self.state.loops[LOOP].status == "idle", who=PEOPLE)
    def go(self, who: Any) -> None:
        """A message, and the turn it opens."""
        self.do(c.Submit(self.memory.new_id("i"), "go"), who)
        self.do(c.Claim(LOOP, self.memory.new_id("t"), "w1"))
        turn = self.state.loops[LOOP].turn
        if turn is not None:
            self.do(c.BeginStep(turn.id, turn.epoch))

    @verb(who=ANYBODY, where=WHERE, mode=st.sampled_from(MODES))
    def mode(self, who: Any, where: int, mode: Any) -> None:
        self.do(c.SetMode(self.one(anywhere, where).id, mode), who)

    @verb(
        who=PEOPLE,
        where=WHERE,
        limit=st.sampled_from([("delegates", 1), ("depth", 1), ("tokens", 4), ("steps", 2), ("tokens", 10**6)]),
    )
    def limits(self, who: Any, where: int, limit: tuple[str, float]) -> None:
        self.do(c.ChangeLoop(self.one(anywhere, where).id, limits=dict([limit])), who)

    @verb(
        times=8, fits=lambda self: self.those(asking), who=ANYBODY, where=WHERE,
        decision=DECISION, start=st.booleans(),
    )  # fmt: skip
    def answer(self, who: Any, where: int, decision: Any, start: bool) -> None:
        """An answer to what is asked; its worker may turn to the call at once."""
        loop = self.one(asking, where)
        self.resolve(loop, who, decision)
        if start and due(self.state.loops[loop.id]):
            self.call(self.state.loops[loop.id], None)

    def resolve(self, loop: Loop, who: Any, decision: Any) -> bool:
        """Whether the answer counts: no agent's does."""
        assert loop.turn is not None
        order = c.Resolve(open_gates(loop.turn)[0], decision, rule_id=self.memory.new_id("rule"))
        answered = self.do(order, who) is not None
        assert not answered or who != BOT, "an agent answered"
        return answered

    @verb(fits=lambda self: self.memory.events("GateOpened"), who=ANYBODY, late=st.integers(0, 3))
    def answer_late(self, who: Any, late: int) -> None:
        """An answer to what was asked once."""
        gates = [event.data["gate"] for event in self.memory.events("GateOpened")]
        order = c.Resolve(gates[-1 - late % len(gates)], "allow", rule_id=self.memory.new_id("rule"))
        assert self.do(order, who) is None or who != BOT, "an agent answered"

    @verb(fits=lambda self: self.state.rules, who=PEOPLE, index=st.integers(0, 3))
    def revoke(self, who: Any, index: int) -> None:
        self.do(c.RevokeRule(self.pick(self.state.rules, index)), who)

    @verb(keep=st.booleans(), queue=st.sampled_from(["run", "hold", "clear"]))
    def settings(self, keep: bool, queue: str) -> None:
        self.do(c.ChangeSession(settings={"keep_partial_reply": keep, "stop_queue": queue}), ANA)

    @verb(sure=st.sampled_from([False, True]))
    def close(self, sure: bool) -> None:
        if sure:
            self.do(c.Close(self.memory.new_id("r")), ANA)

    # -- workers

    @verb(
        times=4,
        fits=lambda self: self.those(lambda loop: not held(loop)),
        where=WHERE,
        worker=WORKERS,
        resume=st.booleans(),
    )
    def claim(self, where: int, worker: str, resume: bool) -> None:
        self.claim_one(self.one(lambda loop: not held(loop), where), worker, resume)

    def claim_one(self, loop: Loop, worker: str, resume: bool = True) -> None:
        claimable, back = self.state.claimable(loop), loop.turn is not None
        receipt = self.do(c.Claim(loop.id, self.memory.new_id("t"), worker, resume))
        assert receipt["claimed"] == (claimable and (resume or not back))

    @verb(
        times=4,
        fits=lambda self: self.those(held),
        where=WHERE,
        at=st.sampled_from(["safe_point", "call", "gate", "delegate", "back_off", "model"]),
    )
    def hand_over(self, where: int, at: Any) -> None:
        turn = self.one(held, where).turn
        if turn is not None:
            self.do(c.HandOver(turn.id, turn.epoch, at, {"output_tokens": 1} if at == "model" else {}))

    @verb(times=4, fits=lambda self: self.those(thinking), where=WHERE, tools=TOOLS, safe_point=st.booleans())
    def model(self, where: int, tools: list[str], safe_point: bool) -> None:
        loop = self.one(thinking, where)
        if thinking(loop):
            self.reply(loop, tools, safe_point)

    def reply(self, loop: Loop, tools: list[str], safe_point: bool = False) -> None:
        """The safe point, and the model's reply unless it is to stay there."""
        turn = loop.turn
        assert turn is not None
        self.do(c.BeginStep(turn.id, turn.epoch))
        now = self.state.loops[loop.id]
        turn = now.turn
        if turn is None:
            return
        first = now.next_input()
        left = now.ready_steers() or (first is not None and first.delivery == "fold")
        assert turn.mark is not None or not left, "a safe point left something behind"
        if safe_point:
            return
        planned = tuple(
            c.PlannedCall(f"{turn.step}.{n}", tool, {"command": "x" if n else turn.step})
            for n, tool in enumerate(tools)
        )
        reply = c.FinishModel(turn.id, turn.epoch, turn.step, "text", calls=planned, usage={"output_tokens": 1})
        self.do(reply)

    @verb(
        times=4,
        fits=lambda self: self.those(lambda loop: due(loop) is not None),
        where=WHERE,
        outcome=OUTCOME,
        start_only=st.booleans(),
        effect=EFFECT,
        left=LEFT,
    )
    def tool(self, where: int, outcome: Any, start_only: bool, effect: Any, left: str) -> None:
        loop = self.one(lambda loop: due(loop) is not None, where)
        if due(loop) is not None:
            self.call(loop, effect, None if start_only else c.Settlement(outcome, "out", processes=processes(left)))

    def call(self, loop: Loop, effect: Any, settlement: c.Settlement | None = None) -> None:
        """The next call of a loop: it starts, unless something stands in the way, and may settle."""
        turn, call = loop.turn, due(loop)
        assert turn is not None and call is not None
        if call.status == "planned":
            self.start(loop, turn, call, effect)
        if settlement is not None and call.tool != DELEGATE:
            self.do(c.SettleTool(turn.id, turn.epoch, turn.step, call.call, settlement))

    def start(self, loop: Loop, turn: Turn, call: Call, effect: Any) -> None:
        # a call has one effect, however often it asks
        effect = self.effects.setdefault((turn.id, turn.step, call.call), effect)
        child = None
        if call.tool == DELEGATE:
            child = c.Child(self.memory.new_id("loop-"), self.memory.new_id("i"), "task")
        gate, strictest = self.memory.new_id("g"), self.strictest(loop.id)
        order = c.StartTool(turn.id, turn.epoch, turn.step, call.call, {}, effect, gate, child)
        receipt = self.do(order)
        if effect is not None and receipt is not None and receipt.get("outcome") == "started":
            allowed = call.answer == "allow" or bool(self.state.rules)
            assert allowed or (strictest == "auto" and not effect.risky), "it started without leave"
            assert strictest != "plan" or call.answer == "allow", "it only plans"

    def strictest(self, loop: str) -> str:
        """The strictest mode since the step began, read from the log (I1)."""
        modes: list[str] = []
        for event in self.memory.log:
            if event.loop != loop:
                continue
            if event.type in ("LoopStarted", "ModeChanged"):
                modes.append(event.data["mode"])
            elif event.type in ("TurnStarted", "StepDone", "OutputSuperseded"):
                modes = modes[-1:]
        return min(modes, key=MODES.index)

    def goes_on(self, loop: Loop) -> bool:
        """Whether a worker has something to do there; a stopped turn ends after those below it."""
        if not held(loop):
            return self.state.claimable(loop)
        marked = loop.turn is not None and loop.turn.mark is not None
        return not waiting(loop) or (not marked and due(loop) is not None)

    @verb(
        times=10, steps=st.integers(1, 9), where=WHERE, tools=TOOLS, outcome=OUTCOME, effect=EFFECT, left=LEFT,
        worker=WORKERS, who=ANYBODY, decision=DECISION,
    )  # fmt: skip
    def work(
        self,
        steps: int,
        where: int,
        tools: list[str],
        outcome: Any,
        effect: Any,
        left: str,
        worker: str,
        who: Any,
        decision: Any,
    ) -> None:
        """What workers do one after the other: without it a history seldom gets to the end of a family."""
        for _ in range(steps):
            loop = self.one(self.goes_on, where)
            if not self.goes_on(loop):
                return
            if not held(loop):
                self.claim_one(loop, worker)
            elif loop.turn is not None and loop.turn.mark is not None:
                before = self.state
                self.do(c.EndTurn(loop.turn.id, loop.turn.epoch, "worker"))
                self.nothing_left_to_run_on(before, loop.turn)
            elif thinking(loop):
                self.reply(loop, tools)
                tools = []
            elif asking(loop):
                if not self.resolve(loop, who, decision):
                    return
            else:
                self.call(loop, effect, c.Settlement(outcome, "out", processes=processes(left)))

    @verb(
        times=5,
        fits=lambda self: self.those(held),
        where=WHERE,
        fails=st.booleans(),
        by=st.sampled_from(["worker", "fence", "sweep"]),
        cause=CAUSE,
        marked=st.booleans(),
        unknown=st.booleans(),
        left=LEFT,
        patient=st.booleans(),
    )
    def end(
        self, where: int, fails: bool, by: Any, cause: Any, marked: bool, unknown: bool, left: str, patient: bool
    ) -> None:
        """A turn ends, by a fault, a stop, a loss or a budget; a patient worker asks again until its delegates have."""
        loop = self.one((lambda loop: loop.turn is not None and loop.turn.mark is not None) if marked else held, where)
        if not held(loop):
            return
        self.end_one(loop, fails, by, cause, unknown, left)
        while patient and (below := self.ending_below(loop.id)):
            for child in below:
                self.end_one(child, False, "worker", cause, False, left)
            now = self.state.loops.get(loop.id)
            if now is not None and held(now):
                self.end_one(now, fails, by, cause, unknown, left)

    def ending_below(self, top: str) -> list[Loop]:
        """The marked turns below a loop that somebody has, and that wait for nobody themselves."""
        below = self.state.below(self.state.loops[top]) if top in self.state.loops else []
        return [loop for loop in below if held(loop) and loop.turn and loop.turn.mark and not self.at_work(loop)]

    def at_work(self, loop: Loop) -> list[Loop]:
        return [each for each in self.state.below(loop) if each.turn is not None]

    def end_one(self, loop: Loop, fails: bool, by: Any, cause: Any, unknown: bool, left: str) -> None:
        turn, before = loop.turn, self.state
        assert turn is not None
        request = self.memory.new_id("r")
        settlement = c.Settlement("interrupted", processes=processes(left))
        settlements = {call.call: settlement for call in turn.calls or ()}
        order: c.Command = c.Fail(turn.id, turn.epoch, "provider_error", "no", request=request)
        if not fails:
            which = "tokens" if cause == "budget" else ""
            order = c.EndTurn(
                turn.id, turn.epoch, by, cause, settlements, {"text": "cut"}, unknown=unknown, which=which,
                request=request,
            )  # fmt: skip
        receipt = self.do(order)
        assert receipt is not None, "who has a turn can end it"
        if receipt.get("outcome") == "waiting":
            below = self.at_work(self.state.loops[loop.id])
            assert below and all(each.turn and each.turn.mark for each in below), "it waits for what nobody ends"
        elif fails and turn.mark is not None:
            assert receipt["marked"], "a mark beats a fault"
        else:
            assert self.state.turn(turn.id) is None
            self.nothing_left_to_run_on(before, turn)
        self.untouched(before, {loop.id, *self.ended_with_it(before, loop)})

    def nothing_left_to_run_on(self, before: State, turn: Turn) -> None:
        """E13: what the calls of a stopped turn left in the background is to end, unless its stop spared that.

        A delegate's is its parent's once it is closed.
        """
        mark = before.requests[turn.mark] if turn.mark else None
        if mark is not None and not (mark.keep_background and before.status == "open"):
            left = [each for loop in self.state.loops.values() for each in loop.background if each.turn == turn.id]
            assert all(each.killer for each in left), "background was forgotten when it settled into a stop"

    def ended_with_it(self, before: State, loop: Loop) -> set[str]:
        """Stopped turns above that nobody has: they end, with all below, once the last one below has (G3)."""
        above = [(each.id, each.turn) for each in before.ancestors(loop) if each.turn is not None]
        ended = [(id, turn) for id, turn in above if turn.mark and turn.given_back()]
        return {id for id, turn in ended if self.state.turn(turn.id) is None}

    # -- what runs on

    @verb(early=st.booleans(), index=st.integers(0, 9))
    def survivors_end(self, early: bool, index: int) -> None:
        """What survived a call ends: while its turn goes on, after it, or before the call is settled (refused)."""
        left = self.left_over("surviving")
        if early:
            running = [(loop.id, loop.turn) for loop in self.state.loops.values() if loop.turn is not None]
            left = [(loop, turn.id, call.call) for loop, turn in running for call in turn.calls or ()]
        if left:
            loop, of, call = left[index % len(left)]
            self.do(c.SurvivorsEnded(of, loop, call, PROCESS))

    def left_over(self, kind: str) -> list[tuple[str, str, str]]:
        """Loop, turn and call of what settled calls left running."""
        settled = [event for event in self.memory.events("ToolSettled") if event.data["processes"][kind]]
        return [(event.loop or "", event.turn or "", event.data["call"]) for event in settled]

    @verb(
        times=4,
        fits=lambda self: self.left_over("background"),
        index=st.integers(0, 9),
        who=PEOPLE,
        how=st.sampled_from(["kill", "ends", "killed", "survives"]),
    )
    def background(self, index: int, who: Any, how: str) -> None:
        """What runs in the background is killed, ends (by itself, or killed), or outlives its kill."""
        left = self.left_over("background")
        loop, of, call = left[index % len(left)]
        if how in ("kill", "killed"):
            self.do(c.KillProcesses(call), who)
        if how != "kill":
            self.do(c.BackgroundEnded(of, loop, call, PROCESS, PROCESS if how == "survives" else ()))

    @verb(fits=lambda self: self.those(lambda loop: due(loop) is not None), where=WHERE)
    def background_ends_too_early(self, where: int) -> None:
        """Before its call has settled nothing is listed; its worker tries again."""
        loop = self.one(lambda loop: due(loop) is not None, where)
        call = due(loop)
        if call is not None and loop.turn is not None:
            assert self.do(c.BackgroundEnded(loop.turn.id, loop.id, call.call, PROCESS)) is None

    # -- reports out of time and place

    @verb(times=2, index=st.integers(0, 9), kind=st.integers(0, 6))
    def late_report(self, index: int, kind: int) -> None:
        """A worker that lost its turn, or gave it back, goes on reporting: nothing may come of it (C1)."""
        has = {(loop.turn.id, loop.turn.epoch) for loop in self.state.loops.values() if loop.turn and held(loop)}
        had = [(event.turn or "", event.data["epoch"]) for event in self.memory.events("TurnStarted", "TurnResumed")]
        gone = [each for each in had if each not in has]
        if not gone:
            return
        turn, epoch = gone[-1 - index % len(gone)]
        late: list[Any] = [
            c.BeginStep(turn, epoch),
            c.FinishModel(turn, epoch, 1, "late"),
            c.StartTool(turn, epoch, 1, "1.0", {}, child=c.Child("loop-late", "i-late", "late")),
            c.SettleTool(turn, epoch, 1, "1.0", c.Settlement("ok")),
            c.EndTurn(turn, epoch, "worker", "worker_lost"),
            c.Fail(turn, epoch, "provider_error", "late"),
            c.HandOver(turn, epoch, "safe_point"),
        ]
        before = len(self.memory.log)
        with pytest.raises(Refused) as refused:
            self.memory.do(late[kind])
        assert refused.value.code == "stale"
        assert len(self.memory.log) == before

    @verb(
        times=3,
        fits=lambda self: self.those(lambda loop: held(loop) and not thinking(loop)),
        where=WHERE,
        kind=st.integers(0, 3),
    )
    def odd_report(self, where: int, kind: int) -> None:
        """A worker says what cannot be in the middle of a step: nothing comes of it, whatever its budget says."""
        loop = self.one(lambda loop: held(loop) and not thinking(loop), where)
        turn = loop.turn
        if turn is None or not turn.calls or turn.given_back():
            return
        call = (turn.delegated() or turn.calls)[0]
        odd: list[Any] = [
            c.BeginStep(turn.id, turn.epoch),
            c.FinishModel(turn.id, turn.epoch, turn.step, "again"),
            c.FinishModel(turn.id, turn.epoch, turn.step + 1, "ahead"),
        ]
        if call.status != "started" or call.child is not None:
            odd.append(c.SettleTool(turn.id, turn.epoch, turn.step, call.call, c.Settlement("ok", "forged")))
        before = len(self.memory.log)
        receipt = self.do(odd[kind % len(odd)])
        assert receipt is None or receipt == {"marked": True}
        assert len(self.memory.log) == before, "an odd report did something"

    @rule(data=st.data())
    def somebody_does_something(self, data: Any) -> None:
        """Any of what fits now; each history does without some verbs, so that others meet more often."""
        fitting = [each for each in VERBS if each.does.__name__ not in self.missing and each.fits(self)]
        chosen = data.draw(st.sampled_from([each for each in fitting for _ in range(each.times)]), "does")
        chosen.does(self, **data.draw(chosen.arguments, chosen.does.__name__))

    @invariant()
    def holds(self) -> None:
        if len(self.memory.log) != self.checked:
            check(self.memory)
            self.checked = len(self.memory.log)


TestSession = pytest.mark.rule(
    "A1", "A2", "A3", "A5", "B3", "B5", "B6", "B7", "C1", "C4", "C6", "D3", "D8", "E1", "E2", "E3", "E5", "E10", "E13",
    "G1", "G3", "G4", "G5", "H1", "H2", "H3", "I1", "J4", "K1", "F",
)(pytest.mark.timeout(0 if "STEERWEB_HISTORIES" in os.environ else 900)(Session.TestCase))  # fmt: skip
TestSession.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    # Without `explain`, which traces every line of every history and takes five times as long.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
