"""The end of a turn: what becomes of what waited (F), and the one order of it (C6).

Settlements, the terminal, cancellations and holds, `LoopIdle`, `SessionIdle`, and, when the session is closing and this
was its last turn, `SessionClosed`. A closing session gives everything back, whatever ended its turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sessions_app.engine.actors import Actor, Device
from sessions_app.engine.decide.context import Context
from sessions_app.engine.decide.inputs import cancelled
from sessions_app.engine.decide.steering import withdraw
from sessions_app.engine.events import Draft
from sessions_app.engine.state import Input, Loop, Request, State, Steer, Turn

Column = Literal["run", "hold", "clear", "failed", "lost", "survivors", "done"]
"""A column of the table of section F; an interrupt's is its queue choice (E12)."""


@dataclass(slots=True)
class Aftermath:
    """What becomes of one loop's queues: the events, and what the terminal says of them (ids by fate).

    `turn` is the one that ended, None where none ran; `request` the stop that ended it, whose act the events then are,
    though a worker reports the end (A5); `held_by` the stop that sets things aside.
    """

    loop: Loop
    context: Context
    turn: str | None = None
    request: Request | None = None
    held_by: str | None = None
    events: list[Draft] = field(default_factory=list)
    inputs: dict[str, list[str]] = field(default_factory=lambda: {"kept": [], "held": [], "cancelled": []})
    steers: dict[str, list[str]] = field(default_factory=lambda: {"kept": [], "held": [], "withdrawn": []})

    def hold(self, inputs: Iterable[Input], steers: Iterable[Steer]) -> None:
        """Set aside until somebody releases them; those set aside already are only counted."""
        inputs, steers = list(inputs), list(steers)
        self.inputs["held"] += [entry.id for entry in inputs]
        self.steers["held"] += [steer.id for steer in steers]
        data: dict[str, Any] = {
            "inputs": [entry.id for entry in inputs if not entry.held],
            "steers": [steer.id for steer in steers if not steer.held],
        }
        if self.held_by is not None:
            data["request"] = self.held_by
        if data["inputs"] or data["steers"]:
            self._add(Draft("InputHeld", data, self.loop.id, self.turn))

    def cancel(self, inputs: Iterable[Input], reason: str) -> None:
        """Leave unrun, each with its text for its author (B5)."""
        for entry in inputs:
            self._add(cancelled(self.loop, entry, reason, self.context, self.turn))
            self.inputs["cancelled"].append(entry.id)

    def withdraw(self, steers: Iterable[Steer], reason: str) -> None:
        """Leave undelivered, each with its text for its sender (D8)."""
        for steer in steers:
            self._add(withdraw(self.loop, steer, reason, self.context, self.turn))
            self.steers["withdrawn"].append(steer.id)

    def keep(self, inputs: Iterable[Input], steers: Iterable[Steer]) -> None:
        """Stay where they are."""
        self.inputs["kept"] += [entry.id for entry in inputs]
        self.steers["kept"] += [steer.id for steer in steers]

    def _add(self, draft: Draft) -> None:
        if self.request is not None:
            draft = replace(draft, actor=actor_of(self.request), cause=self.request.cause)
        self.events.append(draft)


def actor_of(request: Request) -> Actor:
    """Who asked for the stop, as the log holds it."""
    device = request.actor["device"]
    return Actor(
        request.actor["kind"],
        request.actor["id"],
        request.actor["name"],
        None if device is None else Device(device["kind"], device["name"]),
    )


def survivors(turn: Turn, context: Context) -> list[dict[str, Any]]:
    """What is still running of the turn's settled calls, `{pid, command}` each; an erased command (A3) is left out."""
    left = [process for each in turn.survivors for process in context.payload(each.seq)["processes"]["surviving"]]
    return [process if isinstance(process["command"], str) else {**process, "command": ""} for process in left]


def holding(state: State, turn: Turn, context: Context) -> dict[str, Any]:
    """What the terminal of a turn that was not interrupted says of its survivors; nothing where there are none."""
    if not turn.survivors:
        return {}
    processes = {"ended": [], "surviving": survivors(turn, context), "unknown": False}
    return {"processes": processes, **held_note(state)}


def held_note(state: State) -> dict[str, str]:
    """That survivors hold what waits; a closing session holds nothing: it gives everything back."""
    return {"note": "held_processes"} if state.status == "open" else {}


def aftermath(
    state: State, loop: Loop, turn: Turn, column: Column, context: Context, request: Request | None = None
) -> Aftermath:
    """What becomes of the loop's queues once `turn` has ended, down to the idle edges.

    Beside what survived a call of the turn nothing may start, however the turn ended (E7, F).
    """
    if turn.survivors:
        column = "survivors"
    result = Aftermath(loop, context, turn.id, request, None if request is None else request.id)
    if state.status == "closing":
        return_all(result)
    else:
        dispose(result, column)
    result.events.append(Draft("LoopIdle", {}, loop.id))
    others_idle = all(other.status != "running" for other in state.loops.values() if other.id != loop.id)
    if others_idle:
        result.events.append(Draft("SessionIdle"))
        if state.status == "closing":
            result.events.append(Draft("SessionClosed"))
    return result


def dispose(result: Aftermath, column: Column) -> None:
    """Apply one column of table F to what the end touches: only what was queued before its request (E5)."""
    inputs, steers = _touched(result, column)
    humans = [entry for entry in inputs if entry.agency == "human"]
    machines = [entry for entry in inputs if entry.agency == "machine"]
    match column:
        case "done":
            return
        case "survivors":  # nothing may start beside what still runs, whoever asked for it
            result.hold(inputs, steers)
        case "failed":
            result.cancel(machines, "turn_failed")
            result.hold(humans, ())
            result.keep((), steers)
        case "hold":
            result.cancel(machines, "turn_interrupted")
            result.hold(humans, steers)
        case "clear":
            result.cancel(machines, "turn_interrupted")
            result.cancel(humans, "cleared")
            result.withdraw(steers, "cleared")
        case "run" | "lost":
            result.cancel(machines, "turn_interrupted")
            result.keep(humans, steers)


def _touched(result: Aftermath, column: Column) -> tuple[list[Input], list[Steer]]:
    """What waited when the end was asked for, less what was sent with the request to run first (E12)."""
    loop, request = result.loop, result.request
    if request is None or column == "survivors":
        return list(loop.inbox), list(loop.steers)
    inputs = [entry for entry in loop.inbox if entry.seq < request.seq and entry.id not in request.then]
    return inputs, [steer for steer in loop.steers if steer.seq < request.seq]


def return_all(result: Aftermath) -> None:
    """A closing session gives back whatever waits, held or not, whenever it came (K1)."""
    result.cancel(result.loop.inbox, "session_closed")
    result.withdraw(result.loop.steers, "session_closed")
