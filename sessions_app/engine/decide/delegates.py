"""Delegates: a call that makes a child loop (G1), within bounds (G4). How one ends is told in `ending` (G3)."""

from sessions_app.engine.actors import Actor
from sessions_app.engine.commands import Child, Settlement, StartTool
from sessions_app.engine.decide.context import Decision
from sessions_app.engine.decide.settling import settle
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import budgets
from sessions_app.engine.state import Call, Loop, State, Turn, stricter


def start(state: State, loop: Loop, turn: Turn, call: Call, command: StartTool, child: Child) -> Decision:
    """The call starts, and with it its child, with the model, the limits and at most the mode of this turn (I1)."""
    started = Draft(
        "ToolStarted",
        {"call": call.call, "tool": call.tool, "arguments": command.arguments},
        loop.id,
        turn.id,
        turn.step,
    )
    over = _over(state, loop, turn)
    if over is not None:
        events = settle(state, loop, turn, call, Settlement("error", over, code="delegate_limit"))
        return Decision((started, *events), {"marked": False, "outcome": "settled"})
    made = {
        "parent": loop.id, "call": call.call, "task": child.task, "agent": loop.agent, "model": turn.model,
        "mode": stricter(loop.mode, turn.mode), "instructions": child.instructions,
    }  # fmt: skip
    queued = {
        "input": child.input, "text": child.task, "agency": "machine", "delivery": "queue", "position": 0,
    }  # fmt: skip
    parent = Actor("agent", loop.id, loop.agent)
    events = [started, Draft("LoopStarted", made, child.loop), Draft("InputQueued", queued, child.loop, actor=parent)]
    return Decision(tuple(events), {"marked": False, "outcome": "started"})


def _over(state: State, loop: Loop, turn: Turn) -> str | None:
    """What forbids another delegate here, in words for the model (G4)."""
    most = budgets(turn.limits)
    if len(state.ancestors(loop)) >= most["depth"]:
        return f"Not delegated: at most {most['depth']:.0f} sub-agents may stand above each other. Do it yourself."
    for each in (turn, *(above.turn for above in state.ancestors(loop) if above.turn is not None)):
        most_below = budgets(each.limits)["delegates"]
        if each.delegates >= most_below:
            return f"Not delegated: a turn may have at most {most_below:.0f} sub-agents in all. Do it yourself."
    return None
