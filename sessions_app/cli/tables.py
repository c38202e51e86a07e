"""Lists on a terminal: sessions and interruptions, aligned, one line each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sessions_app.cli.terminal import one_line
from sessions_app.cli.words import seconds
from sessions_app.pages.words import agent_name, asked_at, plain

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
    """The interruptions, newest first, those of one stop together.

    Of a stop nothing is summed up: a filter, or how many were asked for, may have left out some of what it ended.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        found.setdefault(item["request"] or item["id"], []).append(item)
    rows = [row for turns in found.values() for row in _rows(turns)]
    head = ("when", "session", "who or what", "it hit", "heard in", "ended in", "kept", "processes", "reason")
    return table(head, rows) if rows else "No interruptions."


def _rows(turns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One line for one agent; for several one of the stop and one of each, the main agent first."""
    first = turns[0]
    asked = local_time(min(asked_at(item["at"], item) for item in turns).isoformat())
    reason = one_line(next((item["reason"] for item in turns if item["reason"]), ""), 80)
    if len(turns) == 1:
        return [(asked, _turn(first), _who(first), *_numbers(first), reason)]
    parts = sorted(turns, key=lambda item: item.get("task") is not None)
    whole = (asked, "several agents", _who(parts[0]), "", "", "", "", "", reason)
    return [whole, *(("", f"  {_turn(item)}", "", *_numbers(item), "") for item in parts)]


def _numbers(item: Mapping[str, Any]) -> tuple[str, ...]:
    """What one agent's turn came to."""
    heard = item["acknowledged_ms"]
    return (
        item["phase"], "" if heard is None else seconds(heard), seconds(item["settled_ms"]), str(item["steps_kept"]),
        _processes(item),
    )  # fmt: skip


def _processes(item: Mapping[str, Any]) -> str:
    """What became of its processes, in short."""
    ended, surviving = item.get("ended", 0), item.get("surviving", 0)
    said = [f"{ended} ended" if ended else "", f"{surviving} still running" if surviving else ""]
    said.append("unknown" if item.get("unknown") else "")
    return ", ".join(each for each in said if each)


def _turn(item: Mapping[str, Any]) -> str:
    """The session by its title, the turn, and the id that other commands take."""
    title = one_line(item["title"] or "(no title yet)", 40)
    agent = one_line(plain(agent_name(item.get("task"))))
    return (
        f"{title}, turn {item['turn_index']} of {'the ' if item.get('task') is None else ''}{agent} ({item['session']})"
    )


def _who(item: Mapping[str, Any]) -> str:
    if item["cause"] in _CAUSES:
        return _CAUSES[item["cause"]]
    actor = item["actor"]
    device = actor.get("device")
    return one_line(f"{actor['name']} ({device['kind']})" if device else actor["name"], 30)
