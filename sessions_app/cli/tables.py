"""Lists on a terminal: sessions and interruptions, aligned, one line each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sessions_app.cli.terminal import one_line
from sessions_app.cli.words import seconds
from sessions_app.pages.words import asked_at

_CAUSES: Final = {
    "budget": "a limit",
    "parent": "its parent ended",
    "closing": "the session closed",
    "worker_lost": "the worker died",
    "worker_shutdown": "the worker shut down",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the last one is not padded."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(line[:-1], widths, strict=True)), line[-1]]).rstrip()
        for line in lines
    )


def local_time(instant: str) -> str:
    """An instant in the reader's zone, to the second."""
    return datetime.fromisoformat(instant).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def sessions(items: Iterable[Mapping[str, Any]]) -> str:
    """The session list."""
    rows = [(item["id"], one_line(item["state"], 40), one_line(item["title"] or "(no title yet)")) for item in items]
    return table(("session", "state", "title"), rows) if rows else "No sessions."


def interruptions(items: Iterable[Mapping[str, Any]]) -> str:
    """The interruptions, newest first as they come."""
    rows = [
        (
            local_time(asked_at(item["at"], item).isoformat()),
            _turn(item),
            _who(item),
            item["phase"],
            "" if item["acknowledged_ms"] is None else seconds(item["acknowledged_ms"]),
            seconds(item["settled_ms"]),
            str(item["steps_kept"]),
            one_line(item["reason"] or "", 80),
        )
        for item in items
    ]
    head = ("when", "session", "who or what", "it hit", "heard in", "ended in", "kept", "reason")
    return table(head, rows) if rows else "No interruptions."


def _turn(item: Mapping[str, Any]) -> str:
    """The session by its title, the turn, and the id that other commands take."""
    title = one_line(item["title"] or "(no title yet)", 40)
    return f"{title}, turn {item['turn_index']} ({item['session']})"


def _who(item: Mapping[str, Any]) -> str:
    if item["cause"] in _CAUSES:
        return _CAUSES[item["cause"]]
    actor = item["actor"]
    device = actor.get("device")
    return one_line(f"{actor['name']} ({device['kind']})" if device else actor["name"], 30)
