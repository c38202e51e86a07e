"""Background processes (E13): who wants one ended, and that it has ended."""

from dataclasses import replace
from typing import Any

from sessions_app.engine.actors import actor_from
from sessions_app.engine.commands import BackgroundEnded, KillProcesses
from sessions_app.engine.decide.context import Context, Decision
from sessions_app.engine.decide.settling import kill
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.state import Background, State


def kill_processes(state: State, command: KillProcesses, context: Context) -> Decision:
    """Somebody ends what a call left running; repeated, it joins the first."""
    found = [
        (loop, each)
        for loop in state.loops.values()
        for each in loop.background
        if each.call == command.call and command.turn in (None, each.turn)
    ]
    if not found:
        raise Refused("not_found", "Nothing of that call runs in the background.", call=command.call)
    turns = sorted({each.turn for _, each in found})
    if len(turns) > 1:
        raise Refused("invalid", "Calls of several turns have this id: name the `turn`.", field="turn", turns=turns)
    events = tuple(kill(loop.id, each.turn, each.call) for loop, each in found if each.killer is None)
    return Decision(events, {"call": command.call, "joined": not events}, None if events else "joined")


def background_of(state: State, turn: str, call: str) -> Background | None:
    """What that call left running, whosever it is by now."""
    listed = (each for loop in state.loops.values() for each in loop.background)
    return next((each for each in listed if (each.turn, each.call) == (turn, call)), None)


def background_ended(state: State, command: BackgroundEnded, context: Context) -> Decision:
    """They have ended, as the act of whoever wanted that (A5); what outlived its kill stays listed."""
    listed = _listed(state, command)
    if listed is None:
        raise Refused("stale", "That is not running in the background.", call=command.call)
    processes: dict[str, Any] = {
        "ended": list(command.ended), "surviving": list(command.surviving), "background": [],
    }  # fmt: skip
    if command.unknown:
        processes["unknown"] = True
    data = {"call": command.call, "processes": processes, "background": True}
    if command.why and listed.killer is None:
        data["why"] = command.why
    ended = Draft("ProcessesEnded", data, command.loop, command.turn)
    if listed.killer is not None:
        ended = replace(ended, actor=actor_from(listed.killer["actor"]), cause=listed.killer["cause"])
    return Decision((ended,))


def _listed(state: State, command: BackgroundEnded) -> Background | None:
    """The entry it is about; a call that is about to settle is not there yet, which its worker tries again."""
    listed = background_of(state, command.turn, command.call)
    if listed is not None:
        return listed
    loop = state.loops.get(command.loop)
    turn = None if loop is None else loop.turn
    for call in () if turn is None or turn.id != command.turn else turn.calls or ():
        if call.call == command.call and call.status == "started":
            raise Refused("unavailable", "The call has not been settled yet.", retry_after=0.5)
    return None
