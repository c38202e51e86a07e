"""`evolve`: one event further (A2). Pure; one small function per event type, found by name."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from sessions_app.engine.actors import CAUSES
from sessions_app.engine.events import Event
from sessions_app.engine.limits import FAILED_KEPT
from sessions_app.engine.state import (
    Author,
    Background,
    Call,
    Input,
    Loop,
    Request,
    Rule,
    Spent,
    State,
    Steer,
    Survivors,
    Turn,
    active_ms,
    add_usage,
    known_cost,
    stricter,
    with_cost,
    without,
)

DAY_MS: Final = 24 * 3600 * 1000


def evolve(state: State, event: Event) -> State:
    """The state after `event`. Types without a rule of their own change nothing the lock protects."""
    rule = _RULES.get(event.type)
    return state if rule is None else rule(state, event)


def fold(events: Iterable[Event], state: State | None = None) -> State:
    """The fold of a log, from the beginning or from a state."""
    result = State() if state is None else state
    for event in events:
        result = evolve(result, event)
    return result


def _loop(state: State, event: Event) -> Loop:
    return state.loops[event.loop or ""]


def _author(event: Event) -> Author:
    """Who wrote what waits: the event's actor, or whom it names where somebody else moved it (B4)."""
    author = event.data.get("author")
    return Author(**author) if author is not None else Author(event.actor.kind, event.actor.id, event.actor.name)


def _session_created(state: State, event: Event) -> State:
    return replace(state, settings=event.data["settings"], titled=not event.data.get("untitled", False))


def _session_changed(state: State, event: Event) -> State:
    if event.data.get("settings") is not None:
        state = replace(state, settings={**state.settings, **event.data["settings"]})
    if "title" in event.data:
        state = replace(state, titled=True)
    return replace(state, status="closing") if event.data.get("closing") else state


def _session_closed(state: State, event: Event) -> State:
    loops = {key: replace(loop, status="closed") for key, loop in state.loops.items()}
    return replace(state, status="closed", loops=loops, requests={})


def _loop_started(state: State, event: Event) -> State:
    data = event.data
    loop = Loop(event.loop or "", data["agent"], data["model"], data["mode"], data["parent"])
    parent = state.loops.get(loop.parent or "")
    if parent is None or parent.turn is None:
        return state.with_loop(loop)
    calls = tuple(
        replace(call, child=loop.id) if call.call == data["call"] else call for call in parent.turn.calls or ()
    )
    since = event.at_ms if parent.turn.asked_ms is None else parent.turn.asked_ms
    turn = replace(parent.turn, calls=calls, asked_ms=since)  # what it waits for counts as its delegates' work (B7)
    state = state.with_loop(replace(parent, turn=turn)).with_loop(replace(loop, limits=turn.limits))
    for above in state.ancestors(state.loops[loop.id]):
        if above.turn is not None:
            counted = replace(above.turn, delegates=above.turn.delegates + 1)
            state = state.with_loop(replace(above, turn=counted))
    return state


def _loop_closed(state: State, event: Event) -> State:
    """What runs on in its background is its parent's from now on (E13)."""
    loop = _loop(state, event)
    parent = state.loops.get(loop.parent or "")
    if parent is not None:
        state = state.with_loop(replace(parent, background=(*parent.background, *loop.background)))
    return state.with_loop(replace(loop, status="closed", background=()))


def _loop_idle(state: State, event: Event) -> State:
    return state.with_loop(replace(_loop(state, event), status="idle"))


def _input_queued(state: State, event: Event) -> State:
    loop, data = _loop(state, event), event.data
    entry = Input(data["input"], data["agency"], data["delivery"], _author(event), event.seq, event.seq)
    inbox = (*loop.inbox[: data["position"]], entry, *loop.inbox[data["position"] :])
    failed = without(loop.failed, data.get("retries", ""))
    return _note_then(state.with_loop(replace(loop, inbox=inbox, failed=failed)), event)


def _note_then(state: State, event: Event) -> State:
    """An input that came with a stop names its request, so that the stop leaves it alone and keeps it first (E12)."""
    request = state.requests.get(event.data.get("request") or "")
    if request is None:
        return state
    noted = replace(request, then=(*request.then, event.data["input"]))
    return replace(state, requests={**state.requests, request.id: noted})


def _input_changed(state: State, event: Event) -> State:
    loop, data = _loop(state, event), event.data
    entry = next(entry for entry in loop.inbox if entry.id == data["input"])
    rest = without(loop.inbox, entry.id)
    changed = replace(entry, text_seq=event.seq)
    inbox = (*rest[: data["position"]], changed, *rest[data["position"] :])
    return _note_then(state.with_loop(replace(loop, inbox=inbox)), event)


def _set_held(state: State, event: Event, held: bool) -> State:
    loop, data = _loop(state, event), event.data
    inbox = tuple(replace(entry, held=held) if entry.id in data["inputs"] else entry for entry in loop.inbox)
    steers = tuple(replace(steer, held=held) if steer.id in data["steers"] else steer for steer in loop.steers)
    return state.with_loop(replace(loop, inbox=inbox, steers=steers))


def _input_held(state: State, event: Event) -> State:
    return _set_held(state, event, True)


def _input_released(state: State, event: Event) -> State:
    return _set_held(state, event, False)


def _input_cancelled(state: State, event: Event) -> State:
    loop = _loop(state, event)
    return state.with_loop(replace(loop, inbox=without(loop.inbox, event.data["input"])))


def _steer_queued(state: State, event: Event) -> State:
    loop, data = _loop(state, event), event.data
    old = next((steer for steer in loop.steers if steer.id == data["steer"]), None)
    if old is not None:  # an edited steer keeps its place and its author
        new = replace(old, text_seq=event.seq)
        return state.with_loop(replace(loop, steers=tuple(new if s.id == old.id else s for s in loop.steers)))
    steer = Steer(data["steer"], data["urgent"], _author(event), event.seq, event.seq, for_turn=data.get("for_turn"))
    return state.with_loop(replace(loop, steers=(*loop.steers, steer)))


def _steer_gone(state: State, event: Event) -> State:
    loop = _loop(state, event)
    return state.with_loop(replace(loop, steers=without(loop.steers, event.data["steer"])))


def _turn_started(state: State, event: Event) -> State:
    loop, data = _loop(state, event), event.data
    opening = next(entry for entry in loop.inbox if entry.id == data["input"])
    turn = Turn(event.turn or "", data["index"], opening, data["worker"], data["epoch"], event.at_ms, mode=loop.mode)
    turn = replace(turn, model=loop.model, limits=loop.limits)
    loop = replace(
        loop,
        status="running",
        turns=data["index"],
        epoch=data["epoch"],
        inbox=without(loop.inbox, data["input"]),
        turn=turn,
        answer=None,
    )
    return state.with_loop(loop)


def _turn_handed_over(state: State, event: Event) -> State:
    """Nobody has it, and until somebody does it does not work (B7)."""

    def change(turn: Turn) -> Turn:
        since = event.at_ms if turn.asked_ms is None else turn.asked_ms
        return replace(turn, worker="", asked_ms=since, attempt=event.data.get("attempt", 1))

    return _change_turn(_paid(state, event) if "usage" in event.data else state, event, change)


def _turn_resumed(state: State, event: Event) -> State:
    data = event.data
    state = state.with_loop(replace(_loop(state, event), epoch=data["epoch"]))

    def change(turn: Turn) -> Turn:
        turn = replace(turn, worker=data["worker"], epoch=data["epoch"])
        return turn if turn.waits() else _without_wait(turn, event)

    return _change_turn(state, event, change)


def _change_turn(state: State, event: Event, change: Callable[[Turn], Turn]) -> State:
    loop = _loop(state, event)
    if loop.turn is None:
        raise ValueError(f"event {event.seq} {event.type} belongs to no running turn")
    return state.with_loop(replace(loop, turn=change(loop.turn)))


def _paid(state: State, event: Event) -> State:
    """A model call is over and paid for, whatever became of its reply (B7, D6)."""
    data = event.data
    cost = data.get("cost")
    state = _change_turn(
        state, event, lambda turn: with_cost(replace(turn, usage=add_usage(turn.usage, data["usage"])), cost)
    )
    return state if cost is None else _spend(state, event, cost)


def _spend(state: State, event: Event, cost: float) -> State:
    spent, day = state.spent, event.at_ms // DAY_MS
    day_cost = cost + (spent.day_cost if spent.day == day else 0.0)
    return replace(state, spent=Spent(spent.cost + cost, day, day_cost))


def _step_planned(state: State, event: Event) -> State:
    data = event.data
    calls = tuple(Call(call["call"], call["tool"]) for call in data["calls"])

    def change(turn: Turn) -> Turn:
        planned = replace(turn, planned=event.seq, repeats=data.get("repeats", 1))
        return replace(planned, calls=calls, kept=turn.kept + 1, step_usage=data["usage"])

    return _change_turn(_paid(state, event), event, change)


def _change_call(state: State, event: Event, change: Callable[[Call], Call]) -> State:
    def changed(turn: Turn) -> Turn:
        calls = turn.calls or ()
        return replace(turn, calls=tuple(change(call) if call.call == event.data["call"] else call for call in calls))

    return _change_turn(state, event, changed)


def _tool_started(state: State, event: Event) -> State:
    return _change_call(state, event, lambda call: replace(call, status="started"))


def _tool_settled(state: State, event: Event) -> State:
    state = _change_call(state, event, lambda call: replace(call, status="settled"))
    state = _change_turn(state, event, lambda turn: _without_delegates(turn, event))
    call, turn_id, processes = event.data["call"], event.turn or "", event.data["processes"]
    if processes["surviving"]:
        left = Survivors(call, event.seq, turn_id)
        state = _change_turn(state, event, lambda turn: replace(turn, survivors=(*turn.survivors, left)))
    loop = _loop(state, event)
    if not processes["background"] or loop.turn is None:
        return state
    kept = Background(call, turn_id, event.seq, event.at_ms, loop.turn.worker)
    return state.with_loop(replace(loop, background=(*loop.background, kept)))


def _without_delegates(turn: Turn, event: Event) -> Turn:
    """With its last delegate a turn's wait for them is over."""
    settled = next((call for call in turn.calls or () if call.call == event.data["call"]), None)
    if settled is None or settled.child is None or turn.delegated():
        return turn
    return _without_wait(turn, event)


def _killer(event: Event) -> dict[str, object]:
    return {"actor": dict(event.actor.json()), "cause": event.cause}


def _keep_revoked(state: State, event: Event) -> State:
    return _change_call(state, event, lambda call: replace(call, killer=_killer(event)))


def _kill_requested(state: State, event: Event) -> State:
    loop, killer = _loop(state, event), _killer(event)
    background = tuple(
        replace(each, killer=killer) if _names(event, each) and each.killer is None else each
        for each in loop.background
    )
    return state.with_loop(replace(loop, background=background))


def _names(event: Event, each: Background | Survivors) -> bool:
    return (each.turn, each.call) == (event.turn, event.data["call"])


def _processes_ended(state: State, event: Event) -> State:
    """What had survived its kill, or ran in the background, has ended; nothing waits for it any more (E7, E13)."""
    if event.data["processes"]["surviving"]:
        return state
    for loop in state.loops.values():
        background, turn = loop.background, loop.turn
        if event.data.get("background"):
            background = tuple(each for each in background if not _names(event, each))
        if turn is not None and not event.data.get("background"):
            turn = replace(turn, survivors=tuple(each for each in turn.survivors if not _names(event, each)))
        state = state.with_loop(replace(loop, background=background, turn=turn))
    return state


def _pruned(state: State) -> State:
    """Without the delegates that have closed, once their parent's turn is over: the state stays small."""

    def gone(loop: Loop) -> bool:
        parent = state.loops.get(loop.parent or "")
        at_work = parent is not None and parent.turn is not None
        return loop.parent is not None and loop.status == "closed" and not at_work

    return replace(state, loops={key: loop for key, loop in state.loops.items() if not gone(loop)})


def _gate_opened(state: State, event: Event) -> State:
    gate = event.data["gate"]
    state = _change_turn(
        state, event, lambda turn: turn if turn.asked_ms is not None else replace(turn, asked_ms=event.at_ms)
    )
    return _change_call(state, event, lambda call: replace(call, gate=gate, answer="open", seq=event.seq))


def _without_wait(turn: Turn, event: Event) -> Turn:
    """The wait for an answer, delegates or a worker is over; it does not count as work (B7).

    Where another of them is left, the turn goes on waiting.
    """
    since = event.at_ms if turn.asked_ms is None else turn.asked_ms
    asked_ms = event.at_ms if turn.given_back() or turn.waits() else None
    return replace(turn, asked_ms=asked_ms, waited_ms=turn.waited_ms + max(0, event.at_ms - since))


def _waited(state: State, event: Event) -> State:
    """A gate is answered or closed."""
    return _change_turn(state, event, lambda turn: _without_wait(turn, event))


def _gate_resolved(state: State, event: Event) -> State:
    data = event.data
    state = _waited(
        _change_call(state, event, lambda call: replace(call, answer=data["decision"], seq=event.seq)), event
    )
    if "rule" not in data:
        return state
    rule = Rule(data["rule"]["id"], data["rule"]["kind"], data["rule"]["tool"], event.seq)
    return replace(state, rules=(*state.rules, rule))


def _gate_closed(state: State, event: Event) -> State:
    return _waited(_change_call(state, event, lambda call: replace(call, answer="closed", seq=event.seq)), event)


def _rule_revoked(state: State, event: Event) -> State:
    return replace(state, rules=tuple(rule for rule in state.rules if rule.id != event.data["rule"]))


def _mode_changed(state: State, event: Event) -> State:
    loop, mode = _loop(state, event), event.data["mode"]
    turn = loop.turn
    if turn is not None:
        turn = replace(turn, mode=stricter(turn.mode, mode))
    return state.with_loop(replace(loop, mode=mode, turn=turn))


def _loop_changed(state: State, event: Event) -> State:
    loop = _loop(state, event)
    limits = {**loop.limits, **event.data.get("limits", {})}
    return state.with_loop(replace(loop, model=event.data.get("model", loop.model), limits=limits))


def _next_step(turn: Turn, loop: Loop) -> Turn:
    """The next model call is due, under the mode of now (I1)."""
    return replace(turn, calls=None, step=turn.step + 1, step_usage=None, mode=loop.mode, attempt=1)


def _step_done(state: State, event: Event) -> State:
    loop = _loop(state, event)
    if loop.turn is not None and loop.turn.calls is not None:  # it was committed, counted and paid by its StepPlanned
        return _change_turn(state, event, lambda turn: _next_step(turn, loop))
    state = _paid(state.with_loop(replace(loop, answer=event.seq)), event)
    return _change_turn(state, event, lambda turn: replace(_next_step(turn, loop), kept=turn.kept + 1))


def _output_superseded(state: State, event: Event) -> State:
    loop = _loop(state, event)
    return _change_turn(_paid(state, event), event, lambda turn: _next_step(turn, loop))


def _folded_into(state: State, event: Event) -> State:
    loop = _loop(state, event)
    return state.with_loop(replace(loop, inbox=without(loop.inbox, event.data["input"])))


def _turn_failed(state: State, event: Event) -> State:
    turn = _loop(state, event).turn
    state = _turn_ended(state, event)
    if turn is None or turn.kept > 0:
        return state
    loop = _loop(state, event)
    return state.with_loop(replace(loop, failed=(*loop.failed, turn.opening)[-FAILED_KEPT:]))


def _turn_ended(state: State, event: Event) -> State:
    loop = _loop(state, event)
    cut_off = 0.0 if loop.turn is None else (known_cost(event.data) or 0.0) - (loop.turn.cost or 0.0)
    if cut_off > 0:  # a model call that has no reply was paid for all the same
        state = _spend(state, event, cut_off)
    state = _rolled_up(state.with_loop(replace(loop, turn=None)), loop, event)
    running = {loop.turn.id for loop in state.loops.values() if loop.turn is not None}
    requests = {key: request for key, request in state.requests.items() if running.intersection(request.turns)}
    return _pruned(replace(state, requests=requests))


def _rolled_up(state: State, loop: Loop, event: Event) -> State:
    """What a delegate's turn has used, its steps and time too, and what survived it is its parent's now (B7, E7)."""
    parent = state.loops.get(loop.parent or "")
    if parent is None or parent.turn is None or loop.turn is None:
        return state
    data, turn = event.data, parent.turn
    if data["usage"] or loop.turn.unpriced:
        turn = replace(
            turn, usage=add_usage(turn.usage, data["usage"]), unpriced=turn.unpriced or data.get("cost") is None
        )
    if (known := known_cost(data)) is not None:
        turn = with_cost(turn, known)
    turn = replace(
        turn,
        survivors=(*turn.survivors, *loop.turn.survivors),
        unknown=turn.unknown or data.get("processes", {}).get("unknown", False),
        steps_below=turn.steps_below + loop.turn.kept + loop.turn.steps_below,
        waited_ms=turn.waited_ms - active_ms(loop.turn, event.at_ms),
    )
    return state.with_loop(replace(parent, turn=turn))


def _interrupt_requested(state: State, event: Event) -> State:
    data = event.data
    if not data["turns"]:
        return state
    loops = {
        key: replace(loop, turn=replace(loop.turn, mark=data["request"]))
        if loop.turn is not None and loop.turn.id in data["turns"]
        else loop
        for key, loop in state.loops.items()
    }
    why = "closing" if state.status == "closing" else data.get("cause", CAUSES[event.actor.kind])
    request = Request(
        data["request"],
        event.seq,
        event.at_ms,
        dict(event.actor.json()),
        event.cause or "",
        data["queue"],
        tuple(data["turns"]),
        data["phases"],
        why,
        keep_background=data.get("keep_background", False),
    )
    return replace(state, loops=loops, requests={**state.requests, request.id: request})


_RULES: Final[dict[str, Callable[[State, Event], State]]] = {
    "SessionCreated": _session_created,
    "SessionChanged": _session_changed,
    "SessionClosed": _session_closed,
    "LoopStarted": _loop_started,
    "LoopIdle": _loop_idle,
    "LoopClosed": _loop_closed,
    "InputQueued": _input_queued,
    "InputChanged": _input_changed,
    "InputHeld": _input_held,
    "InputReleased": _input_released,
    "InputCancelled": _input_cancelled,
    "SteerQueued": _steer_queued,
    "SteerDelivered": _steer_gone,
    "SteerWithdrawn": _steer_gone,
    "TurnStarted": _turn_started,
    "TurnResumed": _turn_resumed,
    "TurnHandedOver": _turn_handed_over,
    "StepPlanned": _step_planned,
    "ToolStarted": _tool_started,
    "ToolSettled": _tool_settled,
    "KillRequested": _kill_requested,
    "KeepRevoked": _keep_revoked,
    "ProcessesEnded": _processes_ended,
    "GateOpened": _gate_opened,
    "GateResolved": _gate_resolved,
    "GateClosed": _gate_closed,
    "RuleRevoked": _rule_revoked,
    "ModeChanged": _mode_changed,
    "LoopChanged": _loop_changed,
    "StepDone": _step_done,
    "OutputSuperseded": _output_superseded,
    "TurnDone": _turn_ended,
    "TurnFailed": _turn_failed,
    "TurnFoldedInto": _folded_into,
    "TurnInterrupted": _turn_ended,
    "InterruptRequested": _interrupt_requested,
}
