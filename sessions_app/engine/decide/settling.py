"""The one settlement of every call (C4), and the step's end with the last of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sessions_app.engine.actors import actor_from
from sessions_app.engine.commands import Settlement
from sessions_app.engine.decide.context import Context
from sessions_app.engine.events import Draft
from sessions_app.engine.state import Background, Call, Loop, State, Turn
from sessions_app.engine.transcript import WITH_ITS_PARENT

NOT_RUN_URGENT = "Not run: a person's urgent message came first."
FORBIDDEN = "Not run: this agent may only read and plan in this step."


def settled(state: State, loop: Loop, turn: Turn, call: Call, settlement: Settlement) -> list[Draft]:
    """One call's settlement.

    A stop that is due ends what it left running, too, unless it spares that; a close spares nothing, and a stop that
    joined one that spares may have revoked that (E13).
    """
    data: dict[str, object] = {
        "call": call.call,
        "tool": call.tool,
        "outcome": settlement.outcome,
        "output": settlement.output,
        "duration_ms": settlement.duration_ms,
        "processes": dict(settlement.processes),
    }
    if settlement.exit is not None:
        data["exit"] = settlement.exit
    if settlement.code:
        data["code"] = settlement.code
    if settlement.replaced:
        data["replaced"] = True
    events = [Draft("ToolSettled", data, loop.id, turn.id, turn.step)]
    killer = _killer(state, turn, call)
    if settlement.processes.get("background") and killer is not None:
        asked = kill(loop.id, turn.id, call.call)
        events.append(replace(asked, actor=actor_from(killer["actor"]), cause=killer["cause"]))
    return events


def _killer(state: State, turn: Turn, call: Call) -> Mapping[str, Any] | None:
    """Who ends what the call leaves in the background: whoever wants that in any case, or asked for the stop."""
    if call.killer is not None or turn.mark is None:
        return call.killer
    request = state.requests[turn.mark]
    spared = request.keep_background and state.status == "open"
    return None if spared else {"actor": request.actor, "cause": request.cause}


def kill(loop: str, turn: str, call: str) -> Draft:
    """Somebody wants to see a background process ended."""
    return Draft("KillRequested", {"call": call}, loop, turn)


def kills(loop: Loop) -> list[Draft]:
    """All of a loop's background processes are to end."""
    return [kill(loop.id, each.turn, each.call) for each in running_on(loop)]


def revoked(state: State, loop: Loop) -> list[Draft]:
    """What a loop's calls are yet to leave running is to end, though the stop that is due would spare it."""
    turn = loop.turn
    if turn is None or turn.mark is None or not state.requests[turn.mark].keep_background:
        return []
    running = (call for call in turn.calls or () if call.status == "started" and call.child is None)
    return [Draft("KeepRevoked", {"call": call.call}, loop.id, turn.id) for call in running if call.killer is None]


def running_on(loop: Loop) -> list[Background]:
    """The background processes that nobody has asked to end yet."""
    return [each for each in loop.background if each.killer is None]


def settle(state: State, loop: Loop, turn: Turn, call: Call, settlement: Settlement) -> list[Draft]:
    """A settlement, and with the last one's the step's end, unless a stop is about to end the turn (C6)."""
    events = settled(state, loop, turn, call, settlement)
    last = all(other.status == "settled" or other.call == call.call for other in turn.calls or ())
    return [*events, step_done(loop, turn)] if last and turn.mark is None else events


def step_done(loop: Loop, turn: Turn) -> Draft:
    return Draft("StepDone", {"usage": dict(turn.step_usage or {})}, loop.id, turn.id, turn.step)


def not_run(call: Call, context: Context) -> Settlement | None:
    """How a call settles that was denied, or whose gate closed; None for one that may still run."""
    if call.answer == "deny":
        message = context.text(call.seq or 0, "message")
        return Settlement("denied", message if isinstance(message, str) else "")
    if call.answer == "closed":
        by_steer = context.payload(call.seq or 0)["reason"] == "steer"
        return Settlement("not_run", NOT_RUN_URGENT if by_steer else FORBIDDEN)
    return None


def unsettled(call: Call, why: str, context: Context) -> Settlement:
    """How an open call settles when its turn ends and nobody knows more of it (C4)."""
    if call.child is not None:
        return Settlement("interrupted", WITH_ITS_PARENT)
    if call.status == "started":
        return Settlement("lost", why)
    return not_run(call, context) or Settlement("not_run", why)
