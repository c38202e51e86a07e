"""Receipts in a person's words."""

from collections.abc import Mapping
from typing import Any, Final

from sessions_app.cli.terminal import one_line
from sessions_app.pages import words as pages

_NOTES: Final = {
    "idle": "Nothing was running.",
    "turn_over": "That turn was over already; nothing was stopped.",
    "not_started": "Nothing had started yet.",
    "closing": "The session is closing; everything in it ends.",
}
_PHASES: Final = {
    "tool": "the running command",
    "model": "the agent's present reply",
    "retry": "the wait for the model",
    "gate": "the open approval",
}
_LATER_NOTES: Final = {
    "held_processes": "Something may still run: what waited is paused until you release it.",
}


def plural(count: int, thing: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def seconds(ms: float) -> str:
    """A duration as people say it: `0.4 s`, `38 s`, `3 min 5 s`, `2 h 4 min`."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    whole = int(ms // 1000)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def rule_words(rule: Mapping[str, Any]) -> str:
    """A standing answer on one line: `every command that begins with git push`."""
    if not isinstance(rule.get("value"), str):
        return "[erased]"
    words, code = pages.rule_words(rule)
    return f"{words} {one_line(code, 200)}"


def submitted(receipt: Mapping[str, Any]) -> str:
    """An input's receipt: admitted, not answered (B1)."""
    paused = int(receipt.get("paused") or 0)
    before = int(receipt["position"]) - paused
    place = "it is the next" if before == 0 else f"{plural(before, 'message')} before it"
    if paused:
        place += f"; {plural(paused, 'paused message')} {'does' if paused == 1 else 'do'} not hold it up"
    return f"Queued; {place}. ({receipt['input']})"


def steered(receipt: Mapping[str, Any]) -> str:
    """A steer's receipt: where it will land (D9)."""
    lands = receipt["lands"]
    if lands["when"] == "next_turn":
        where = "with the next turn; nothing is running"
    else:
        where = "after " + _PHASES.get(lands.get("after") or "", "what is running now")
        if lands.get("running_ms") is not None:
            where += f", {seconds(lands['running_ms'])} so far"
    return f"Accepted; it lands {where}. ({receipt['steer']})"


def stopped(receipt: Mapping[str, Any]) -> str:
    """The outcome of a stop, claiming no more than the server did (E3)."""
    note = receipt.get("note")
    if receipt.get("stopped"):
        said = ["Stopped."]
    elif receipt.get("joined"):
        said = ["It was being stopped already, and has ended."]
    else:
        said = [_NOTES.get(note or "idle", "Nothing was stopped.")]
    ended = len(receipt.get("background") or ())
    if ended and note != "held_processes":  # the receipt came when they had ended; with survivors it says so instead
        processes = "background process" if ended == 1 else "background processes"
        if receipt.get("stopped") or receipt.get("joined"):
            said.append(f"{ended} {processes} ended with it.")
        else:
            said = [f"No agent was running. {ended} {processes} {'was' if ended == 1 else 'were'} ended."]
    if note in _LATER_NOTES:
        said.append(_LATER_NOTES[note])
    if receipt.get("input"):
        said.append(f"Your message follows. ({receipt['input']})")
    return " ".join(said)


def stop_accepted(receipt: Mapping[str, Any]) -> str:
    """The receipt of a stop nobody waits for: asked, not done."""
    background = len(receipt.get("background") or ())
    if not receipt["turns"] and background:
        return f"No agent was running; the end of {background} in the background was asked for. Not confirmed yet."
    if not receipt["turns"]:
        return stopped(receipt)
    return f"Stop asked for; {plural(len(receipt['turns']), 'turn')} will end. Not confirmed yet."


def stopped_sessions(sessions: list[Mapping[str, Any]]) -> str:
    """The outcome of a stop over several sessions, one line each."""
    if not sessions:
        return "Nothing was running."
    lines = [f"{item['id']}  {_session_outcome(item)}" for item in sessions]
    return "\n".join(lines)


def _session_outcome(item: Mapping[str, Any]) -> str:
    if item.get("code") == "deadline":
        return "not ended yet; the stop goes on"
    if item.get("code"):
        return f"refused: {one_line(item.get('detail', item['code']), 80)}"
    return stopped({"joined": False, "note": None, **item}).rstrip(".")
