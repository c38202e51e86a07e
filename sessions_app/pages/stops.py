"""A stop as one entry of the pages about them: what it ended, told as a whole and agent by agent."""

from collections.abc import Mapping
from typing import Any, Literal

from sessions_app.engine.stops import Numbers
from sessions_app.pages.words import (
    ENDED_BY,
    PHASES,
    agent_name,
    apart,
    asked_at,
    counted,
    duration,
    instant,
    plain,
    process_names,
    sentence,
    start_of,
)  # fmt: skip


def entry(stop: Mapping[str, Any]) -> dict[str, Any]:
    """A stop for the table: what is true of the whole, `parts` where several agents' turns ended, and `kills`."""
    turns, kills = [part(item) for item in stop["turns"]], [kill(each) for each in stop["kills"]]
    first: Mapping[str, Any] = turns[0] if turns else kills[0]
    numbers: Numbers = stop["numbers"]
    return {
        **numbers,
        "numbers": numbers,
        "got": got_it(numbers, asked=first.get("asked", True)),
        "waited": waited(numbers),
        "hit": ", ".join(dict.fromkeys(item["hit"] for item in turns)) or "a background process",
        "id": turns[0]["id"] if turns else None,
        "asked_at": min(each["asked_at"] for each in (*turns, *kills)),
        "actor": first["actor"], "by_somebody": first["by_somebody"], "cause": first["cause"],
        "reason": next((item["reason"] for item in turns if item["reason"]), None),
        "sessions": list({each["session"]: each for each in (*turns, *kills)}.values()),
        "turn": turns[0] if len(turns) == 1 else None,
        "agents": counted(len(turns), "agent"),
        "parts": turns if len(turns) > 1 else [],
        "kills": kills,
    }  # fmt: skip


def part(item: Mapping[str, Any]) -> dict[str, Any]:
    """One agent's turn, of a stop."""
    return {
        **item,
        **item["numbers"],
        "hit": PHASES.get(item["phase"], item["phase"]),
        "agent": sentence(agent_name(item["task"])),
        "asked": item["request"] is not None,
        "waited": waited(item["numbers"]),
        "got": got_it(item["numbers"], asked=item["request"] is not None),
        "asked_at": asked_at(item["at"], item),
        "by_somebody": item["cause"] in ("person", "token", "admin") and item.get("actor") is not None,
        "asked_for": item["request"] is not None and item["actor"]["kind"] != "system",
    }


def kill(each: Mapping[str, Any]) -> dict[str, Any]:
    """What became of what ran in the background, and by whom."""
    command = each["command"]
    name = apart(start_of(plain(command))) if isinstance(command, str) else process_names(each["processes"])
    done = each["ended_at"] is not None
    if each["surviving"]:
        how = f"outlived its kill: {process_names(each['surviving'])}"
    elif each["unknown"]:
        how = "not known to have ended"
    elif done:
        how = "ended" + (f" in {duration(each['ms'])}" if not each["why"] else "")
    else:
        how = "is being ended"
    return {
        **each,
        "asked_at": instant(each["at"]),
        "by_somebody": each["actor"]["kind"] != "system",
        "name": name or "a background process",
        "became": how,
        "words": sentence(name or "a background process"),
        "how": sentence(how),
        "bad": bool(each["surviving"] or each["unknown"]),
    }


def got_it(numbers: Numbers, *, asked: bool) -> str:
    """How long it took until the workers had heard of a stop, or why none did; nothing where nobody had asked."""
    if numbers["acknowledged_ms"] is not None:
        return duration(numbers["acknowledged_ms"])
    if not asked:
        return ""
    return {"request": "no worker had it", "sweep": "its worker was gone"}.get(numbers["ended_by"], "no answer")


def waited(numbers: Numbers) -> str:
    """What became of what waited for a person, and for the agent; nothing where nothing did."""
    kept = numbers["kept"]
    said = [
        f"{counted(numbers['approvals'], 'approval')} closed" if numbers["approvals"] else "",
        f"{numbers['held']} paused" if numbers["held"] else "",
        f"{kept} left as {'it was' if kept == 1 else 'they were'}" if kept else "",
        f"{numbers['cancelled']} given back" if numbers["cancelled"] else "",
    ]
    return ", ".join(each for each in said if each)


def unproven(numbers: Numbers) -> bool:
    """Whether something may have outlived it (E7, J6)."""
    return bool(numbers["surviving"] or numbers["unknown"])


def ended_words(numbers: Numbers) -> str:
    """What it ended, and how long that took, as the receipt says it: `0.4 s, 3 agents, 6 processes, 2 approvals`."""
    by = numbers["ended_by"]
    said = [
        duration(numbers["settled_ms"]),
        counted(numbers["agents"], "agent") if numbers["agents"] > 1 else "",
        counted(numbers["ended"], "process", "processes") if numbers["ended"] else "",
        counted(numbers["approvals"], "approval") if numbers["approvals"] else "",
        ENDED_BY[by] if by != "worker" else "",
    ]
    return ", ".join(each for each in said if each)


def facts(numbers: Numbers, phase: str = "", grace_ms: int | None = None) -> list[tuple[str, str]]:
    """A stop's numbers in (words, value) pairs, as its rule in the timeline and its page say them.

    `phase`: what it hit, of one agent's; `grace_ms`: how long a worker that was told to end had waited before.
    """
    several, heard, by = numbers["agents"] > 1, numbers["acknowledged_ms"], numbers["ended_by"]
    what = "the turns" if several else "the turn"
    what = what if unproven(numbers) or numbers["ending"] else "everything"

    def processes(name: Literal["ended", "ending", "surviving"]) -> str:
        return counted(numbers[name], "process", "processes") if numbers[name] else ""

    said = [
        ("it ended", counted(numbers["agents"], "agent") if several else ""),
        ("it hit", "an open approval" if phase == "gate" and not several else ""),
        ("workers got it in" if several else "worker got it in", duration(heard) if heard is not None else ""),
        ("after a grace of", duration(grace_ms) if grace_ms is not None else ""),
        (f"{what} ended in", duration(numbers["settled_ms"])),
        ("kept", counted(numbers["steps_kept"], "step")),
        ("cut off", counted(numbers["cut_off"], "character") if numbers["cut_off"] else ""),
        ("ended", processes("ended")),
        ("being ended", processes("ending")),
        ("still running", processes("surviving")),
        ("processes", "not known to have ended" if numbers["unknown"] else ""),
        ("closed", counted(numbers["approvals"], "approval") if numbers["approvals"] else ""),
        ("paused", counted(numbers["held"], "message") if numbers["held"] else ""),
        ("", ENDED_BY[by] if by != "worker" else ""),
    ]
    return [(words, value) for words, value in said if value]
