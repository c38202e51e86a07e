"""The stop (E): marking, and ending a marked or lost turn.

Marking and ending are two commands under one lock. Whoever marks first owns the stop; later stops join it. Whoever
ends first (the worker's settlement, the fence after 4 s, the sweep after a death) writes the one terminal; a later end
finds another epoch or no turn and is `stale`.
"""

from dataclasses import replace
from typing import Any

from sessions_app.engine.commands import EndTurn, GiveReason, Interrupt, Settlement, SurvivorsEnded, Then
from sessions_app.engine.decide.context import Context, Decision, find_loop, held_turn, open_session
from sessions_app.engine.decide.ending import Aftermath, Column, actor_of, aftermath, dispose, held_note, survivors
from sessions_app.engine.decide.gates import closed, open_gates
from sessions_app.engine.decide.inputs import changed, find_input, queued
from sessions_app.engine.decide.steps import settled, unsettled
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import INPUT_BYTES, REASON_BYTES, check_size, check_text
from sessions_app.engine.state import Call, Loop, Request, State, Turn, add_usage, total_cost, without

CAUSES = {"person": "person", "token": "token", "agent": "token", "admin": "admin", "system": "closing"}


def interrupt(state: State, command: Interrupt, context: Context) -> Decision:
    """Select and mark in one decision (E2); what it found is in the receipt (E3)."""
    _check(state, command, context)
    if state.status != "open":
        ending = [loop.turn for loop in state.loops.values() if loop.turn is not None]
        return Decision((), _receipt(False, False, ending, "closing"), "closing")
    targets = _targets(state, command.loop)
    running = [loop.turn for loop in targets if loop.turn is not None and command.turn in (None, loop.turn.id)]
    if command.turn is not None and not running:
        return _nothing(state, command, context, "turn_over")
    fresh = [turn for turn in running if turn.mark is None]
    if fresh:
        return _mark(state, command, context, fresh)
    if running:
        return _join(state, command, context, running)
    waiting = [loop for loop in targets if loop.runnable()]
    if waiting:
        return _not_started(state, command, context, waiting)
    return _nothing(state, command, context, "idle")


def _check(state: State, command: Interrupt, context: Context) -> None:
    """An invalid request is refused whole, before anything is marked (E12)."""
    if command.not_after_ms is not None and context.now_ms > command.not_after_ms:
        detail = "This stop arrived later than its sender allowed, so it stopped nothing."
        raise Refused("too_late", detail, now_ms=context.now_ms)
    if command.reason is not None:
        check_size(command.reason, REASON_BYTES, "reason")
    if command.then is None:
        return
    open_session(state)
    if command.then.text is not None:
        check_text(command.then.text, INPUT_BYTES, "message")
    else:
        find_input(state, command.then.input)


def _targets(state: State, loop_id: str | None) -> list[Loop]:
    """Every live loop, or one with all below it (E1)."""
    if loop_id is None:
        return list(state.loops.values())
    top = find_loop(state, loop_id)
    return [loop for loop in state.loops.values() if _is_below(state, loop, top)]


def _is_below(state: State, loop: Loop, top: Loop) -> bool:
    """Whether `loop` is `top` or one of its delegates, however deep."""
    return loop.id == top.id or (loop.parent is not None and _is_below(state, state.loops[loop.parent], top))


def _receipt(
    accepted: bool, joined: bool, turns: list[Turn], note: str | None, then: Then | None = None
) -> dict[str, Any]:
    receipt: dict[str, Any] = {
        "accepted": accepted, "joined": joined, "turns": [turn.id for turn in turns], "note": note,
    }  # fmt: skip
    return receipt if then is None else {**receipt, "input": then.input}


def _then(state: State, command: Interrupt, context: Context, request: Request | str | None) -> list[Draft]:
    """Admit what was sent with the stop at the front, behind what came with an earlier one (E12)."""
    then = command.then
    if then is None:
        return []
    loop = find_loop(state, command.loop)
    ahead = request.then if isinstance(request, Request) else ()
    request_id = request.id if isinstance(request, Request) else request
    position = len([entry for entry in loop.inbox if entry.id in ahead and entry.id != then.input])
    if then.text is not None:
        return [queued(loop, then.input, then.text, context.actor.agency, position, request_id)]
    holder, entry = find_input(state, then.input)
    moved = changed(holder, entry, context.text(entry.text_seq), position, request_id)
    if not entry.held:
        return [moved]
    return [moved, Draft("InputReleased", {"inputs": [entry.id], "steers": []}, holder.id)]


def _requested(command: Interrupt, turns: list[str], queue: str, phases: dict[str, str]) -> Draft:
    data: dict[str, Any] = {
        "request": command.request,
        "scope": "session" if command.loop is None else command.loop,
        "turns": turns,
        "queue": queue,
        "phases": phases,
    }
    if command.reason:
        data["reason"] = command.reason
    return Draft("InterruptRequested", data)


def phase_of(turn: Turn, context: Context) -> str:
    """What the turn is doing: what the log proves, refined by what its worker says (A1)."""
    if any(call.status == "started" for call in turn.calls or ()):
        return "tool"
    if open_gates(turn):
        return "gate"
    phase = context.phases.get(turn.id)
    return "model" if phase is None or phase.phase in ("tool", "gate") else phase.phase


def _mark(state: State, command: Interrupt, context: Context, fresh: list[Turn]) -> Decision:
    phases = {turn.id: phase_of(turn, context) for turn in fresh}
    queue = command.queue or state.settings.get("stop_queue", "run")
    requested = _requested(command, list(phases), queue, phases)
    then = _then(state, command, context, command.request)
    return Decision((requested, *then), _receipt(True, False, fresh, None, command.then))


def _join(state: State, command: Interrupt, context: Context, running: list[Turn]) -> Decision:
    first = state.requests[running[0].mark or ""]
    then = _then(state, command, context, first)
    return Decision(tuple(then), _receipt(False, True, running, "joined", command.then), None if then else "joined")


def _not_started(state: State, command: Interrupt, context: Context, waiting: list[Loop]) -> Decision:
    """Nothing runs yet, but something would: hold it, unless the request itself said `run` (E11)."""
    queue = command.queue or "hold"
    spared = "" if command.then is None else command.then.input
    events = [_requested(command, [], queue, {})]
    for loop in waiting:
        result = Aftermath(replace(loop, inbox=without(loop.inbox, spared)), context, held_by=command.request)
        dispose(result, queue)
        events += result.events
    events += _then(state, command, context, None)
    return Decision(tuple(events), _receipt(True, False, [], "not_started", command.then))


def _nothing(state: State, command: Interrupt, context: Context, note: str) -> Decision:
    then = _then(state, command, context, None)
    return Decision(tuple(then), _receipt(False, False, [], note, command.then), None if then else note)


def end_turn(state: State, command: EndTurn, context: Context) -> Decision:
    """Settle what is open and write the one terminal of an interrupted or lost turn (C6, E8)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    request = None if turn.mark is None else state.requests[turn.mark]
    if request is None and command.cause is None:
        raise Refused("invalid", "The turn is not marked.")
    settlements = [(call, _settlement(call, command, context)) for call in turn.calls or () if call.status != "settled"]
    ended = [process for _, settlement in settlements for process in settlement.processes.get("ended", ())]
    surviving = survivors(turn, context)
    surviving += [process for _, settlement in settlements for process in settlement.processes.get("surviving", ())]
    alive = bool(surviving) or command.unknown
    column: Column = "survivors" if alive else _column(request, command)
    rest = aftermath(state, loop, turn, column, context, request)
    data = {
        **_whose(command, request, context),
        "ended_by": command.by,
        "phase": request.phases.get(turn.id, command.phase) if request is not None else command.phase,
        "acknowledged_ms": command.acknowledged_ms,
        "settled_ms": max(0, context.now_ms - request.at_ms) if request is not None else command.settled_ms,
        "steps_kept": turn.kept,
        "cut_off": dict(command.cut_off) if any(command.cut_off.values()) else {"text": ""},
        "processes": {"ended": ended, "surviving": surviving, "unknown": command.unknown},
        "gates": open_gates(turn),
        "inputs": rest.inputs,
        "steers": rest.steers,
        "usage": add_usage(turn.usage, command.usage),
        "cost": total_cost(turn),
    }
    if alive:
        data |= held_note(state)
    who = None if request is None else actor_of(request)
    terminal = Draft(
        "TurnInterrupted", data, loop.id, turn.id, actor=who, cause=None if request is None else request.cause
    )
    events = closed(loop, turn, "ended" if request is None else "stop")
    events += [settled(loop, turn, call, settlement) for call, settlement in settlements]
    return Decision((*events, terminal, *rest.events), {"outcome": "interrupted"})


def _settlement(call: Call, command: EndTurn, context: Context) -> Settlement:
    known = command.settlements.get(call.call) if call.status == "started" else None
    return known or unsettled(call, "" if call.status == "started" else "Not run: the turn ended first.", context)


def _column(request: Request | None, command: EndTurn) -> Column:
    """The column of table F that the terminal's cause chooses: a stop's own choice, a budget's, a lost worker's."""
    if request is not None:
        return request.queue
    return "failed" if command.cause == "budget" else "lost"


def _whose(command: EndTurn, request: Request | None, context: Context) -> dict[str, Any]:
    if request is None:
        return {"cause": command.cause, "which": command.which} if command.which else {"cause": command.cause}
    cause = "closing" if request.closing else CAUSES[request.actor["kind"]]
    data: dict[str, Any] = {"request": request.id, "cause": cause}
    reason = context.text(request.seq, "reason")
    if isinstance(reason, str):  # it may have been erased since
        data["reason"] = reason
    return data


def give_reason(state: State, command: GiveReason, context: Context) -> Decision:
    """Say afterwards why; refers to the terminal, changes nothing of it (B6)."""
    check_text(command.reason, REASON_BYTES, "reason")
    data = {"request": command.request, "turn": command.turn, "reason": command.reason}
    return Decision((Draft("InterruptReasonGiven", data, command.loop, command.turn),), {"id": command.turn})


def survivors_ended(state: State, command: SurvivorsEnded, context: Context) -> Decision:
    """A survivor's later end is a fact of its own; what was held stays so until a person releases it (E7).

    It comes behind the settlement that names it. The two are reported side by side, so one that is too early is
    `unavailable`, which its worker tries again.
    """
    running = state.turn(command.turn)
    for call in () if running is None else running[1].calls or ():
        if call.call == command.call and call.status == "started":
            raise Refused("unavailable", "The call has not been settled yet.", retry_after=0.5)
    processes = {"ended": list(command.ended), "surviving": [], "background": []}
    return Decision(
        (Draft("ProcessesEnded", {"call": command.call, "processes": processes}, command.loop, command.turn),)
    )
