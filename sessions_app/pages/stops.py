"""A stop as one entry of the pages about them: what it ended, told as a whole and agent by agent."""

from collections.abc import Mapping
from typing import Any, Final

from sessions_app.pages.words import (
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

_ADDED: Final = ("steps_kept", "cut_off", "ended", "surviving", "kept", "held", "cancelled")


def entry(stop: Mapping[str, Any]) -> dict[str, Any]:
    """A stop for the table: what is true of the whole, `parts` where several agents' turns ended, and `kills`."""
    turns, kills = [part(item) for item in stop["turns"]], [kill(each) for each in stop["kills"]]
    first: Mapping[str, Any] = turns[0] if turns else kills[0]
    heard = [item["acknowledged_ms"] for item in turns if item["acknowledged_ms"] is not None]
    return {
        **{name: sum(item[name] for item in turns) for name in _ADDED},
        "ended": sum(item["ended"] for item in turns) + sum(each["ended"] for each in kills),
        "surviving": sum(item["surviving"] for item in turns) + sum(len(each["surviving"]) for each in kills),
        "unknown": any(each["unknown"] for each in (*turns, *kills)),
        "ending": sum(each["going"] for each in kills),
        "acknowledged_ms": max(heard) if heard else None,
        "settled_ms": max([item["settled_ms"] for item in turns] + [each["ms"] for each in kills if each["ms"]] or [0]),
        "ended_by": next((item["ended_by"] for item in turns if item["ended_by"] != "worker"), "worker"),
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
    """One agent's turn."""
    return {
        **item,
        "hit": PHASES.get(item["phase"], item["phase"]),
        "agent": sentence(agent_name(item["task"])),
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
        "words": sentence(f"{name or 'a background process'}"),
        "how": sentence(how),
        "bad": bool(each["surviving"] or each["unknown"]),
        "ended": max(1, len(each["processes"])) if done and not each["unknown"] else 0,
        "going": 0 if done or each["surviving"] or each["unknown"] else max(1, len(each["processes"])),
    }


def facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A whole stop's numbers in (words, value) pairs, as those of one turn are said."""
    alive = found["surviving"] or found["unknown"] or found["ending"]
    said = [
        ("it ended", found["agents"]),
        ("workers got it in", duration(found["acknowledged_ms"]) if found["acknowledged_ms"] is not None else ""),
        ("the turns ended in" if alive else "everything ended in", duration(found["settled_ms"])),
        ("kept", counted(found["steps_kept"], "step")),
        ("cut off", counted(found["cut_off"], "character") if found["cut_off"] else ""),
        ("ended", counted(found["ended"], "process", "processes") if found["ended"] else ""),
        ("being ended", counted(found["ending"], "process", "processes") if found["ending"] else ""),
        ("still running", counted(found["surviving"], "process", "processes") if found["surviving"] else ""),
        ("processes", "not known to have ended" if found["unknown"] else ""),
        ("paused", counted(found["held"], "message") if found["held"] else ""),
    ]
    return [(words, value) for words, value in said if value]
