"""The stop (E): marking, and ending a marked or lost turn.

Marking and ending are two commands under one lock. Whoever marks first owns the stop; later stops join it. Whoever
ends first (the worker's settlement, the fence after 4 s, the sweep after a death) writes the one terminal; a later end
finds another epoch or no turn and is `stale`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sessions_app.engine.commands import (
    BackgroundEnded,
    EndTurn,
    GiveReason,
    Interrupt,
    Settlement,
    SurvivorsEnded,
    Then,
)
from sessions_app.engine.decide.background import background_ended, background_of
from sessions_app.engine.decide.context import Context, Decision, addressed, find_loop, held_turn, open_session
from sessions_app.engine.decide.course import Course
from sessions_app.engine.decide.ending import close_delegate, end_below, end_given_back, interrupted, phase_of
from sessions_app.engine.decide.fates import Aftermath, dispose, goes_on, return_all
from sessions_app.engine.decide.files import named, worded
from sessions_app.engine.decide.inputs import changed, find_input, queued
from sessions_app.engine.decide.settling import kills as kills_of
from sessions_app.engine.decide.settling import revoked
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import INPUT_BYTES, REASON_BYTES, check_size, check_text
from sessions_app.engine.state import Loop, Request, State, Turn, without


def interrupt(state: State, command: Interrupt, context: Context) -> Decision:
    """Select and mark in one decision (E2); what it found is in the receipt (E3)."""
    _check(state, command, context)
    if state.status != "open":
        ending = [loop.turn for loop in state.loops.values() if loop.turn is not None]
        return Decision((), _receipt(False, False, ending, "closing"), "closing")
    targets = _targets(state, command)
    if not targets:
        return _nothing(state, command, context, "turn_over")
    running = [loop.turn for loop in targets if loop.turn is not None]
    if any(turn.mark is None for turn in running):
        return _mark(state, command, context, targets)
    if running:
        return _join(state, command, context, running, targets)
    if any(loop.runnable() for loop in targets):
        return _not_started(state, command, context, targets)
    return _idle(state, command, context, targets)


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
        check_text(worded(command.then.text, named(command.then.files, context)), INPUT_BYTES, "message")
    else:
        find_input(state, command.then.input)


def _targets(state: State, command: Interrupt) -> list[Loop]:
    """Every live loop, or one with all below it (E1), children first; none where the named turn is over (E5)."""
    found = None if command.turn is None else state.turn(command.turn)
    if command.turn is not None and found is None:
        return []
    top = find_loop(state, command.loop)
    if found is not None:
        if command.loop is not None and found[0] not in (top, *state.below(top)):
            return []
        top = found[0]
    return [*state.below(top), top]


def _receipt(
    accepted: bool,
    joined: bool,
    turns: list[Turn],
    note: str | None,
    then: Then | None = None,
    kills: Sequence[Draft] = (),
) -> dict[str, Any]:
    """`turns` and `background` (turn and call) are what the outcome waits for."""
    receipt: dict[str, Any] = {
        "accepted": accepted, "joined": joined, "turns": [turn.id for turn in turns], "note": note,
    }  # fmt: skip
    if kills:
        receipt["background"] = [[kill.turn, kill.data["call"]] for kill in kills]
    return receipt if then is None else {**receipt, "input": then.input}


def _then(state: State, command: Interrupt, context: Context, request: Request | str | None) -> list[Draft]:
    """Admit what was sent with the stop at the front, behind what came with an earlier one (E12)."""
    then = command.then
    if then is None:
        return []
    ahead = request.then if isinstance(request, Request) else ()
    request_id = request.id if isinstance(request, Request) else request
    if then.text is not None:
        loop = addressed(state, command.loop, command.turn)
        files = named(then.files, context)
        text, position = worded(then.text, files), _behind(loop, ahead)
        return [queued(loop, then.input, text, context.actor.agency, position, request_id, files=files)]
    loop, entry = find_input(state, then.input)
    position = _behind(replace(loop, inbox=without(loop.inbox, entry.id)), ahead)
    moved = changed(loop, entry, context.text(entry.text_seq), position, request_id)
    if not entry.held:
        return [moved]
    return [moved, Draft("InputReleased", {"inputs": [entry.id], "steers": []}, loop.id)]


def _behind(loop: Loop, ahead: Sequence[str]) -> int:
    """The place behind the last of these that waits there, the first one where none does."""
    return max((place for place, entry in enumerate(loop.inbox, 1) if entry.id in ahead), default=0)


def _requested(command: Interrupt, targets: list[Loop], queue: str, phases: dict[str, str]) -> Draft:
    data: dict[str, Any] = {
        "request": command.request,
        "scope": "session" if command.loop is None and command.turn is None else targets[-1].id,
        "turns": list(phases),
        "queue": queue,
        "phases": phases,
    }
    if command.reason:
        data["reason"] = command.reason
    if command.keep_background:
        data["keep_background"] = True
    return Draft("InterruptRequested", data)


def _mark(state: State, command: Interrupt, context: Context, targets: list[Loop]) -> Decision:
    """Mark what runs and is not marked yet; a turn that nobody has ends in the same decision (E2)."""
    running = [loop.turn for loop in targets if loop.turn is not None]
    fresh = [turn for turn in running if turn.mark is None]
    phases = {turn.id: phase_of(turn, context) for turn in fresh}
    queue = command.queue or state.settings.get("stop_queue", "run")
    course = Course(state, context)
    course.add(_requested(command, targets, queue, phases))
    kills = _kills(command, targets)
    course.add(*_then(state, command, context, command.request), *kills, *_revoked(state, command, targets))
    end_given_back(course, targets)
    note = "joined" if len(fresh) < len(running) else None
    return course.decision(_receipt(True, False, running, note, command.then, kills))


def _kills(command: Interrupt, targets: list[Loop]) -> list[Draft]:
    """What their turns left running in the background ends too, unless the request spares it (E13)."""
    return [] if command.keep_background else [each for loop in targets for each in kills_of(loop)]


def _revoked(state: State, command: Interrupt, targets: list[Loop]) -> list[Draft]:
    """What their calls are yet to leave there ends too, though an earlier stop spares it (E13)."""
    return [] if command.keep_background else [each for loop in targets for each in revoked(state, loop)]


def _join(state: State, command: Interrupt, context: Context, running: list[Turn], targets: list[Loop]) -> Decision:
    """What is sent with it goes behind what came with the stop of the loop it is for (E3).

    Background processes that the first stop spared, or would spare, end with one that does not (E13).
    """
    turn = addressed(state, command.loop, command.turn).turn
    first = None if turn is None or turn.mark is None else state.requests[turn.mark]
    kills = _kills(command, targets)
    events = (*_then(state, command, context, first), *kills, *_revoked(state, command, targets))
    receipt = _receipt(False, True, running, "joined", command.then, kills)
    return Decision(events, receipt, None if events else "joined")


def _not_started(state: State, command: Interrupt, context: Context, targets: list[Loop]) -> Decision:
    """Nothing runs yet, but something would: hold it, unless the request itself said `run` (E11).

    A delegate that then has nothing left to run closes, unless a message was sent with the stop.
    """
    waiting = [loop for loop in targets if loop.runnable()]
    queue = command.queue or "hold"
    spared = "" if command.then is None else command.then.input
    course = Course(state, context)
    course.add(_requested(command, targets, queue, {}))
    for loop in waiting:
        result = Aftermath(replace(loop, inbox=without(loop.inbox, spared)), context, held_by=command.request)
        dispose(result, queue)
        if loop.parent is not None and command.then is None and not goes_on(state, result):
            result = Aftermath(loop, context)
            return_all(result, "loop_closed")
        course.add(*result.events)
    kills = _kills(command, targets)
    course.add(*_then(state, command, context, None), *kills)
    for loop in waiting:
        now = course.state.loops.get(loop.id)
        if loop.parent is not None and now is not None and now.status == "idle" and now.next_input() is None:
            close_delegate(course, loop.id, Settlement("interrupted", f"{context.actor.name} stopped the delegate."))
    return course.decision(_receipt(True, False, [], "not_started", command.then, kills))


def _idle(state: State, command: Interrupt, context: Context, targets: list[Loop]) -> Decision:
    """Nothing runs but, perhaps, what was declared as background; that ends (E13)."""
    kills = _kills(command, targets)
    events = (*_then(state, command, context, None), *kills)
    receipt = _receipt(bool(kills), False, [], "idle", command.then, kills)
    return Decision(events, receipt, None if events else "idle")


def _nothing(state: State, command: Interrupt, context: Context, note: str) -> Decision:
    then = _then(state, command, context, None)
    return Decision(tuple(then), _receipt(False, False, [], note, command.then), None if then else note)


def end_turn(state: State, command: EndTurn, context: Context) -> Decision:
    """Settle what is open and write the one terminal of an interrupted or lost turn (C6, E8), after its delegates."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is None and command.cause is None:
        raise Refused("invalid", "The turn is not marked.")
    course = Course(state, context)
    if not end_below(course, loop, command.request):
        return course.decision({"outcome": "waiting"})
    interrupted(course, loop.id, command)
    return course.decision({"outcome": "interrupted"})


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
        if call.call == command.call and call.status == "planned":
            raise Refused("invalid", "The call has not started: nothing can have survived it.", call=call.call)
    if not _survives(state, command) and background_of(state, command.turn, command.call) is not None:
        late = BackgroundEnded(command.turn, command.loop, command.call, command.ended)
        return background_ended(state, late, context)  # it had outlived the kill of a kept call (E13)
    processes = {"ended": list(command.ended), "surviving": [], "background": []}
    data = {"call": command.call, "processes": processes}
    return Decision((Draft("ProcessesEnded", data, command.loop, command.turn),))


def _survives(state: State, command: SurvivorsEnded) -> bool:
    """Whether a running turn has it among what survived a call."""
    turns = (loop.turn for loop in state.loops.values() if loop.turn is not None)
    left = (each for turn in turns for each in turn.survivors)
    return any((each.turn, each.call) == (command.turn, command.call) for each in left)
