"""Events of a loop -> what its model is sent: the only place that words a settled call, a stop or a steer for a model.

The result is always acceptable to a strict provider: a reply's calls are followed at once by exactly one result each,
in reply order (C4), and steers stand after all of them (D3).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sessions_app.engine.events import Event, text_slots
from sessions_app.engine.files import File, files_of
from sessions_app.engine.state import Mode
from sessions_app.engine.transcript_types import AssistantEntry, Call, Entry, ResultEntry, UserEntry

ERASED: Final = "[erased]"
BY_A_STOP: Final = "by a stop"
WITH_ITS_PARENT: Final = "It ended with the turn that had delegated it."
"""What a delegate says that ended for no reason of its own."""
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")

_WORDING: Final[Mapping[str, str]] = {
    "denied": "[A person did not allow this call. It did not run and had no effect. What they said about it follows.]",
    "interrupted": (
        "[This call was started and then ended {by} before it was finished. It may have had partial effects: "
        "check before you repeat it. Its output until then follows.]"
    ),
    "not_run": "[This call was not run, because something else came first. It had no effect.]",
    "lost": (
        "[This call was started, but the process that ran it died. What it did is unknown: check before you repeat it. "
        "What is known of its output follows.]"
    ),
}


@dataclass(slots=True)
class Transcript:
    """A loop's conversation so far. Feed it the loop's events in order; `entries` is what the next request holds.

    `stale`: a text it was fed has been erased since (A3). Make a new one, from the log as it is now.
    """

    keep_partial: bool = False
    entries: list[Entry] = field(default_factory=list)
    instructions: str = ""
    model: str = ""
    mode: Mode = "ask"
    stale: bool = False
    _texts: dict[str, str] = field(default_factory=dict)
    _files: dict[str, tuple[File, ...]] = field(default_factory=dict)
    _senders: dict[str, str] = field(default_factory=dict)
    _calls: tuple[Call, ...] = ()
    _results: dict[str, ResultEntry] = field(default_factory=dict)
    _cut: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _note: str = ""
    _opening: tuple[int, str] = (0, "")
    _changes: dict[str, str] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def feed(self, events: Iterable[Event]) -> None:
        """Take further events in."""
        for event in events:
            rule = getattr(self, "_on_" + _CAPITAL.sub("_", event.type).lower(), None)
            if rule is not None:
                rule(event)
                if any(container[key] != {"erased": True} for container, key in text_slots(event.type, event.data)):
                    self._told.add(event.seq)

    @property
    def unsettled(self) -> tuple[Call, ...]:
        """The calls of the last reply that have no settlement yet, in reply order."""
        return tuple(call for call in self._calls if call.id not in self._results)

    def _on_content_erased(self, event: Event) -> None:
        self.stale |= event.data["seq"] in self._told

    def _on_session_created(self, event: Event) -> None:
        self.keep_partial = bool(event.data["settings"].get("keep_partial_reply", self.keep_partial))

    def _on_session_changed(self, event: Event) -> None:
        settings = event.data.get("settings") or {}
        self.keep_partial = bool(settings.get("keep_partial_reply", self.keep_partial))

    def _on_loop_started(self, event: Event) -> None:
        self.instructions, self.model = _words(event.data["instructions"]), event.data["model"]
        self.mode = event.data["mode"]

    def _on_mode_changed(self, event: Event) -> None:
        self.mode = event.data["mode"]

    def _on_loop_changed(self, event: Event) -> None:
        self._changes |= {key: _words(event.data[key]) for key in ("model", "instructions") if key in event.data}

    def _on_input_queued(self, event: Event) -> None:
        self._remember(event.data["input"], event)

    _on_input_changed = _on_input_queued

    def _remember(self, message: str, event: Event) -> None:
        """What waits; changed words keep their files."""
        self._texts[message] = _words(event.data["text"])
        self._files.setdefault(message, files_of(event.data))

    def _taken(self, message: str) -> tuple[str, tuple[File, ...]]:
        return self._texts.pop(message, ERASED), self._files.pop(message, ())

    def _on_steer_queued(self, event: Event) -> None:
        self._remember(event.data["steer"], event)
        author = event.data.get("author")
        self._senders.setdefault(event.data["steer"], author["name"] if author else event.actor.name)

    def _on_turn_started(self, event: Event) -> None:
        self.model, self.instructions = (
            self._changes.pop("model", self.model), self._changes.pop("instructions", self.instructions)
        )  # fmt: skip
        text, files = self._taken(event.data["input"])
        self._opening = len(self.entries), self._note
        self.entries.append(UserEntry(f"{self._note}\n\n{text}" if self._note else text, files=files))
        self._note = ""

    def _on_turn_folded_into(self, event: Event) -> None:
        text, files = self._taken(event.data["input"])
        self.entries.append(UserEntry(text, files=files))

    def _on_steer_delivered(self, event: Event) -> None:
        steer = event.data["steer"]
        sender, (text, files) = self._senders.pop(steer, "somebody"), self._taken(steer)
        self.entries.append(UserEntry(f"[Message from {sender} while you work]\n{text}", True, files))

    def _on_step_planned(self, event: Event) -> None:
        self._calls = tuple(
            Call(call["call"], call["tool"], _arguments(call["arguments"])) for call in event.data["calls"]
        )
        self._results, self._cut = {}, {}
        self.entries.append(AssistantEntry(_words(event.data["text"]), self._calls))

    def _on_tool_settled(self, event: Event) -> None:
        call = next(call for call in self._calls if call.id == event.data["call"])
        self._results[call.id] = ResultEntry(call.id, call.tool, result_text(event.data), event.data["outcome"])
        own = call.tool == "delegate" and event.data["output"] not in ("", WITH_ITS_PARENT)
        if event.data["outcome"] == "interrupted" and not own:
            self._cut[call.id] = event.data  # one of a delegate's own says itself what ended it
        if len(self._results) == len(self._calls):
            self.entries += [self._results[planned.id] for planned in self._calls]
            self._calls = ()

    def _on_step_done(self, event: Event) -> None:
        text = event.data.get("text")
        if text is not None:
            self.entries.append(AssistantEntry(_words(text)))

    def _on_turn_interrupted(self, event: Event) -> None:
        self._word_cut_short(_WHO.get(event.data["cause"], BY_A_STOP))
        cut = _words(event.data["cut_off"].get("text") or "")
        if cut and self.keep_partial:
            self.entries.append(AssistantEntry(cut + " [cut off here]"))
        self._note = stop_note(event, bool(cut), self.keep_partial)

    def _word_cut_short(self, by: str) -> None:
        """What ended the calls of the last step is known only with the turn's end."""
        for place in range(len(self.entries) - 1, -1, -1) if self._cut else ():
            entry = self.entries[place]
            if not isinstance(entry, ResultEntry):  # an id may stand in an earlier step, too
                return
            if entry.call in self._cut:
                self.entries[place] = replace(entry, text=result_text(self._cut[entry.call], by))

    def _on_turn_failed(self, event: Event) -> None:
        if event.data["steps"] == 0:  # nothing came of its opening input: as if it had not been asked (B9)
            place, self._note = self._opening
            del self.entries[place]
            return
        self._note = "[Your last turn ended by a technical fault before you had finished.]"


def _words(text: Any) -> str:
    """A text, or the sign of one that was erased (A3)."""
    return text if isinstance(text, str) else ERASED


def _arguments(arguments: Any) -> dict[str, object]:
    return arguments if isinstance(arguments, dict) else {"_invalid": arguments}


def result_text(data: Mapping[str, Any], by: str = BY_A_STOP) -> str:
    """A settled call in words for the model: each outcome unmistakable (C4). `by`: what ended its turn, once known."""
    output, outcome = _words(data["output"]), data["outcome"]
    if outcome in _WORDING:
        return f"{_WORDING[outcome].format(by=by)}\n{output}".rstrip()
    code = data.get("exit")
    if code not in (None, 0):
        output = f"{output}\n[exit status {code}]".lstrip("\n")
    return output or "[no output]"


_WHO: Final[Mapping[str, str]] = {
    "worker_lost": "because the process that ran it died",
    "worker_shutdown": "because the program was shut down",
    "closing": "because the session was closed",
    "parent": "because the agent that had delegated to you was ended",
    "budget": "because a limit of this session was reached",
}


def stop_note(event: Event, cut: bool, kept: bool) -> str:
    """What the next request says about a turn that was stopped, and by what (C3)."""
    data = event.data
    who = _WHO.get(data["cause"], f"by {event.actor.name}")
    note = f"Your last turn was stopped {who} before you had finished."
    reason = data.get("reason")
    if isinstance(reason, str) and reason:
        note += f" The reason given: {reason}"
    if cut:
        note += (
            " Your unfinished reply stands above."
            if kept
            else " Your unfinished reply is not part of this conversation."
        )
    return f"[{note}]"
