"""Background processes (E13): who wants one ended, and that it has ended."""

from dataclasses import replace

from sessions_app.engine.actors import actor_from
from sessions_app.engine.commands import BackgroundEnded, KillProcesses
from sessions_app.engine.decide.context import Context, Decision
from sessions_app.engine.decide.settling import kill
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.state import Background, State


def kill_processes(state: State, command: KillProcesses, context: Context) -> Decision:
    """Somebody ends what a call left running; repeated, it joins the first."""
    found = [(loop, each) for loop in state.loops.values() for each in loop.background if each.call == command.call]
    if not found:
        raise Refused("not_found", "Nothing of that call runs in the background.", call=command.call)
    events = tuple(kill(loop.id, each.turn, each.call) for loop, each in found if each.killer is None)
    return Decision(events, {"call": command.call, "joined": not events}, None if events else "joined")


def background_ended(state: State, command: BackgroundEnded, context: Context) -> Decision:
    """They have ended, as the act of whoever wanted that (A5); what outlived its kill stays listed."""
    listed = _listed(state, command)
    if listed is None:
        raise Refused("stale", "That is not running in the background.", call=command.call)
    processes = {"ended": list(command.ended), "surviving": list(command.surviving), "background": []}
    data = {"call": command.call, "processes": processes, "background": True}
    ended = Draft("ProcessesEnded", data, command.loop, command.turn)
    if listed.killer is not None:
        ended = replace(ended, actor=actor_from(listed.killer["actor"]), cause=listed.killer["cause"])
    return Decision((ended,))


def _listed(state: State, command: BackgroundEnded) -> Background | None:
    """The entry it is about; a call that is about to settle is not there yet, which its worker tries again."""
    loop = state.loops.get(command.loop)
    for each in () if loop is None else loop.background:
        if (each.turn, each.call) == (command.turn, command.call):
            return each
    turn = None if loop is None else loop.turn
    for call in () if turn is None or turn.id != command.turn else turn.calls or ():
        if call.call == command.call and call.status == "started":
            raise Refused("unavailable", "The call has not been settled yet.", retry_after=0.5)
    return None
