"""The enduring events: what each type holds, which of it is text (erasable, A3) and which of it observers never see.

An event's payload has two parts. *Facts* are ids, words from closed lists and numbers: all that `evolve` reads. *Texts*
are what people, models and tools wrote. Where the payload is stored, a text stands in the facts as a hole; see
`sessions_app.log.payload`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessions_app.engine.actors import Actor

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a number. `actor` and `cause` stand only where they differ from the command's own.

    The terminal of a stopped turn is the stopping person's event, not the worker's (A5).
    """

    type: str
    data: Data = field(default_factory=dict)
    loop: str | None = None
    turn: str | None = None
    step: int | None = None
    actor: Actor | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A numbered event of the log. `at_ms` is the database's time in whole milliseconds since 1970 (A7)."""

    seq: int
    at_ms: int
    type: str
    data: Data
    loop: str | None
    turn: str | None
    step: int | None
    actor: Actor
    cause: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """What a type may hold: all its fields, the paths that are texts (`a.b`, `a[].b`), what observers do not get."""

    fields: tuple[str, ...]
    texts: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    hidden_whole: bool = False


SHAPES: Final[Mapping[str, Shape]] = {
    "SessionCreated": Shape(
        ("title", "created_by", "workspace", "settings", "untitled", "replaced"), ("title", "workspace")
    ),
    "SessionChanged": Shape(("title", "settings", "closing", "replaced"), ("title",)),
    "MemberChanged": Shape(("person", "role"), hidden_whole=True),
    "SessionIdle": Shape(()),
    "SessionClosed": Shape(()),
    "ContentErased": Shape(("seq", "reason", "replaced"), ("reason",)),
    "LoopStarted": Shape(
        ("parent", "call", "task", "agent", "model", "mode", "instructions", "replaced"),
        ("task", "instructions"),
        ("instructions",),
    ),
    "LoopIdle": Shape(()),
    "LoopClosed": Shape(()),
    "InputQueued": Shape(
        ("input", "text", "agency", "delivery", "position", "request", "author", "retries", "files", "replaced"),
        ("text", "files[].name"),
    ),
    "InputChanged": Shape(("input", "text", "agency", "delivery", "position", "request", "replaced"), ("text",)),
    "InputHeld": Shape(("inputs", "steers", "request")),
    "InputReleased": Shape(("inputs", "steers", "request")),
    "InputCancelled": Shape(("input", "reason", "text", "files"), ("text", "files[].name")),
    "SteerQueued": Shape(
        ("steer", "text", "urgent", "for_turn", "author", "files", "replaced"), ("text", "files[].name")
    ),
    "SteerDelivered": Shape(("steer",)),
    "SteerWithdrawn": Shape(("steer", "reason", "text", "files"), ("text", "files[].name")),
    "TurnStarted": Shape(("index", "input", "worker", "epoch")),
    "TurnResumed": Shape(("worker", "epoch")),
    "TurnHandedOver": Shape(("from_worker", "at", "usage", "cost", "attempt")),
    "TurnFoldedInto": Shape(("input",)),
    "StepPlanned": Shape(
        ("text", "reasoning", "calls", "usage", "cost", "repeats", "replaced"),
        ("text", "reasoning", "calls[].arguments"),
    ),
    "GateOpened": Shape(("gate", "call", "tool", "question", "offers", "replaced"), ("offers[].value",)),
    "GateResolved": Shape(("gate", "call", "decision", "rule", "message", "replaced"), ("rule.value", "message")),
    "GateClosed": Shape(("gate", "call", "reason")),
    "RuleRevoked": Shape(("rule",)),
    "ModeChanged": Shape(("mode",)),
    "LoopChanged": Shape(("model", "instructions", "limits", "replaced"), ("instructions",), ("instructions",)),
    "ToolStarted": Shape(("call", "tool", "arguments", "rule", "replaced"), ("arguments",)),
    "ToolSettled": Shape(
        ("call", "tool", "outcome", "output", "exit", "code", "duration_ms", "processes", "replaced"),
        (
            "output", "processes.ended[].command", "processes.surviving[].command", "processes.background[].command",
        ),
    ),
    "StepDone": Shape(("text", "reasoning", "usage", "cost", "replaced"), ("text", "reasoning")),
    "OutputSuperseded": Shape(
        ("kind", "text", "reasoning", "calls", "steers", "usage", "cost", "replaced"),
        ("text", "reasoning", "calls[].arguments"),
    ),
    "TurnDone": Shape(
        ("steps", "usage", "cost", "known_cost", "duration_ms", "processes", "note", "replaced"),
        ("processes.surviving[].command",),
    ),
    "TurnFailed": Shape(
        ("error", "steps", "usage", "cost", "known_cost", "duration_ms", "cut_off", "processes", "note", "replaced"),
        ("error.detail", "cut_off.text", "cut_off.reasoning", "processes.surviving[].command"),
    ),
    "InterruptRequested": Shape(
        ("request", "scope", "turns", "reason", "queue", "phases", "cause", "keep_background", "replaced"), ("reason",)
    ),
    "TurnInterrupted": Shape(
        (
            "request", "cause", "which", "reason", "ended_by", "phase", "acknowledged_ms", "settled_ms", "steps_kept",
            "cut_off", "processes", "gates", "inputs", "steers", "usage", "cost", "known_cost",
            "note", "grace_ms", "replaced",
        ),
        ("reason", "cut_off.text", "cut_off.reasoning", "processes.ended[].command", "processes.surviving[].command"),
    ),
    "InterruptReasonGiven": Shape(("request", "turn", "reason", "replaced"), ("reason",)),
    "KillRequested": Shape(("call",)),
    "KeepRevoked": Shape(("call",)),
    "ProcessesEnded": Shape(
        ("call", "processes", "background", "why", "replaced"),
        ("processes.ended[].command", "processes.surviving[].command"),
    ),
}  # fmt: skip
"""Every type that is written. `replaced` is true where something could not be stored as it was (A6). A text that goes
back to its author was cleaned when it came."""


def text_slots(type_: str, data: Data) -> Iterator[tuple[Any, Any]]:
    """Each text of a payload as (container, key), so that a caller may read or replace it in place."""
    for path in SHAPES[type_].texts:
        yield from _slots(data, path.split("."))


def _slots(node: Any, path: list[str]) -> Iterator[tuple[Any, Any]]:
    name, rest = path[0], path[1:]
    each = name.endswith("[]")
    name = name.removesuffix("[]")
    if not isinstance(node, dict) or node.get(name) is None:
        return
    if not rest:
        yield node, name
    elif each:
        for item in node[name]:
            yield from _slots(item, rest)
    else:
        yield from _slots(node[name], rest)
