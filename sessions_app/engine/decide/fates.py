"""What becomes of what waited when a turn ends (F), cell by cell. A closing session, and a delegate that has done its
work, give everything back, whatever ended the turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sessions_app.engine.actors import actor_from
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
            draft = replace(draft, actor=actor_from(self.request.actor), cause=self.request.cause)
        self.events.append(draft)


def outlived(turn: Turn) -> bool:
    """Whether something still runs, or may, of what the turn and the delegates that have ended in it started (E7)."""
    return turn.unknown or bool(turn.survivors)


def survivors(turn: Turn, context: Context) -> list[dict[str, Any]]:
    """What is still running of the turn's settled calls, `{pid, command}` each; an erased command (A3) is left out."""
    left = [process for each in turn.survivors for process in context.payload(each.seq)["processes"]["surviving"]]
    return [process if isinstance(process["command"], str) else {**process, "command": ""} for process in left]


def held_note(state: State) -> dict[str, str]:
    """That survivors hold what waits; a closing session holds nothing: it gives everything back."""
    return {"note": "held_processes"} if state.status == "open" else {}


def fates(
    state: State, loop: Loop, turn: Turn, column: Column, context: Context, request: Request | None = None
) -> Aftermath:
    """What becomes of the loop's queues once `turn` has ended.

    Beside what survived a call of the turn nothing may start, however the turn ended (E7, F). A delegate with human
    inputs that may run goes on with them; else it closes, and nothing can wait there any more (G3).
    """
    if outlived(turn):
        column = "survivors"
    result = Aftermath(loop, context, turn.id, request, None if request is None else request.id)
    if state.status == "closing":
        return_all(result, "session_closed")
        return result
    dispose(result, column)
    if loop.parent is None or goes_on(state, result):
        return result
    closing = Aftermath(loop, context, turn.id, request)
    return_all(closing, "loop_closed")
    return closing


def goes_on(state: State, result: Aftermath) -> bool:
    """Whether a delegate has human inputs left that may run; not under a parent that is about to end (E2, G3)."""
    loop = result.loop
    if result.request is not None and result.request.why == "parent":
        return False
    parent = state.loops[loop.parent or ""].turn
    gone = {*result.inputs["held"], *result.inputs["cancelled"]}
    sent = () if result.request is None else result.request.then
    waits = any(
        (entry.agency == "human" or entry.id in sent) and not entry.held and entry.id not in gone
        for entry in loop.inbox
    )
    return waits and parent is not None and parent.mark is None


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
    """What waited when the end was asked for, less what was sent with the request to run first (E12).

    Where nobody asked, the end itself is the moment: until then a fault is unreported, and a lease lives (J2).
    """
    loop, request = result.loop, result.request
    if request is None or column == "survivors":
        return list(loop.inbox), list(loop.steers)
    inputs = [entry for entry in loop.inbox if entry.seq < request.seq and entry.id not in request.then]
    return inputs, [steer for steer in loop.steers if steer.seq < request.seq]


def return_all(result: Aftermath, reason: str) -> None:
    """Everything that waits goes back, held or not, whenever it came (K1, G3)."""
    result.cancel(result.loop.inbox, reason)
    result.withdraw(result.loop.steers, reason)
