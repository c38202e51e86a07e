"""What one stop came to: the one place where it is counted, for every screen, list, terminal and answer.

A stop is all that one request ended: its turns have its id in common, and what it ended in the background has its
command as the cause (E13). Each count is that of the stop's end, and adds up over its turns and those processes:

- `ended`: processes that it ended, of its turns' calls and in the background (E7); `ending`: those in the background of
  which nobody has heard yet; `surviving` and `unknown`: what outlived it, or may have;
- `settled_ms`: until the last of all that had ended; `acknowledged_ms`: until the last worker had heard of it;
- `steps_kept`: committed steps of its turns (C5); `cut_off`: characters of replies and thoughts that nobody will
  finish (C3); `approvals`: those that were open (H2);
- `held`, `kept`, `cancelled`: messages that are paused now, that were left as they were, and that were given back.

The page has its twin in `static/js/session/stops.js`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict

Event = Mapping[str, Any]
"""A frame of an event: `type`, `at`, `loop`, `turn`, `actor`, `cause`, `data`."""
Call = tuple[str, str]
"""The turn and the id of a call that left something running."""


class Numbers(TypedDict):
    """A stop's numbers, or those of one agent's part in it. `ended_by`: the worker, if all of it ended as it should."""

    agents: int
    acknowledged_ms: int | None
    settled_ms: int
    steps_kept: int
    cut_off: int
    approvals: int
    ended: int
    ending: int
    surviving: int
    unknown: bool
    held: int
    kept: int
    cancelled: int
    ended_by: str


_ADDED: Final = (
    "agents", "steps_kept", "cut_off", "approvals", "ended", "ending", "surviving", "held", "kept", "cancelled",
)  # fmt: skip
_NOTHING: Final = Numbers(
    agents=0, acknowledged_ms=None, settled_ms=0, steps_kept=0, cut_off=0, approvals=0, ended=0, ending=0, surviving=0,
    unknown=False, held=0, kept=0, cancelled=0, ended_by="worker",
)  # fmt: skip


def of_turn(data: Mapping[str, Any]) -> Numbers:
    """One turn's, from its `TurnInterrupted`."""
    inputs, steers, processes, cut = (data.get(name) or {} for name in ("inputs", "steers", "processes", "cut_off"))
    return Numbers(
        agents=1,
        acknowledged_ms=data.get("acknowledged_ms"),
        settled_ms=data["settled_ms"],
        steps_kept=data["steps_kept"],
        cut_off=sum(_length(text) for text in cut.values()),
        approvals=len(data.get("gates") or ()),
        ended=len(processes.get("ended") or ()),
        ending=0,
        surviving=len(processes.get("surviving") or ()),
        unknown=bool(processes.get("unknown")),
        # Messages, to a person: what waits for its own turn and what waits for the next step alike.
        held=len(inputs.get("held") or ()) + len(steers.get("held") or ()),
        kept=len(inputs.get("kept") or ()) + len(steers.get("kept") or ()),
        cancelled=len(inputs.get("cancelled") or ()) + len(steers.get("withdrawn") or ()),
        ended_by=data.get("ended_by") or "worker",
    )


def _length(text: Any) -> int:
    """Of a text that is kept elsewhere its size, of an erased one nothing."""
    return len(text) if isinstance(text, str) else int(text.get("size") or 0) if isinstance(text, Mapping) else 0


def of_background(left: Sequence[Any], processes: Mapping[str, Any] | None, ms: int) -> Numbers:
    """Those of what a call had left running, from what it left and what its `ProcessesEnded`, after `ms`, says."""
    if processes is None:
        return {**_NOTHING, "ending": max(1, len(left))}
    surviving, unknown, ended = len(processes["surviving"]), bool(processes.get("unknown")), len(processes["ended"])
    if surviving or unknown:
        return {**_NOTHING, "surviving": surviving, "unknown": unknown, "ended": ended, "settled_ms": ms}
    return {**_NOTHING, "ended": ended or max(1, len(left)), "settled_ms": ms}


def together(parts: Iterable[Numbers]) -> Numbers:
    """Those of the whole."""
    parts = list(parts)
    heard = [part["acknowledged_ms"] for part in parts if part["acknowledged_ms"] is not None]
    by = (part["ended_by"] for part in parts if part["ended_by"] != "worker")
    added: Any = {name: sum(part[name] for part in parts) for name in _ADDED}
    return {
        **_NOTHING,
        **added,
        "acknowledged_ms": max(heard) if heard else None,
        "settled_ms": max((part["settled_ms"] for part in parts), default=0),
        "unknown": any(part["unknown"] for part in parts),
        "ended_by": next(by, "worker"),
    }


@dataclass(slots=True)
class Kill:
    """The end of what a call had left running, asked for by a stop; `ended` is its `ProcessesEnded`, once there."""

    asked: Event
    left: Sequence[Any]
    ended: Event | None = None

    def numbers(self) -> Numbers:
        if self.ended is None:
            return of_background(self.left, None, 0)
        return of_background(self.left, self.ended["data"]["processes"], between_ms(self.asked["at"], self.ended["at"]))


@dataclass(slots=True)
class Stop:
    """One stop as its events tell it, from its `InterruptRequested` on."""

    asked: Event
    ends: list[Event] = field(default_factory=list)
    kills: dict[Call, Kill] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether all of its turns have ended."""
        return 0 < len(self.asked["data"]["turns"]) <= len(self.ends)

    def numbers(self) -> Numbers:
        """Those of all that it has ended so far."""
        turns = [of_turn(end["data"]) for end in self.ends]
        return together([*turns, *(kill.numbers() for kill in self.kills.values())])


class Stops:
    """The stops among a session's events, which come in order."""

    def __init__(self) -> None:
        self.by_request: dict[str, Stop] = {}
        self._left: dict[Call, Sequence[Any]] = {}

    def apply(self, event: Event) -> Stop | None:
        """One event further; the stop that it belongs to."""
        data = event["data"]
        match event["type"]:
            case "InterruptRequested":
                return self.by_request.setdefault(data["request"], Stop(event))
            case "ToolSettled" if (data.get("processes") or {}).get("background"):
                self._left[event["turn"], data["call"]] = data["processes"]["background"]
            case "KillRequested":
                stop = next((each for each in self.by_request.values() if _same(each.asked, event)), None)
                if stop is not None:
                    call = event["turn"], data["call"]
                    stop.kills.setdefault(call, Kill(event, self._left.get(call, ())))
                return stop
            case "ProcessesEnded":
                call = event["turn"], data["call"]
                for stop in self.by_request.values():
                    if call in stop.kills:
                        stop.kills[call].ended = event
                        return stop
            case "TurnInterrupted":
                stop = self.by_request.get(data.get("request") or "")
                if stop is not None:
                    stop.ends.append(event)
                return stop
        return None


def _same(asked: Event, event: Event) -> bool:
    """Whether both are one command's: people choose their commands' ids, unique for each of them only (A4)."""
    return bool(asked["cause"] == event["cause"] and asked["actor"]["id"] == event["actor"]["id"])


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def between_ms(start: str, end: str) -> int:
    """Milliseconds from one instant to another as both are told, to the millisecond; never negative."""
    first, last = ((datetime.fromisoformat(at) - _EPOCH) // timedelta(milliseconds=1) for at in (start, end))
    return max(0, last - first)
