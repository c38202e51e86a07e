"""One interruption told in order: what was going on, the stop, what it ended, what came next."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from sessions_app.pages.words import (
    actor_name,
    call_line,
    counted,
    duration,
    from_device,
    instant,
    outcome,
    stopped_by,
    text_of,
)  # fmt: skip

Event = Mapping[str, Any]
Entry = dict[str, Any]
Lines = Mapping[str, str]
"""Calls as one would type them, by their ids."""
_DOTS: Final = {"ok": "done", "interrupted": "stop", "lost": "stop"}


def axis(events: Iterable[Event], turn: str, request: str | None) -> list[Entry]:
    """Entries `{at, words, dot}` for the events of a turn and of its stop, up to what came next in the session."""
    entries: list[Entry] = []
    ended = False
    lines: dict[str, str] = {}
    for event in events:
        if event["type"] == "ToolStarted":
            lines[event["data"]["call"]] = call_line(event["data"]["tool"], event["data"].get("arguments"))
        rule = _RULES.get(event["type"])
        ours = event["turn"] == turn or (request is not None and event["data"].get("request") == request)
        if rule is not None and (ours or (ended and event["type"] in _NEXT)):
            words, dot = rule(event, lines)
            entries.append({"at": event["at"], "words": words, "dot": dot})
            if ended and event["type"] in _NEXT:
                break
        if event["type"] == "TurnInterrupted" and event["turn"] == turn:
            ended = True
            _insert_acknowledged(entries, event)
    return entries


def _insert_acknowledged(entries: list[Entry], terminal: Event) -> None:
    """The moment the worker heard the stop; the terminal says how long after the request that was."""
    ms = terminal["data"].get("acknowledged_ms")
    asked = next((place for place, entry in enumerate(entries) if entry.get("dot") == "stop asked"), None)
    if ms is None or asked is None:
        return
    at = instant(entries[asked]["at"]) + timedelta(milliseconds=ms)
    words = f"The worker got it, {duration(ms)} later"
    entries.insert(asked + 1, {"at": at.isoformat(), "words": words, "dot": "stop"})


def _started(event: Event, lines: Lines) -> tuple[str, str]:
    return f"Turn {event['data']['index']} started", "live"


def _tool_started(event: Event, lines: Lines) -> tuple[str, str]:
    return f"Started: {lines[event['data']['call']]}", "live"


def _tool_settled(event: Event, lines: Lines) -> tuple[str, str]:
    data = event["data"]
    line = lines.get(data["call"], data.get("tool") or "a call")
    return f"{outcome(data).capitalize()}: {line}", _DOTS.get(data["outcome"], "none")


def _requested(event: Event, lines: Lines) -> tuple[str, str]:
    reason = text_of(event["data"].get("reason"))
    words = f"{actor_name(event['actor'])} pressed Stop{from_device(event['actor'])}"
    return f"{words}: “{reason}”" if reason else words, "stop asked"


def _interrupted(event: Event, lines: Lines) -> tuple[str, str]:
    data = event["data"]
    actor = event["actor"] if data.get("request") else None
    headline = stopped_by(data["cause"], actor, data.get("which"))
    return f"Everything had ended, after {duration(data['settled_ms'])}. {headline}", "stop"


def _held(event: Event, lines: Lines) -> tuple[str, str]:
    n = len(event["data"]["inputs"]) + len(event["data"]["steers"])
    return f"{counted(n, 'waiting message')} paused", "wait"


def _released(event: Event, lines: Lines) -> tuple[str, str]:
    n = len(event["data"]["inputs"]) + len(event["data"]["steers"])
    return f"{actor_name(event['actor'])} let {counted(n, 'paused message')} go on", "none"


def _reason(event: Event, lines: Lines) -> tuple[str, str]:
    return f"{actor_name(event['actor'])} said why: “{text_of(event['data'].get('reason'))}”", "none"


def _closed(event: Event, lines: Lines) -> tuple[str, str]:
    return "The session was closed", "none"


_NEXT: Final = frozenset({"TurnStarted", "SessionClosed"})
_RULES: Final[dict[str, Callable[[Event, Lines], tuple[str, str]]]] = {
    "TurnStarted": _started,
    "ToolStarted": _tool_started,
    "ToolSettled": _tool_settled,
    "InterruptRequested": _requested,
    "TurnInterrupted": _interrupted,
    "InputHeld": _held,
    "InputReleased": _released,
    "InterruptReasonGiven": _reason,
    "SessionClosed": _closed,
}


def receipt(events: Iterable[Event], turn: str) -> Entry | None:
    """The stop receipt of a page without scripts: `{asked, at, got, ended, seq}`; None when no stop hit that turn."""
    found: Entry | None = None
    for event in events:
        data = event["data"]
        if event["type"] == "InterruptRequested" and turn in data["turns"]:
            device = from_device(event["actor"])
            asked = actor_name(event["actor"]) + (f",{device}" if device else "")
            found = {"asked": asked, "at": event["at"], "got": None, "ended": None, "seq": None, "waits": None}
        elif event["type"] == "TurnInterrupted" and event["turn"] == turn and found is not None:
            ms, ended = data.get("acknowledged_ms"), len(data["processes"]["ended"])
            held = len(data["inputs"]["held"]) + len((data.get("steers") or {}).get("held", ()))
            processes = f", {counted(ended, 'process', 'processes')}" if ended else ""
            found |= {
                "got": duration(ms) if ms is not None else "no answer",
                "ended": duration(data["settled_ms"]) + processes,
                "seq": event["seq"],
                "waits": held,
            }
    return found
