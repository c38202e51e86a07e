"""Gates and modes (H, I): whether a call may start, who answers what asks, and what closes the question.

A call is judged when it would start, by the strictest mode since its step began: a stricter mode binds every call that
has not started, a looser one the next step (I1). An answer, a stop, an urgent steer and a stricter mode meet under the
session's lock: the first decides, and an answer that comes after is told so.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from sessions_app.engine import rules
from sessions_app.engine.commands import ChangeLoop, Effect, Resolve, RevokeRule, RuleSpec, SetMode, StartTool
from sessions_app.engine.decide.context import Context, Decision, find_loop, open_session
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import INPUT_BYTES, REASON_BYTES, check_budgets, check_size
from sessions_app.engine.state import Call, Loop, Rule, State, Turn, stricter


class Judgement(NamedTuple):
    """What becomes of a call; `rule` is the standing answer by which it runs, where it would have asked."""

    verdict: Literal["run", "ask", "forbidden"]
    rule: str | None = None


def judge(state: State, turn: Turn, call: Call, effect: Effect | None, context: Context) -> Judgement:
    """What becomes of a call that is about to start. A reading call (no effect) always runs.

    A question once asked is answered or closed before its call runs, whatever else was allowed meanwhile (H1).
    """
    if call.answer == "open":
        return Judgement("ask")
    if effect is None or call.answer == "allow":
        return Judgement("run")
    if turn.mode == "plan":
        return Judgement("forbidden")
    if turn.mode == "auto" and not effect.risky:
        return Judgement("run")
    standing = next((rule.id for rule in state.rules if _covers(rule, call, effect, context)), None)
    return Judgement("ask") if standing is None else Judgement("run", standing)


def _covers(rule: Rule, call: Call, effect: Effect, context: Context) -> bool:
    if rule.tool != call.tool:
        return False
    value = context.payload(rule.seq)["rule"]["value"]
    return isinstance(value, str) and rules.covers(RuleSpec(rule.kind, value), effect)  # an erased rule covers nothing


def ask(loop: Loop, turn: Turn, call: Call, command: StartTool) -> Decision:
    """Open the gate; asked again while it is open, it is the same gate (H1)."""
    if call.answer == "open":
        return Decision((), {"marked": False, "outcome": "asked", "gate": call.gate})
    assert command.effect is not None, "what only reads asks nothing"
    data: dict[str, Any] = {
        "gate": command.gate,
        "call": call.call,
        "tool": call.tool,
        "question": "risk" if turn.mode == "auto" else "effect",
        "offers": [{"kind": offer.kind, "value": offer.value} for offer in rules.offers(command.effect)],
    }
    opened = Draft("GateOpened", data, loop.id, turn.id, turn.step)
    return Decision((opened,), {"marked": False, "outcome": "asked", "gate": command.gate})


def closed(loop: Loop, turn: Turn, reason: str) -> list[Draft]:
    """The turn's open gate closes unanswered: by a `stop`, a `steer`, a `mode`, or because the turn has `ended`."""
    return [
        Draft("GateClosed", {"gate": call.gate, "call": call.call, "reason": reason}, loop.id, turn.id, turn.step)
        for call in turn.calls or ()
        if call.answer == "open"
    ]


def withdrawn(loop: Loop) -> list[Draft]:
    """An urgent steer for this loop withdraws the call that is being asked about (D11)."""
    return closed(loop, loop.turn, "steer") if loop.turn is not None and loop.turn.mark is None else []


def open_gates(turn: Turn) -> list[str]:
    """The ids of the turn's open gates."""
    return [call.gate for call in turn.calls or () if call.answer == "open" and call.gate is not None]


def resolve(state: State, command: Resolve, context: Context) -> Decision:
    """A person answers (H3). The first answer wins; after a stop, or when the question is gone, there is none (H2).

    A rule answers whatever else is being asked that it covers: nobody says the same twice.
    """
    if context.actor.kind == "agent":
        raise Refused("not_allowed", "Only a person answers an approval, not an agent.")
    if command.message is not None:
        check_size(command.message, REASON_BYTES, "message")
    loop, turn, call = _find_gate(state, command.gate)
    if turn.mark is not None:
        raise Refused("gate_closed", "It is being stopped: nothing is asked any more.", gate=command.gate)
    data: dict[str, Any] = {"gate": command.gate, "call": call.call}
    data["decision"] = "deny" if command.decision == "deny" else "allow"
    also: list[Draft] = []
    if command.decision == "allow_rule":
        rule = _chosen(call, command, context)
        also = _also_allowed(state, call, rule, context)
        data["rule"] = {"id": command.rule_id, "kind": rule.kind, "tool": call.tool, "value": rule.value}
    if command.message and command.message.strip():
        data["message"] = command.message
    receipt = {"gate": command.gate, "decision": command.decision}
    return Decision((Draft("GateResolved", data, loop.id, turn.id, turn.step), *also), receipt)


def _asking(state: State) -> Iterator[tuple[Loop, Turn, Call]]:
    """All that is being asked."""
    for loop in state.loops.values():
        for call in loop.turn.calls or () if loop.turn is not None else ():
            if call.answer == "open" and loop.turn is not None:
                yield loop, loop.turn, call


def _find_gate(state: State, gate: str) -> tuple[Loop, Turn, Call]:
    found = next((each for each in _asking(state) if each[2].gate == gate), None)
    if found is None:
        raise Refused("gate_not_found", "There is no such approval.", gate=gate)
    return found


def _also_allowed(state: State, answered: Call, rule: RuleSpec, context: Context) -> list[Draft]:
    """The other questions that a new rule answers. The narrowest rule that a question offers is its call itself."""
    allowed = []
    for loop, turn, call in _asking(state):
        if call.gate == answered.gate or call.tool != answered.tool or turn.mark is not None:
            continue
        narrowest = next(iter(_offered(call, context)), None)
        if narrowest is not None and rules.covers(rule, rules.effect_of(narrowest)):
            data = {"gate": call.gate, "call": call.call, "decision": "allow"}
            allowed.append(Draft("GateResolved", data, loop.id, turn.id, turn.step))
    return allowed


def _offered(call: Call, context: Context) -> list[RuleSpec]:
    """The rules that an open question offers, the narrowest first, less those that have been erased."""
    offers = context.payload(call.seq or 0)["offers"]
    return [RuleSpec(offer["kind"], offer["value"]) for offer in offers if isinstance(offer["value"], str)]


def _chosen(call: Call, command: Resolve, context: Context) -> RuleSpec:
    """The rule that was chosen among those offered with the question, the narrowest where none was named."""
    offered = _offered(call, context)
    chosen = command.rule if command.rule is not None else (offered[0] if offered else None)
    if chosen is None or chosen not in offered:
        choices = [{"kind": offer.kind, "value": offer.value} for offer in offered]
        raise Refused("invalid", "That rule is not among those this approval offers.", field="rule", offers=choices)
    return chosen


def set_mode(state: State, command: SetMode, context: Context) -> Decision:
    """Change an agent's mode, on a marked turn too (I1). What `plan` forbids is not asked about any more."""
    open_session(state)
    loop = find_loop(state, command.loop)
    if command.mode == loop.mode:
        return Decision((), {"mode": loop.mode, "changed": False}, "unchanged")
    if context.actor.kind == "agent" and stricter(loop.mode, command.mode) != command.mode:
        raise Refused("not_allowed", "Only a person lets an agent do more without asking.")
    events = [Draft("ModeChanged", {"mode": command.mode}, loop.id)]
    turn = loop.turn
    if turn is not None and turn.mark is None and stricter(turn.mode, command.mode) == "plan":
        events += closed(loop, turn, "mode")
    return Decision(tuple(events), {"mode": command.mode, "changed": True})


def change_loop(state: State, command: ChangeLoop, context: Context) -> Decision:
    """Change an agent's model, instructions or limits from its next turn on (I1)."""
    open_session(state)
    loop = find_loop(state, command.loop)
    data: dict[str, Any] = {}
    if command.model is not None:
        data["model"] = command.model
    if command.instructions is not None:
        check_size(command.instructions, INPUT_BYTES, "instructions")
        data["instructions"] = command.instructions
    if command.limits:
        check_budgets(command.limits)
        data["limits"] = dict(command.limits)
    if not data:
        raise Refused("invalid", "Nothing to change: give `mode`, `model`, `instructions` or `limits`.")
    return Decision((Draft("LoopChanged", data, loop.id),), {"loop": loop.id})


def revoke_rule(state: State, command: RevokeRule, context: Context) -> Decision:
    """Take a standing answer back: from now on such calls ask again (H3)."""
    open_session(state)
    if all(rule.id != command.rule for rule in state.rules):
        raise Refused("not_found", "There is no such rule.", rule=command.rule)
    return Decision((Draft("RuleRevoked", {"rule": command.rule}),), {"rule": command.rule})
