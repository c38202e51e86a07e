"""The soft interrupt: accepting, delivering and taking back steers (D)."""

from typing import Any

from sessions_app.engine.actors import agency_of
from sessions_app.engine.commands import EditSteer, SendSteer, WithdrawSteer
from sessions_app.engine.decide.context import Context, Decision, addressed, credit, open_session, wrote
from sessions_app.engine.decide.files import kept, named, worded
from sessions_app.engine.decide.gates import withdrawn
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import INPUTS_WAITING, STEER_BYTES, STEERS_PENDING, check_text
from sessions_app.engine.state import Loop, State, Steer, Turn


def check_steer_limits(loop: Loop, text: str) -> None:
    """Refuse the seventeenth pending steer (`steer_full`), blank and oversized text (D1)."""
    check_text(text, STEER_BYTES, "steer")
    if len(loop.steers) >= STEERS_PENDING:
        raise Refused("steer_full", f"{STEERS_PENDING} steers wait already.", limit=STEERS_PENDING)


def steer(state: State, command: SendSteer, context: Context) -> Decision:
    """Accept a steer and say where it will land; never waits for the turn (D2, D9, D10)."""
    open_session(state)
    loop = addressed(state, command.loop, command.turn)
    files = named(command.files, context)
    text = worded(command.text, files)
    check_steer_limits(loop, text)
    turn = loop.turn
    if command.turn is not None and (turn is None or turn.id != command.turn or turn.mark is not None):
        running = None if turn is None or turn.mark is not None else turn.id
        detail = "That turn is over, or another agent's."
        raise Refused("turn_mismatch", detail, text=command.text, running=running)
    data: dict[str, Any] = {"steer": command.steer, "text": text, "urgent": command.urgent, **files}
    if command.turn is not None:
        data["for_turn"] = command.turn
    receipt = {"steer": command.steer, "lands": _lands(loop, context)}
    events = [Draft("SteerQueued", data, loop.id), *(withdrawn(loop) if command.urgent else ())]
    return Decision(tuple(events), receipt)


def _lands(loop: Loop, context: Context) -> dict[str, Any]:
    turn = loop.turn
    if turn is None or turn.mark is not None:
        return {"when": "next_turn"}
    phase = context.phases.get(turn.id)
    if phase is None:
        return {"when": "safe_point"}
    return {"when": "safe_point", "after": phase.phase, "running_ms": max(0, phase.since_ms)}


def find_steer(state: State, steer_id: str) -> tuple[Loop, Steer]:
    for loop in state.loops.values():
        for pending in loop.steers:
            if pending.id == steer_id:
                return loop, pending
    raise Refused("steer_not_found", "No such steer is pending.", steer=steer_id)


def withdraw(loop: Loop, pending: Steer, reason: str, context: Context, turn: str | None = None) -> Draft:
    """One steer leaves undelivered, with its text (D8)."""
    text = context.returned(pending.text_seq)
    data = {"steer": pending.id, "reason": reason, "text": text, **kept(pending.seq, context)}
    return Draft("SteerWithdrawn", data, loop.id, turn)


def edit_steer(state: State, command: EditSteer, context: Context) -> Decision:
    """Change a pending steer's text in place, or turn it into a waiting input."""
    open_session(state)
    loop, pending = find_steer(state, command.steer)
    if command.as_input:
        if len(loop.inbox) >= INPUTS_WAITING:
            raise Refused("queue_full", f"{INPUTS_WAITING} messages wait already.", limit=INPUTS_WAITING)
        text = context.text(pending.text_seq)
        if not isinstance(text, str):
            raise Refused("invalid", "Its text was erased: take it back instead.", steer=pending.id)
        data = {
            "input": command.input, "text": text, "agency": agency_of(pending.author.kind),
            "delivery": "queue", "position": len(loop.inbox), **credit(pending.author, context.actor),
            **kept(pending.seq, context),
        }  # fmt: skip
        events = (withdraw(loop, pending, "as_input", context), Draft("InputQueued", data, loop.id))
        return Decision(events, {"steer": pending.id, "input": command.input, "position": len(loop.inbox)})
    if command.text is None:
        raise Refused("invalid", "Nothing to change: give `text` or `as_input`.")
    if not wrote(pending.author, context.actor):
        raise Refused("not_allowed", "Only who wrote a steer changes its words: they go to the agent under that name.")
    check_text(command.text, STEER_BYTES, "steer")
    data = {"steer": pending.id, "text": command.text, "urgent": pending.urgent}
    if pending.for_turn is not None:
        data["for_turn"] = pending.for_turn
    return Decision((Draft("SteerQueued", data, loop.id),), {"steer": pending.id})


def withdraw_steer(state: State, command: WithdrawSteer, context: Context) -> Decision:
    """Its sender or an owner takes a steer back (D8)."""
    loop, pending = find_steer(state, command.steer)
    reason = "sender" if wrote(pending.author, context.actor) else "owner"
    return Decision((withdraw(loop, pending, reason, context),), {"steer": pending.id, "withdrawn": True})


def delivered(loop: Loop, turn: Turn, step: int) -> list[Draft]:
    """Every pending steer that is not set aside, oldest first, lands before step `step` (D3)."""
    return [Draft("SteerDelivered", {"steer": ready.id}, loop.id, turn.id, step) for ready in loop.ready_steers()]
