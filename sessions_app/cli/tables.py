"""Lists on a terminal: sessions and interruptions, aligned, one line each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sessions_app.cli.terminal import one_line
from sessions_app.cli.words import seconds
from sessions_app.pages.stops import grouped
from sessions_app.pages.words import agent_name, asked_at, counted, plain

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
    """The stops, newest first, each with what it came to over all agents, and below it each agent's part."""
    rows = [row for turns in grouped(items) for row in _rows(turns)]
    head = ("when", "session", "who or what", "it hit", "heard in", "ended in", "kept", "processes", "reason")
    return table(head, rows) if rows else "No interruptions."


def _rows(turns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    first, several = turns[0], len(turns) > 1
    heard = [item["acknowledged_ms"] for item in turns if item["acknowledged_ms"] is not None]
    reason = next((item["reason"] for item in turns if item["reason"]), "")
    whole = (
        local_time(min(asked_at(item["at"], item) for item in turns).isoformat()),
        _turn(first) if not several else f"{counted(len(turns), 'agent')}",
        _who(first),
        ", ".join(dict.fromkeys(item["phase"] for item in turns)),
        seconds(max(heard)) if heard else "",
        seconds(max(item["settled_ms"] for item in turns)),
        str(sum(item["steps_kept"] for item in turns)),
        _processes(turns),
        one_line(reason, 80),
    )
    if not several:
        return [whole]
    parts = [
        ("", f"  {_turn(item)}", "", item["phase"],
         "" if item["acknowledged_ms"] is None else seconds(item["acknowledged_ms"]), seconds(item["settled_ms"]),
         str(item["steps_kept"]), _processes([item]), "")
        for item in turns
    ]  # fmt: skip
    return [whole, *parts]


def _processes(turns: Iterable[Mapping[str, Any]]) -> str:
    """What became of the processes of these turns, in short."""
    turns = list(turns)
    ended = sum(item.get("ended", 0) for item in turns)
    surviving = sum(item.get("surviving", 0) for item in turns)
    said = [f"{ended} ended" if ended else "", f"{surviving} still running" if surviving else ""]
    said.append("unknown" if any(item.get("unknown") for item in turns) else "")
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
