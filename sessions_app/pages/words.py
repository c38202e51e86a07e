"""A person's words for the engine's (the scripts have the same in `static/js/words.js`)."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

DEVICES: Final = {"phone": "a phone", "tablet": "a tablet", "desk": "a desk", "cli": "a terminal", "api": "the API"}
STATES: Final = {
    "idle": "Nothing running",
    "waiting": "Waiting for a worker",
    "running": "Running",
    "approval": "Waiting for approval",
    "stopping": "Stopping",
    "closing": "Closing",
    "closed": "Closed",
}
"""A session's one word (its row's `word`) as people read it."""
MODES: Final = {
    "plan": "plans only",
    "ask": "asks before each command",
    "auto": "runs freely, asks before risky commands",
}
MODE_NOTES: Final = {
    "plan": "It reads and answers. It runs no command and changes nothing.",
    "ask": "Each command and each change of a file waits until somebody allows it.",
    "auto": "No command is called risky unless somebody says which, so as it comes it does not ask at all.",
}
"""What each mode means for whoever chooses it."""
PHASES: Final = {
    "model": "the model",
    "tool": "a running tool",
    "gate": "an open approval",
    "delegate": "a wait for a sub-agent",
    "retry": "a pause before another try",
    "waiting": "a wait for a worker",
}
CAUSES: Final = {
    "person": "a person",
    "token": "a program",
    "admin": "an administrator",
    "budget": "a limit",
    "parent": "the agent above it",
    "closing": "closing the session",
    "worker_lost": "worker died, result unknown",
    "worker_shutdown": "the worker was shut down",
}
_HEADLINES: Final = {
    "parent": "Stopped with the agent that started it",
    "closing": "Stopped because the session was closed",
    "worker_lost": "Interrupted: worker died, result unknown",
    "worker_shutdown": "Interrupted: the worker was shut down",
}
ENDED_BY: Final = {
    "worker": "the worker ended it",
    "fence": "cut off, worker did not answer",
    "sweep": "ended after its worker was gone",
    "request": "no worker had it, ended at once",
}
OUTCOMES: Final = {
    "ok": "done",
    "error": "failed",
    "denied": "not allowed",
    "interrupted": "ended by the stop",
    "not_run": "did not run",
    "lost": "worker died, result unknown",
}
ENDED_WITH: Final = {
    "worker_shutdown": "ended, the worker was shut down",
    "worker_lost": "ended, the worker died",
    "budget": "ended by a limit",
    "parent": "ended with the agent above it",
    "closing": "ended with the session",
}
"""What ended a call whose turn nobody stopped."""
WITHOUT_PERSON: Final = {
    "budget": "a limit was reached",
    "parent": "the agent above it came to its end",
    "worker_lost": "the worker died",
    "worker_shutdown": "the worker was shut down",
}
"""What ended a turn that no person asked to end."""
HUES: Final = 8


_TURNING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_WRAPPER: Final = re.compile(r"^\S*/(?:ba)?sh (?:--noprofile --norc )?-c ")
"""The shell that a command was given to: nobody wrote that."""
_RUNS_ON: Final = re.compile(r"\n?\[It runs on in the background, its output goes to [^\n]*\]$")
_APART: Final = re.compile("\u2068([^\u2068\u2069]*)\u2069")


def plain(text: str) -> str:
    """A name, title or line without the characters that turn the text after them (U+202E and its kin)."""
    return _TURNING.sub("", text)


def laid_open(text: str) -> str:
    """What somebody may be asked to allow: those characters seen, as what stands there is not what would run."""
    return _TURNING.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def start_of(text: str, most: int = 120) -> str:
    """The start of a message on one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[:most].rstrip() + "…"


def agent_name(task: str | None) -> str:
    """Whose turn it was, by the task of a sub-agent, as its session's page calls it."""
    if task is None:
        return "main agent"
    name = start_of(task, 40)
    return f"sub-agent “{apart(name)}”" if name else "a sub-agent"


def apart(text: str) -> str:
    """The same inside a sentence: marked, so that it is set apart wherever the sentence is shown."""
    return f"\u2068{plain(text)}\u2069"


def sentence(text: str) -> SafeString:
    """A sentence for a page, with what is marked in it in elements of its own."""
    return mark_safe(_APART.sub(r"<bdi>\1</bdi>", escape(text)))  # noqa: S308 (escaped just now)


def counted(n: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 message`, `3 messages`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def file_size(size: int) -> str:
    """Bytes of a file: `812 bytes`, `14 KB`, `1.2 MB`."""
    if size < 1000:
        return "1 byte" if size == 1 else f"{size} bytes"
    if size < 999_500:
        return f"{round(size / 1000)} KB"
    return f"{size / 1e6:.1f}".removesuffix(".0") + " MB" if size < 9_950_000 else f"{round(size / 1e6):,} MB"


def duration(ms: float) -> str:
    """A length of time, never negative: `6 ms`, `0.4 s`, `38 s`, `2 min 11 s`, `3 h 4 min`, `2 days`."""
    value = max(0, round(ms))
    if value < 100:
        return f"{value} ms"
    if value < 9950:
        return f"{value / 1000:.1f}".removesuffix(".0") + " s"
    seconds = round(value / 1000)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    if seconds < 86400:
        return f"{seconds // 3600} h" + (f" {seconds % 3600 // 60} min" if seconds % 3600 >= 60 else "")
    return counted(seconds // 86400, "day")


def instant(at: str | datetime) -> datetime:
    """An aware instant of an RFC 3339 text."""
    return at if isinstance(at, datetime) else datetime.fromisoformat(at)


def utc(at: str | datetime) -> str:
    """The exact instant, for `title` and for readers without scripts: `2026-11-29 14:02:11.250 UTC`."""
    return instant(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def between_ms(start: str | datetime, end: str | datetime) -> float:
    """Milliseconds from one instant to another."""
    return (instant(end) - instant(start)).total_seconds() * 1000


def hue(identity: str) -> str:
    """The class of a person's hue, the same on every screen: FNV-1a of the id."""
    value = 0x811C9DC5
    for unit in identity.encode():
        value = (value ^ unit) * 0x01000193 & 0xFFFFFFFF
    return f"p{value % HUES + 1}"


def initials(name: str) -> str:
    """Two letters for a face."""
    parts = [part for part in name.replace(".", " ").replace("_", " ").replace("-", " ").split() if part]
    if len(parts) > 1:
        return parts[0][0] + parts[1][0]
    return (parts[0] if parts else "?")[:2]


def actor_name(actor: Mapping[str, Any] | None) -> str:
    """Who, in words that stand alone."""
    return plain(named(actor))


def named(actor: Mapping[str, Any] | None) -> str:
    """Who, in words for inside a sentence."""
    if actor is None:
        return "somebody"
    if actor["kind"] == "system":
        return "the system"
    name = apart(actor["name"])
    return name + {"admin": " (administrator)", "agent": " (agent)"}.get(actor["kind"], "")


def from_device(actor: Mapping[str, Any] | None) -> str:
    """` from a phone (Pixel 7)`, or nothing where it is not known; observers are not told the name."""
    device = actor.get("device") if actor else None
    if not device or device["kind"] not in DEVICES:
        return ""
    name = f" ({apart(device['name'])})" if device.get("name") else ""
    return f" from {DEVICES[device['kind']]}{name}"


def limit_words(data: Mapping[str, Any]) -> str:
    """What was used up, as far as the terminal itself says it: `200 steps`; empty where it is not known."""
    usage = data.get("usage") or {}
    return {
        "steps": counted(data.get("steps_kept") or 0, "step"),
        "wall_s": "the time a turn may work",
        "tokens": counted(usage.get("input_tokens", 0) + usage.get("output_tokens", 0), "token"),
        "cost": f"{money(data.get('known_cost', data.get('cost')))} for one turn",
        "day_cost": "what a session may cost on one day",
    }.get(str(data.get("which")), "")


def failed_words(error: Mapping[str, Any]) -> str:
    """The headline of a failed turn."""
    if error.get("code") == "repeated_call":
        return "Ended by a limit: the same call again and again"
    return "The turn failed"


def handed_over_words(data: Mapping[str, Any]) -> str:
    """That a turn was given back, and what became of the reply that was under way then (J4)."""
    if data.get("at") == "model":
        return "Handed over: worker left, the unfinished reply is begun anew by another"
    return "Handed over: worker left, waits for another"


def asked_at(at: str | datetime, data: Mapping[str, Any]) -> datetime:
    """When a stop was asked: the moment every screen says first. A turn that nobody stopped has only its end."""
    return instant(at) - timedelta(milliseconds=data["settled_ms"] if data.get("request") is not None else 0)


def stopped_by(data: Mapping[str, Any], actor: Mapping[str, Any] | None) -> str:
    """The headline of an interrupted turn, from its terminal's data and who asked."""
    cause = data["cause"]
    if cause in ("person", "token", "admin"):
        return f"Stopped by {named(actor)}{from_device(actor)}"
    if cause == "budget":
        words = limit_words(data)
        return f"Ended by a limit: {words}" if words else "Ended by a limit"
    return _HEADLINES.get(cause, "Stopped")


def call_line(tool: str, arguments: Any) -> str:
    """A call in one line, as one would type it."""
    return laid_open(_line_of_call(tool, arguments))


def _line_of_call(tool: str, arguments: Any) -> str:
    values = arguments if isinstance(arguments, dict) else {}
    if values.get("erased"):
        return f"{tool} (erased)"
    if tool == "shell" and isinstance(values.get("command"), str):
        return str(values["command"])
    if tool == "delegate" and isinstance(values.get("task"), str):
        return str(values["task"])
    path = values.get("path") or values.get("file")
    if tool == "search":
        where = f" in {path}" if path else ""
        return f"search {values.get('pattern') or values.get('query') or ''}{where}"
    return f"{tool.removesuffix('_file')} {path}" if isinstance(path, str) else tool


def call_in_full(tool: str, arguments: Any) -> str:
    """What a change would write, in full; empty where the line says it all."""
    return laid_open(_full_of_call(tool, arguments))


def _full_of_call(tool: str, arguments: Any) -> str:
    values = arguments if isinstance(arguments, dict) else {}
    if tool == "write_file" and isinstance(values.get("content"), str):
        return str(values["content"])
    if tool == "edit_file" and isinstance(values.get("old_text"), str):
        return "\n".join([*_marked("-", values["old_text"]), *_marked("+", str(values.get("new_text") or ""))])
    return ""


def _marked(mark: str, text: str) -> list[str]:
    return [f"{mark} {line}" for line in text.removesuffix("\n").split("\n")] if text else []


_MAY: Final = {"shell": "run this command", "write_file": "write this file", "edit_file": "make this change"}


def may_it(tool: str) -> str:
    """What an approval asks."""
    return f"May it {_MAY.get(tool, f'use {tool}')}?"


def why_it_asks(question: str) -> str:
    """Why it asks: `effect` or `risk`."""
    if question == "risk":
        return "This agent\u2019s rules call it risky."
    return "It changes something, and this agent asks before each command and each change."


def rule_words(rule: Mapping[str, Any]) -> tuple[str, str]:
    """A standing answer: the words, and the code they end with."""
    value = rule["value"]
    if not isinstance(value, str):
        return "nothing any more, its words were erased", ""
    shown = laid_open(value)
    if rule["kind"] == "command":
        return "exactly the command", shown
    if rule["kind"] == "command_prefix":
        return "every command that begins with", shown
    return ("changes below" if value.endswith("/") else "changes to"), shown


def answer_words(event: Mapping[str, Any]) -> str:
    """How an approval ended, from its `GateResolved` or `GateClosed`."""
    data, by = event["data"], named(event["actor"])
    if event["type"] == "GateResolved":
        message = text_of(data.get("message"))
        note = f": “{apart(message)}”" if message else ""
        if data["decision"] == "deny":
            return f"Denied by {by}{note}"
        rule = data.get("rule")
        words, code = rule_words(rule) if rule else ("", "")
        return f"Allowed by {by}" + (f", and from now on: {words} {apart(code)}" if rule else "") + note
    asked_by_system = event["actor"]["kind"] == "system"
    why = {
        "stop": "stopped",
        "steer": "an urgent message" if asked_by_system else f"{by}\u2019s urgent message",
        "mode": "the mode changed" if asked_by_system else f"{by} changed the mode",
    }
    return f"Not asked any more: {why.get(data['reason'], 'the turn has ended')}"


def took_ms(data: Mapping[str, Any], started: str | None = None, ended: str | None = None) -> float | None:
    """How long a call took, from its settlement; None where nobody knows.

    A sub-agent's own says nothing of that (nobody ran it): there it is from its `ToolStarted` to its settlement.
    """
    if data.get("tool") != "delegate":
        return data.get("duration_ms")
    return None if started is None or ended is None else between_ms(started, ended)


def outcome(
    data: Mapping[str, Any], cause: str | None = None, gone: Mapping[str, Any] | None = None,
    started: str | None = None, ended_at: str | None = None,
) -> str:  # fmt: skip
    """How a call ended, with how long it took, where that is known, or what was ended with it.

    `cause` is that of its turn's end, once that is known; `gone`: who ended what it left running in the background,
    once that has ended; `started` and `ended_at`: when, as its events say.
    """
    words = OUTCOMES.get(data["outcome"], str(data["outcome"]))
    if data["outcome"] == "error" and data.get("exit") is not None:
        words = f"failed, exit {data['exit']}"
    if data["outcome"] == "interrupted":
        words = ENDED_WITH.get(cause or "", words)
    processes = data.get("processes") or {}
    ended = len(processes.get("ended") or ())
    if data["outcome"] == "interrupted" and ended:
        words = f"{words}, {counted(ended, 'process', 'processes')}"
    elif data["outcome"] not in ("not_run", "denied", "lost") and (ms := took_ms(data, started, ended_at)) is not None:
        words = f"{words}, {duration(ms)}"
    if not processes.get("background"):
        return words
    if gone is None:
        return f"{words}, left running in the background"
    return f"{words}, its background ended" + ("" if gone["kind"] == "system" else f" by {named(gone)}")


def without_note(text: str) -> str:
    """The output of a call that left something running, without what is said to the model alone."""
    return _RUNS_ON.sub("", text)


def process_names(processes: Iterable[Mapping[str, Any]]) -> str:
    """Processes as one would name them inside a sentence."""
    named = ((each["command"] if isinstance(each["command"], str) else "", each["pid"]) for each in processes)
    return ", ".join(f"{apart(_WRAPPER.sub('', line)) if line else 'a process'} ({pid})" for line, pid in named)


def survivors(processes: Mapping[str, Any] | None) -> str:
    """Processes that outlived their kill, as one would name them inside a sentence; nothing where there are none."""
    return process_names((processes or {}).get("surviving") or ())


def background_words(
    event: Mapping[str, Any], command: str = "", left: Iterable[Mapping[str, Any]] = (), *, closed: bool = False
) -> str:
    """How what ran in the background ended, or that it did not, from its `ProcessesEnded` (E13, E7).

    `command`: what its agent wrote, where that is known; `left`: what its call left running; `closed`: the session was
    closed before.
    """
    processes, actor = event["data"]["processes"], event["actor"]
    by = "" if actor["kind"] == "system" else named(actor)
    if processes["surviving"]:
        return f"Outlived its kill{by and f' by {by}'}: {process_names(processes['surviving'])}"
    listed = list(processes["ended"] or left)
    written = start_of(plain(command))
    named_so = apart(written) if written else process_names(listed)
    what = "background processes" if len(listed) > 1 and not written else "a background process"
    with_worker = " with its worker" if event["data"].get("why") else ""
    head = f"{by} ended {what}" if by else f"{what.capitalize()} ended{with_worker}"
    head = f"With the session ended {what}" if closed else head
    return f"{head}: {named_so}" if named_so else head


_DOING: Final = {
    "shell": "Running a command",
    "read_file": "Reading a file",
    "search": "Searching",
    "write_file": "Writing a file",
    "edit_file": "Editing a file",
    "delegate": "Starting a sub-agent",
}
CLOCKED: Final = frozenset({"running", "approval", "stopping"})
"""The states whose length is counted on the screen."""


def _approvals(n: int) -> str:
    """What waits for a person; the clock beside it is that of the one that waits longest."""
    return f"Waiting for {n} approvals" if n > 1 else STATES["approval"]


def earlier_answer(outcome: str | None) -> str:
    """What became of a sub-agent's answer after which it had another turn; `outcome` is its call's, once settled."""
    if outcome is None:
        return "Its next answer replaces this one"
    return "Replaced by its next answer" if outcome == "ok" else "The agent above did not get this answer"


def doing(row: Mapping[str, Any]) -> str:
    """What a session of the list is doing this moment, from its row; without a clock."""
    word, phase = row["state"], row.get("phase")
    if word == "stopping" and row.get("asked_by"):
        return f"Stopping, asked by {apart(row['asked_by'])}"
    words = _approvals(row.get("asks") or 0) if word == "approval" else STATES.get(word, word)
    if word == "running":
        tool = row.get("tool") or ""
        words = {
            "model": "Thinking",
            "tool": _DOING.get(tool, f"Using {tool}" if tool else "Using a tool"),
            "retry": "Waiting to ask the model again",
            "delegate": "Waiting for a sub-agent",
        }.get(phase or "", words)
        agents = row.get("agents") or 0
        return f"{words}, {agents} agents at work" if agents > 1 else words
    more = []
    if word == "idle" and row.get("background"):
        more.append(counted(row["background"], "background process", "background processes"))
    if row.get("held"):
        more.append(f"{counted(row['held'], 'message')} paused")
    return ", ".join([words, *more])


def stopped_words(item: Mapping[str, Any]) -> tuple[str, str]:
    """What came of one of many stops: a class to count it by, and the words for it alone."""
    code, note = item.get("code"), item.get("note")
    if code == "deadline":
        return "going", "still stopping, the stop goes on"
    if code is not None:
        return "refused", f"not stopped: {item['detail']}"
    if item["joined"]:
        return "joined", "was being stopped already, and has ended"
    if note == "idle" and item.get("background"):
        return "background", "its background processes were ended"
    if note in ("idle", "turn_over"):
        return "over", "had ended by itself"
    if note == "not_started":
        return "waited", "had not started, what waited is paused"
    if note == "closing":
        return "closing", "is closing already"
    return "stopped", "stopped" if note is None else "stopped, not all of it is known to have ended"


_OF_STOPS: Final = (
    ("stopped", "{} stopped"),
    ("joined", "{} had been asked to stop already"),
    ("background", "{} had only background processes, ended now"),
    ("waited", "{} had not started"),
    ("over", "{} had ended by itself"),
    ("closing", "{} closing already"),
    ("going", "{} still stopping"),
    ("refused", "{} not stopped"),
)


def stops_words(items: Iterable[Mapping[str, Any]]) -> str:
    """What came of a stop of many: `4 stopped, 1 had ended by itself`."""
    kinds = [stopped_words(item)[0] for item in items]
    said = [words.format(kinds.count(kind)) for kind, words in _OF_STOPS if kind in kinds]
    return ", ".join(said) or "Nothing was running"


def described(word: str, state: Mapping[str, Any]) -> str:
    """A session's state in words: its row's `word`, and what a single word would leave out."""
    loops = state["loops"].values()
    below = sum(1 for loop in loops if loop["parent"] is not None and loop["status"] != "closed")
    left = sum(len(loop["background"]) for loop in loops)
    open_ = sum(call["answer"] == "open" for loop in loops for call in (loop["turn"] or {}).get("calls") or ())
    more = []
    if word == "running" and below:
        more.append(counted(below, "sub-agent"))
    if word == "idle" and left:
        more.append(f"{left} in the background")
    return ", ".join([_approvals(open_) if word == "approval" else STATES.get(word, word), *more])


def left_words(data: Mapping[str, Any]) -> str:
    """What an ended turn left running, and what that means for what waits (E7); nothing where all had ended."""
    named, held = survivors(data.get("processes")), data.get("note") == "held_processes"
    left = f"Still running when the turn ended: {named}." if named else ""
    if not held:
        return left
    return f"{left or 'It is not known that everything has ended.'} What waits stays paused until somebody sends it."


def money(cost: Any) -> str:
    """Dollars, or nothing where nothing is known."""
    if cost is None:
        return ""
    value = float(cost)
    return "under $0.01" if 0 < value < 0.01 else f"${value:.2f}"


def text_of(value: Any) -> str:
    """The words of a text field: itself, or what stands for it when it is long or erased."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.get("erased"):
        return "(erased)"
    if isinstance(value, dict) and "size" in value:
        return f"(a long text of {value['size']:,} bytes)"
    return ""
