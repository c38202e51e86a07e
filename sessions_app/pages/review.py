"""One interruption told in order: what was going on, the stop, what it ended, what came next."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from sessions_app.engine.stops import Stops
from sessions_app.pages.stops import ended_words, got_it, unproven
from sessions_app.pages.words import (
    answer_words,
    apart,
    call_line,
    counted,
    duration,
    from_device,
    handed_over_words,
    instant,
    named,
    outcome,
    sentence,
    start_of,
    stopped_by,
    text_of,
)  # fmt: skip

Event = Mapping[str, Any]
Entry = dict[str, Any]
Key = tuple[Any, ...]
Lines = Mapping[Key, str]
"""Calls as one would type them, by turn, step and id: a model may use an id again in a later step."""


class Told(NamedTuple):
    """One line of the story: words, the class of its dot, and the call it is about as one would type it."""

    words: str
    dot: str
    code: str = ""


_DOTS: Final = {"ok": "done", "interrupted": "stop", "lost": "stop"}


def axis(events: Iterable[Event], turn: str, request: str | None) -> list[Entry]:
    """What happened in a turn and to its stop, up to what came next in the session.

    Entries are `{at, words, dot}`, with `code` and whether it is a `block` of lines where one is about a call.
    """
    entries: list[Entry] = []
    ended = running = False
    lines: dict[Key, str] = {}
    started: dict[Key, str] = {}
    events = list(events)
    cause = next(
        (each["data"]["cause"] for each in events if each["type"] == "TurnInterrupted" and each["turn"] == turn), None
    )
    loop = next((event["loop"] for event in events if event["turn"] == turn), None)
    for event in events:
        lines |= _lines(event)
        if event["type"] == "ToolStarted":
            started[_call(event)] = event["at"]
        rule = _RULES.get(event["type"])
        running = running or event["turn"] == turn
        same = event["loop"] in (loop, None)  # what other agents do meanwhile is another story
        asked = request is not None and event["data"].get("request") == request and event["type"] != "TurnInterrupted"
        ours = event["turn"] == turn or (asked and same)
        ours = ours or (event["type"] in _WHILE and running and not ended and same)
        if rule is not None and (ours or (ended and same and event["type"] in _NEXT)):
            told = rule({**event, "ended_with": cause, "started": started.get(_call(event))}, lines)
            block = "\n" in told.code  # a script reads as it was written
            entries.append({
                "at": event["at"], "words": sentence(told.words), "dot": told.dot, "code": told.code, "block": block,
            })  # fmt: skip
            if ended and same and event["type"] in _NEXT:
                break
        if event["type"] == "TurnInterrupted" and event["turn"] == turn:
            ended = True
            _insert_acknowledged(entries, event)
    return entries


def _key(event: Event, call: str) -> Key:
    return event["turn"], event["step"], call


def _lines(event: Event) -> dict[Key, str]:
    """The calls an event names with their arguments: asked for, or started."""
    calls = {"StepPlanned": event["data"].get("calls") or (), "ToolStarted": (event["data"],)}.get(event["type"], ())
    return {_key(event, call["call"]): call_line(call["tool"], call.get("arguments")) for call in calls}


def approvals(events: Iterable[Event], gates: Iterable[str]) -> list[str]:
    """What these approvals asked about, as one would type it."""
    lines: dict[Key, str] = {}
    asked: dict[str, str] = {}
    for event in events:
        lines |= _lines(event)
        if event["type"] == "GateOpened":
            asked[event["data"]["gate"]] = lines.get(_key(event, event["data"]["call"]), event["data"]["tool"])
    gates = list(gates)
    known = [asked[gate] for gate in gates if gate in asked]
    further = len(gates) - len(known)
    return [*known, f"{further} that {'was' if further == 1 else 'were'} asked earlier"] if further else known


def _call(event: Event) -> Key:
    return _key(event, event["data"].get("call"))


def _insert_acknowledged(entries: list[Entry], terminal: Event) -> None:
    """The moment the worker heard the stop; the terminal says how long after the request that was."""
    ms = terminal["data"].get("acknowledged_ms")
    asked = next((place for place, entry in enumerate(entries) if entry.get("dot") == "stop asked"), None)
    if ms is None or asked is None:
        return
    at = instant(entries[asked]["at"]) + timedelta(milliseconds=ms)
    words = f"The worker got it, {duration(ms)} later"
    entries.insert(asked + 1, {"at": at.isoformat(), "words": words, "dot": "stop"})


def _started(event: Event, lines: Lines) -> Told:
    return Told(f"Turn {event['data']['index']} started", "live")


def _tool_started(event: Event, lines: Lines) -> Told:
    return Told("Started: ", "live", lines[_key(event, event["data"]["call"])])


def _tool_settled(event: Event, lines: Lines) -> Told:
    data = event["data"]
    line = lines.get(_key(event, data["call"]), data.get("tool") or "a call")
    words = outcome(data, event["ended_with"], started=event["started"], ended_at=event["at"])
    return Told(f"{words.capitalize()}: ", _DOTS.get(data["outcome"], "none"), line)


def _gate_opened(event: Event, lines: Lines) -> Told:
    return Told("Asked for approval: ", "wait", lines.get(_key(event, event["data"]["call"]), event["data"]["tool"]))


def _gate_ended(event: Event, lines: Lines) -> Told:
    return Told(answer_words(event), "none")


def _handed_over(event: Event, lines: Lines) -> Told:
    return Told(handed_over_words(event["data"]), "none")


def _resumed(event: Event, lines: Lines) -> Told:
    return Told("Went on with another worker", "live")


def _requested(event: Event, lines: Lines) -> Told:
    reason = text_of(event["data"].get("reason"))
    words = f"{named(event['actor'])} pressed Stop{from_device(event['actor'])}"
    if event["data"].get("cause") == "parent":
        words = "The agent that had started it came to its end"
    return Told(f"{words}: “{apart(reason)}”" if reason else words, "stop asked")


def _interrupted(event: Event, lines: Lines) -> Told:
    data = event["data"]
    actor = event["actor"] if data.get("request") else None
    headline = stopped_by(data, actor)
    return Told(f"The turn had ended, after {duration(data['settled_ms'])}. {headline}", "stop")


def _held(event: Event, lines: Lines) -> Told:
    n = len(event["data"]["inputs"]) + len(event["data"]["steers"])
    return Told(f"{counted(n, 'waiting message')} paused", "wait")


def _released(event: Event, lines: Lines) -> Told:
    n = len(event["data"]["inputs"]) + len(event["data"]["steers"])
    return Told(f"{named(event['actor'])} let {counted(n, 'paused message')} go on", "none")


def _reason(event: Event, lines: Lines) -> Told:
    return Told(f"{named(event['actor'])} said why: “{apart(text_of(event['data'].get('reason')))}”", "none")


def _closed(event: Event, lines: Lines) -> Told:
    return Told("The session was closed", "none")


def _steered(event: Event, lines: Lines) -> Told:
    urgent = ", urgent" if event["data"].get("urgent") else ""
    return Told(
        f"{named(event['actor'])} steered{urgent}: “{apart(start_of(text_of(event['data'].get('text'))))}”", "none"
    )


def _steer_landed(event: Event, lines: Lines) -> Told:
    return Told("The steer has reached the agent", "none")


def _steer_gone(event: Event, lines: Lines) -> Told:
    return Told(f"A steer did not reach the agent: “{apart(start_of(text_of(event['data'].get('text'))))}”", "none")


_NEXT: Final = frozenset({"TurnStarted", "SessionClosed"})
_WHILE: Final = frozenset({"SteerQueued", "SteerWithdrawn"})
"""What is told while the turn runs, and names no turn."""
_RULES: Final[dict[str, Callable[[Event, Lines], Told]]] = {
    "TurnStarted": _started,
    "TurnHandedOver": _handed_over,
    "TurnResumed": _resumed,
    "GateOpened": _gate_opened,
    "GateResolved": _gate_ended,
    "GateClosed": _gate_ended,
    "ToolStarted": _tool_started,
    "ToolSettled": _tool_settled,
    "InterruptRequested": _requested,
    "TurnInterrupted": _interrupted,
    "SteerQueued": _steered,
    "SteerDelivered": _steer_landed,
    "SteerWithdrawn": _steer_gone,
    "InputHeld": _held,
    "InputReleased": _released,
    "InterruptReasonGiven": _reason,
    "SessionClosed": _closed,
}


def receipt(events: Iterable[Event], turn: str) -> Entry | None:
    """The stop receipt of a page without scripts; None when no stop hit that turn.

    `{asked, at, gate, got, ended, what, seq, waits}`; `gate`: whether it hit an open approval; `what` has ended.
    """
    stops = Stops()
    for event in events:
        stops.apply(event)
    stop = next((each for each in stops.by_request.values() if turn in each.asked["data"]["turns"]), None)
    if stop is None:
        return None
    asked, numbers = stop.asked, stop.numbers()
    device = from_device(asked["actor"])
    found: Entry = {
        "asked": sentence(named(asked["actor"]) + (f",{device}" if device else "")),
        "at": asked["at"], "got": None, "ended": None, "seq": None, "waits": None,
        "gate": "gate" in asked["data"]["phases"].values(), "what": "Everything ended",
    }  # fmt: skip
    if stop.over:
        found |= {"got": got_it(numbers, asked=True), "seq": stop.ends[-1]["seq"], "waits": numbers["held"]}
        found["what"] = "The turn ended" if unproven(numbers) else "Everything ended"
        found["ended"] = None if numbers["ending"] else ended_words(numbers)
    return found
