"""The end of a turn, in its one order (C6), and what ends with it.

Gates, settlements, the terminal, cancellations and holds, `LoopIdle`; then, for a delegate that has nothing left to
run, `LoopClosed` and its parent's call, all in one transaction (G3); last `SessionIdle`, and when the session is
closing `SessionClosed`. Children end before their parents: a turn with a delegate at work is not ended but waits, its
delegates marked, until the last of them has ended.
"""

from collections.abc import Callable
from typing import Any

from sessions_app.engine.actors import actor_from
from sessions_app.engine.commands import EndTurn, Settlement
from sessions_app.engine.decide.context import Context, Decision
from sessions_app.engine.decide.course import Course
from sessions_app.engine.decide.fates import Aftermath, Column, fates, held_note, outlived, return_all, survivors
from sessions_app.engine.decide.gates import closed, open_gates
from sessions_app.engine.decide.settling import settle, settled, unsettled
from sessions_app.engine.events import Draft
from sessions_app.engine.state import Loop, Request, State, Turn, add_usage, final_costs
from sessions_app.engine.transcript import WITH_ITS_PARENT


def holding(state: State, turn: Turn, context: Context) -> dict[str, Any]:
    """What the terminal of a turn that was not interrupted says of its survivors; nothing where there are none."""
    if not outlived(turn):
        return {}
    processes = {"ended": [], "surviving": survivors(turn, context), "unknown": turn.unknown}
    return {"processes": processes, **held_note(state)}


def finish(course: Course, loop: Loop, terminal: Draft, rest: Aftermath, outcome: Settlement) -> None:
    """The terminal and all that follows from it; `outcome` is what a delegate's parent gets for its call."""
    course.add(terminal, *rest.events, Draft("LoopIdle", {}, loop.id))
    if loop.parent is None:
        _idle(course)
    elif not course.state.loops[loop.id].inbox:
        close_delegate(course, loop.id, outcome)


def _idle(course: Course) -> None:
    """The primary loop is the last to become idle: delegates live within its turn."""
    course.add(Draft("SessionIdle"))
    if course.state.status == "closing":
        course.add(Draft("SessionClosed"))


def close_delegate(course: Course, loop_id: str, outcome: Settlement) -> None:
    """A delegate has done its work: it closes, and its parent's call is settled (G3)."""
    _close(course, loop_id)
    parent = course.state.loops[course.state.loops[loop_id].parent or ""]
    turn = parent.turn
    call = None if turn is None else next((each for each in turn.delegated() if each.child == loop_id), None)
    if turn is None or call is None:
        return
    if turn.mark is not None and outcome.outcome == "ok":  # it does not go on with it; the log has it for review
        outcome = Settlement("interrupted")
    course.add(*settle(course.state, parent, turn, call, outcome))
    end_given_back(course, [course.state.loops[parent.id]])


def _close(course: Course, loop_id: str) -> None:
    """Close a delegate: what waits there goes back, as the act of whoever stopped its parent, if that is why (A5)."""
    loop = course.state.loops[loop_id]
    above = course.state.loops[loop.parent or ""].turn
    request = None if above is None or above.mark is None else course.state.requests[above.mark]
    rest = Aftermath(loop, course.context, request=request)
    return_all(rest, "session_closed" if course.state.status == "closing" else "loop_closed")
    course.add(*rest.events, Draft("LoopClosed", {}, loop_id))


def closing_idle(rule: Callable[[State, Any, Context], Decision]) -> Callable[[State, Any, Context], Decision]:
    """A rule that takes what waits away; a delegate that it leaves with nothing to run has done its work (G3)."""

    def decide(state: State, command: Any, context: Context) -> Decision:
        decision = rule(state, command, context)
        course = Course(state, context)
        course.add(*decision.events)
        for loop in course.state.below(course.state.primary()):
            if loop.status == "idle" and loop.next_input() is None:
                close_delegate(course, loop.id, _last_answer(loop, context))
        return course.decision(decision.receipt)

    return decide


def _last_answer(loop: Loop, context: Context) -> Settlement:
    if loop.answer is None:
        return Settlement("interrupted", f"{context.actor.name} took back what it was to do.")
    text = context.text(loop.answer)
    return Settlement("ok", text if isinstance(text, str) else "")


def end_given_back(course: Course, loops: list[Loop]) -> None:
    """Marked turns that nobody has a lease on end at once, by the request itself (E2), below those above them."""
    for loop in loops:
        now = course.state.loops.get(loop.id)  # the end of one may have taken others along
        turn = None if now is None else now.turn
        if turn is not None and turn.given_back() and turn.mark is not None and not at_work_below(course.state, loop):
            interrupted(course, loop.id, EndTurn(turn.id, turn.epoch, "request", phase="waiting"))


def at_work_below(state: State, loop: Loop) -> list[Turn]:
    """The running turns of the delegates below a loop, the deepest first."""
    return [each.turn for each in state.below(loop) if each.turn is not None]


def end_below(course: Course, loop: Loop, request: str) -> bool:
    """A turn that is about to end takes its delegates along (cause `parent`); whether all of them have ended by now."""
    fresh = [turn for turn in at_work_below(course.state, loop) if turn.mark is None]
    if fresh:
        data = {
            "request": request,
            "scope": loop.id,
            "turns": [turn.id for turn in fresh],
            "queue": "run",
            "phases": {turn.id: phase_of(turn, course.context) for turn in fresh},
            "cause": "parent",
            "keep_background": True,  # a turn's end is no stop: what was declared runs on, as its parent's (E13)
        }
        course.add(Draft("InterruptRequested", data))
    for child in course.state.below(loop):
        now = course.state.loops.get(child.id)  # the end of one may have closed others
        if now is not None and now.status == "idle":
            close_delegate(course, child.id, Settlement("interrupted", WITH_ITS_PARENT))
    end_given_back(course, course.state.below(loop))
    return not at_work_below(course.state, loop)


def phase_of(turn: Turn, context: Context) -> str:
    """What the turn is doing: what the log proves, refined by what its worker says (A1)."""
    if turn.given_back():
        return "waiting"
    if any(call.status == "started" and call.child is None for call in turn.calls or ()):
        return "tool"
    if turn.delegated():
        return "delegate"
    if open_gates(turn):
        return "gate"
    phase = context.phases.get(turn.id)
    return "model" if phase is None or phase.phase not in ("model", "retry") else phase.phase


def settle_rest(course: Course, loop: Loop, turn: Turn, why: str, known: dict[str, Settlement]) -> list[Settlement]:
    """Close the turn's gates, its idle delegates and every open call; `known` is what is known of started ones (C4)."""
    course.add(*closed(loop, turn, "ended" if turn.mark is None else "stop"))
    for child in course.state.below(loop):
        _close(course, child.id)
    settlements = []
    for call in turn.calls or ():
        if call.status == "settled":
            continue
        running = call.status == "started" and call.child is None
        settlement = (known.get(call.call) if running else None) or unsettled(
            call, "" if running else why, course.context
        )
        settlements.append(settlement)
        course.add(*settled(course.state, loop, turn, call, settlement))
    return settlements


def interrupted(course: Course, loop_id: str, command: EndTurn) -> None:
    """Settle what is open and write the one terminal of an interrupted or lost turn (C6, E8)."""
    loop, context = course.state.loops[loop_id], course.context
    turn = loop.turn
    assert turn is not None
    request = None if turn.mark is None else course.state.requests[turn.mark]
    left = survivors(turn, context)
    settlements = settle_rest(course, loop, turn, "Not run: the turn ended first.", dict(command.settlements))
    ended = [process for settlement in settlements for process in settlement.processes.get("ended", ())]
    left += [process for settlement in settlements for process in settlement.processes.get("surviving", ())]
    unknown = command.unknown or turn.unknown
    alive = bool(left) or unknown
    column: Column = "survivors" if alive else _column(request, command)
    rest = fates(course.state, loop, turn, column, context, request)
    why = _whose(command, request, context)
    data = {
        **why,
        "ended_by": command.by,
        "phase": request.phases.get(turn.id, command.phase) if request is not None else command.phase,
        "acknowledged_ms": command.acknowledged_ms,
        "settled_ms": max(0, context.now_ms - request.at_ms) if request is not None else command.settled_ms,
        "steps_kept": turn.kept,
        "cut_off": dict(command.cut_off) if any(command.cut_off.values()) else {"text": ""},
        "processes": {"ended": ended, "surviving": left, "unknown": unknown},
        "gates": open_gates(turn),
        "inputs": rest.inputs,
        "steers": rest.steers,
        "usage": add_usage(turn.usage, command.usage),
        **final_costs(turn, command.usage, command.cost),
    }
    if alive:
        data |= held_note(course.state)
    if request is None and command.grace_ms is not None:
        data["grace_ms"] = command.grace_ms
    who, cause = (None, None) if request is None else (actor_from(request.actor), request.cause)
    terminal = Draft("TurnInterrupted", data, loop.id, turn.id, actor=who, cause=cause)
    finish(course, loop, terminal, rest, _outcome(why, None if who is None else who.name))


def _column(request: Request | None, command: EndTurn) -> Column:
    """The column of table F that the terminal's cause chooses: a stop's own choice, a budget's, a lost worker's."""
    if request is not None:
        return request.queue
    return "failed" if command.cause == "budget" else "lost"


def _whose(command: EndTurn, request: Request | None, context: Context) -> dict[str, Any]:
    if request is None:
        return {"cause": command.cause, "which": command.which} if command.which else {"cause": command.cause}
    data: dict[str, Any] = {"request": request.id, "cause": request.why}
    reason = context.text(request.seq, "reason")
    if isinstance(reason, str):  # it may have been erased since
        data["reason"] = reason
    return data


def _outcome(why: dict[str, Any], who: str | None) -> Settlement:
    """What the parent of a delegate that was ended gets for its call (G3)."""
    match why["cause"]:
        case "worker_lost":
            return Settlement("lost")
        case "budget":
            return Settlement("error", f"The sub-agent has used up its limit ({why['which']}).", code="budget")
        case "person" | "token" | "admin":
            reason = f" The reason given: {why['reason']}" if "reason" in why else ""
            return Settlement("interrupted", f"{who} stopped the delegate.{reason}")
    return Settlement("interrupted")
