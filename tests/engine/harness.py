"""A session that lives in memory: the pure engine with a clock and a log of its own, for generated and told tales."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.actors import SYSTEM, Actor, Device
from sessions_app.engine.decide import Context, Decision, Phase, decide
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft, Event, text_slots
from sessions_app.engine.fold import evolve
from sessions_app.engine.state import Loop, State, Turn, from_json, to_json
from sessions_app.log.read import INLINE_BYTES

ANA = Actor("person", "a", "Ana", Device("desk", "Ana's desk"))
BEN = Actor("person", "b", "Ben", Device("phone", "Ben's phone"))
BOT = Actor("agent", "m", "Nightly", Device("api", "Nightly"))
WORKER = Actor("system", "w", "worker")
LOOP = "loop-1"


@dataclass
class Memory:
    """One session. `log` is all that ever happened, `state` the running fold, and `forgetful` the running fold of the
    same log with every text erased (A3). `at` is the loop that its verbs are about."""

    settings: dict[str, Any] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    state: State = field(default_factory=State)
    forgetful: State = field(default_factory=State)
    now_ms: int = 1_000_000
    ids: int = 0
    phases: dict[str, Phase] = field(default_factory=dict)
    at: str = LOOP
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        created = {"title": "t", "created_by": "a", "workspace": "/w", "settings": self.settings}
        started = {"parent": None, "agent": "steerweb", "model": "demo:", "mode": "auto", "instructions": ""}
        self._append([Draft("SessionCreated", created), Draft("LoopStarted", started, LOOP)], ANA, "c0")

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}{self.ids}"

    def do(self, command: c.Command, actor: Actor = SYSTEM) -> Decision:
        """Decide and append; raises `Refused` and then leaves everything as it was."""
        self.now_ms += 7
        cause = self.new_id("c")
        context = Context(
            actor,
            self.now_ms,
            self.phases,
            self.payload,
            self._returned,
            len(self.log),
            cause,
            self._files,
            self._there,
        )
        before = to_json(self.state)
        try:
            decision = decide(self.state, command, context)
        finally:
            assert to_json(self.state) == before, "decide changed the state it was given"
        self._append(decision.events, actor, cause)
        return decision

    def refused(self, command: c.Command, actor: Actor = ANA) -> Refused:
        """The refusal of a command, which has changed nothing."""
        before = len(self.log)
        with pytest.raises(Refused) as caught:
            self.do(command, actor)
        assert len(self.log) == before
        return caught.value

    def _append(self, drafts: Any, actor: Actor, cause: str) -> None:
        for draft in drafts:
            event = Event(
                len(self.log) + 1,
                self.now_ms,
                draft.type,
                copy.deepcopy(draft.data),
                draft.loop,
                draft.turn,
                draft.step,
                draft.actor or actor,
                draft.cause or cause,
            )
            self.log.append(event)
            self.state = evolve(self.state, event)
            self.forgetful = evolve(self.forgetful, without_texts(event))

    def payload(self, seq: int) -> dict[str, Any]:
        """An event's payload; a number that no event has is an error here as it is in the log."""
        if not 1 <= seq <= len(self.log):
            raise LookupError(f"no event has the number {seq}")
        return self.log[seq - 1].data

    def _returned(self, seq: int) -> Any:
        text = self.payload(seq)["text"]
        return text if len(text) <= INLINE_BYTES else {"ref": f"{seq}.text", "size": len(text)}

    def _files(self, seq: int) -> list[dict[str, Any]]:
        return list(self.payload(seq).get("files") or ())

    def _there(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {each: self.uploads[each] for each in ids if each in self.uploads}

    def upload(self, name: str = "plan.png", type_: str = "image/png", size: int = 3) -> str:
        """A file that is there to be named; its id."""
        identity = self.new_id("f")
        self.uploads[identity] = {"id": identity, "name": name, "size": size, "type": type_}
        return identity

    def round_trip(self) -> State:
        return from_json(to_json(self.state))

    def erase(self, seq: int) -> None:
        """The texts of an event read as the log gives them once they are erased (A3)."""
        self.log[seq - 1] = without_texts(self.log[seq - 1], {"erased": True})

    # -- what it looks like

    def types(self, after: int = 0) -> list[str]:
        return [event.type for event in self.log[after:]]

    def events(self, *types: str) -> list[Event]:
        return [event for event in self.log if event.type in types]

    def data(self, *types: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events(*types)]

    @property
    def loop(self) -> Loop:
        return self.state.loops[self.at]

    def closed(self, loop: str) -> bool:
        """Whether a delegate has closed; the state forgets it with its parent's turn."""
        return loop not in self.state.loops or self.state.loops[loop].status == "closed"

    @property
    def turn(self) -> Turn:
        """The turn that runs."""
        assert self.loop.turn is not None
        return self.loop.turn

    @property
    def inbox(self) -> list[str]:
        """Ids of what waits, a held one with a minus."""
        return [f"{'-' if entry.held else ''}{entry.id}" for entry in self.loop.inbox]

    @property
    def steers(self) -> list[str]:
        """Ids of pending steers, a held one with a minus."""
        return [f"{'-' if entry.held else ''}{entry.id}" for entry in self.loop.steers]

    # -- what people and a worker do; the receipt, or for what makes something new its id

    def submit(self, text: str = "hello", who: Actor = ANA, **fields: Any) -> str:
        return str(self.do(c.Submit(self.new_id("i"), text, self.at, **fields), who).receipt["input"])

    def steer(self, text: str = "left", *, urgent: bool = False, who: Actor = BEN) -> str:
        return str(self.do(c.SendSteer(self.new_id("s"), text, urgent, self.at), who).receipt["steer"])

    def stop(self, who: Actor = ANA, **fields: Any) -> dict[str, Any]:
        return self.do(c.Interrupt(self.new_id("r"), **fields), who).receipt

    def close(self, who: Actor = ANA) -> dict[str, Any]:
        return self.do(c.Close(self.new_id("r")), who).receipt

    def claim(self) -> dict[str, Any]:
        return self.do(c.Claim(self.at, self.new_id("t"), "w"), WORKER).receipt

    def begin(self) -> dict[str, Any]:
        return self.do(c.BeginStep(self.turn.id, self.turn.epoch), WORKER).receipt

    def start(self, text: str = "hello", who: Actor = ANA) -> str:
        """Submit and claim: a running turn at its first safe point. The turn's id."""
        self.submit(text, who)
        return self.resume()

    def resume(self) -> str:
        """Claim what waits, up to the first safe point. The turn's id."""
        assert self.claim()["claimed"]
        self.begin()
        return self.turn.id

    def answer(self, text: str = "done", **fields: Any) -> dict[str, Any]:
        fields.setdefault("usage", {"output_tokens": 1})
        command = c.FinishModel(self.turn.id, self.turn.epoch, self.turn.step, text, **fields)
        return self.do(command, WORKER).receipt

    def plan(self, *calls: str, text: str = "", **fields: Any) -> dict[str, Any]:
        planned = tuple(c.PlannedCall(call, "shell", {"command": f"echo {call}"}) for call in calls)
        return self.answer(text, calls=planned, **fields)

    def call(self, call: str, effect: c.Effect | None = None) -> dict[str, Any]:
        """Start a call; one without an effect only reads."""
        arguments, turn = {"command": f"echo {call}"}, self.turn
        command = c.StartTool(turn.id, turn.epoch, turn.step, call, arguments, effect, self.new_id("g"))
        return self.do(command, WORKER).receipt

    def plan_delegates(self, *calls: str, **fields: Any) -> dict[str, Any]:
        planned = tuple(c.PlannedCall(call, "delegate", {"task": call}) for call in calls)
        return self.answer("", calls=planned, **fields)

    def delegate(self, call: str = "d", task: str = "look around") -> str:
        """Start a call that delegates; the child's loop, or the answer's outcome where there is none."""
        child = c.Child(self.new_id("loop-"), self.new_id("i"), task)
        turn, arguments = self.turn, {"task": task}
        command = c.StartTool(turn.id, turn.epoch, turn.step, call, arguments, child=child)
        outcome = str(self.do(command, WORKER).receipt["outcome"])
        return child.loop if outcome == "started" else outcome

    def hand_over(self, at: Any = "safe_point", **fields: Any) -> dict[str, Any]:
        return self.do(c.HandOver(self.turn.id, self.turn.epoch, at, **fields), WORKER).receipt

    def ask(self, call: str = "a", command: str = "git push origin", **fields: Any) -> str:
        """A call that asks; the gate's id."""
        answer = self.call(call, c.Effect("command", command, **fields))
        assert answer["outcome"] == "asked"
        return str(answer["gate"])

    def resolve(self, gate: str, decision: Any = "allow", who: Actor = ANA, **fields: Any) -> dict[str, Any]:
        return self.do(c.Resolve(gate, decision, rule_id=self.new_id("rule"), **fields), who).receipt

    def mode(self, mode: Any, who: Actor = ANA) -> dict[str, Any]:
        return self.do(c.SetMode(self.at, mode), who).receipt

    def settle(self, call: str, outcome: Any = "ok", output: str = "out", **fields: Any) -> dict[str, Any]:
        settlement = c.Settlement(outcome, output, **fields)
        return self.do(c.SettleTool(self.turn.id, self.turn.epoch, self.turn.step, call, settlement), WORKER).receipt

    def end(self, by: Any = "worker", **fields: Any) -> dict[str, Any]:
        return self.do(c.EndTurn(self.turn.id, self.turn.epoch, by, **fields), WORKER).receipt

    def fail(self, code: str = "provider_error", detail: str = "no") -> dict[str, Any]:
        return self.do(c.Fail(self.turn.id, self.turn.epoch, code, detail), WORKER).receipt


def without_texts(event: Event, sign: object = None) -> Event:
    """The event with `sign` where its texts stood."""
    data = copy.deepcopy(event.data)
    for container, key in list(text_slots(event.type, data)):
        container[key] = sign
    return replace(event, data=data)
