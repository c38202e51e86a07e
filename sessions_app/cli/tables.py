"""Lists on a terminal: sessions and interruptions, aligned, one line each."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sessions_app.cli.terminal import one_line
from sessions_app.pages.stops import got_it, kill, waited
from sessions_app.pages.words import CAUSES, PHASES, agent_name, asked_at, counted, duration, plain


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


def stops(items: Iterable[Mapping[str, Any]]) -> str:
    """The stops, newest first, in the words of the page about them: each with all that it ended."""
    rows = [row for stop in items for row in _rows(stop)]
    head = (
        "when", "session", "who or what", "it hit", "got it in", "ended in", "kept", "cut off", "processes",
        "what waited", "reason",
    )  # fmt: skip
    return table(head, rows) if rows else "No interruptions."


def _rows(stop: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One line for one agent; for several one of the stop and one of each, the main agent first. Then what it ended in
    the background."""
    turns, background = stop["turns"], stop["background"]
    began = [asked_at(item["at"], item) for item in turns] + [asked_at(each["at"], {}) for each in background]
    asked, who, reason = local_time(min(began).isoformat()), _who(stop), one_line(stop["reason"] or "", 80)
    blank = ("",) * 7
    if not turns:
        first, *more = (_background(each) for each in background)
        place = f"{one_line(background[0]['title'] or '(no title yet)', 40)} ({background[0]['session']})"
        return [
            (asked, f"{place}: {first}", who, *blank, reason),
            *(("", f"  {each}", "", *blank, "") for each in more),
        ]
    heard = stop["request"] is not None
    below = [("", f"  {_background(each)}", "", *blank, "") for each in background]
    if len(turns) == 1:
        return [(asked, _turn(turns[0]), who, _hit(turns[0]), *_numbers(stop, heard), reason), *below]
    hits = ", ".join(dict.fromkeys(map(_hit, turns)))
    parts = [
        ("", f"  {_turn(item)}", "", _hit(item), *_numbers(item["numbers"], heard), "") for item in turns
    ]  # fmt: skip
    return [(asked, f"{len(turns)} agents", who, hits, *_numbers(stop, heard), reason), *parts, *below]


def _numbers(numbers: Any, asked: bool) -> tuple[str, ...]:
    """What a stop, or one agent's part of it, came to."""
    processes = [
        f"{numbers['ended']} ended" if numbers["ended"] else "",
        f"{numbers['ending']} being ended" if numbers["ending"] else "",
        f"{numbers['surviving']} still running" if numbers["surviving"] else "",
        "not known to have ended" if numbers["unknown"] else "",
    ]
    return (
        got_it(numbers, asked=asked), duration(numbers["settled_ms"]), counted(numbers["steps_kept"], "step"),
        counted(numbers["cut_off"], "character") if numbers["cut_off"] else "",
        ", ".join(each for each in processes if each), waited(numbers),
    )  # fmt: skip


def _background(each: Mapping[str, Any]) -> str:
    """What ran in the background, and how it ended."""
    told = kill(each)
    return f"in the background: {one_line(plain(told['name']), 60)}, {one_line(plain(told['became']), 80)}"


def _hit(item: Mapping[str, Any]) -> str:
    return PHASES.get(item["phase"], one_line(item["phase"]))


def _turn(item: Mapping[str, Any]) -> str:
    """The session by its title, the turn, and the id that other commands take."""
    title = one_line(item["title"] or "(no title yet)", 40)
    agent = one_line(plain(agent_name(item.get("task"))))
    return (
        f"{title}, turn {item['turn_index']} of {'the ' if item.get('task') is None else ''}{agent} ({item['session']})"
    )


def _who(item: Mapping[str, Any]) -> str:
    if item["cause"] not in ("person", "token", "admin"):
        return CAUSES.get(item["cause"], one_line(item["cause"]))
    actor = item["actor"]
    device = actor.get("device")
    return one_line(f"{actor['name']} ({device['kind']})" if device else actor["name"], 30)
