"""`demo:`, a scripted agent for people without a key: no model answers, but its commands and files are real.

It keeps no state: what it says next is a function of the conversation so far, so a stop, a steer, a lost worker or a
hand-over finds it exactly where the log says it is. Which acts have been done is read off the ids of its own calls.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from sessions_app.engine.transcript_types import AssistantEntry, Call, Entry, ResultEntry, UserEntry
from sessions_app.worker.models import demo_script as script
from sessions_app.worker.models.base import Delta, Reasoning, Reply, Request, Text, estimate_usage

WORDS_PER_S: Final = 12.0
"""About as fast as a person reads along."""

_LONGEST_QUOTE: Final = 160
_ID: Final = re.compile(r"demo_([a-z]+)_\d+")
_NOTE: Final = re.compile(r"\[(Your last turn .+?)\.[ \]]")
_TRIES: Final = 2
"""How often an act that a stop cut short is tried in all; a model that never gives up would be no good example."""

_REGRETS: Final = {
    "interrupted": "My last command was stopped before it was through. It may have done part of its work, so I do not "
    "count it as done.",
    "lost": "My last command was lost together with the worker that ran it. I cannot know what it did, so I do not "
    "count it as done.",
    "not_run": "My last command was withdrawn before it started, so nothing of it has happened.",
    "denied": "A person did not allow my last command, so I leave it out.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """What the demonstration says next: reasoning, text and at most one call."""

    think: str
    say: str
    call: Call | None


class DemoModel:
    """The scripted agent as a `Model`. `STEERWEB_DEMO_SPEED` makes it so many times faster, its long command too."""

    def __init__(self, speed: float | None = None) -> None:
        self._speed = float(os.environ.get("STEERWEB_DEMO_SPEED") or 1) if speed is None else speed

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Talk at reading speed; see `base.Model`."""
        line = next_line(request.entries, 1 / self._speed)
        for word in _words(line.think):
            await self._breathe()
            yield Reasoning(word)
        for word in _words(line.say):
            await self._breathe()
            yield Text(word)
        calls = () if line.call is None else (line.call,)
        yield Reply(line.say, line.think, calls, estimate_usage(request, line.think + line.say))

    async def _breathe(self) -> None:
        await asyncio.sleep(1 / (WORDS_PER_S * self._speed))


def next_line(entries: tuple[Entry, ...], pause_s: float) -> Line:
    """What comes next after these entries. `pause_s` is the length of one round of the long commands."""
    past = _Past(entries)
    if past.fresh and past.replies:
        return _take_note(past)
    acts = script.opening_acts(pause_s) if past.first_turn else script.later_acts(pause_s)
    for act in acts:
        if past.wants(act):
            lead_in = [script.hello(_quoted(past.fresh))] if not past.replies else past.regrets()
            if past.last_act == "note":
                lead_in.append("Noted.")
            return Line(act.think, " ".join([*lead_in, act.say]), _call(past, act.key, act.tool, act.arguments))
    ended = script.summary if past.first_turn else script.goodbye
    return Line("", " ".join([*past.regrets(), ended(past.whole(acts[-1]))]), None)


class _Past:
    """The conversation so far, as far as it matters for what comes next."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        replies = [at for at, entry in enumerate(entries) if isinstance(entry, AssistantEntry)]
        ends = [at for at in replies if entries[at].text.rstrip().endswith(script.END)]
        turn = entries[ends[-1] + 1 :] if ends else entries
        since = entries[replies[-1] + 1 :] if replies else entries
        self.replies = len(replies)
        self.entries = len(entries)
        self.first_turn = not ends
        self.said = [entry.text for entry in entries if isinstance(entry, UserEntry)]
        self.fresh = [entry.text for entry in since if isinstance(entry, UserEntry)]
        self._last = [entry for entry in since if isinstance(entry, ResultEntry)]
        self._outcomes: dict[str, list[str]] = {}
        for entry in turn:
            if isinstance(entry, ResultEntry) and (match := _ID.fullmatch(entry.call)):
                self._outcomes.setdefault(match[1], []).append(entry.outcome)

    @property
    def last_act(self) -> str:
        """The act whose result is the newest entry but for people's words."""
        match = _ID.fullmatch(self._last[-1].call) if self._last else None
        return match[1] if match else ""

    def wants(self, act: script.Act) -> bool:
        """Whether this act is still to be done, or worth another try."""
        outcomes = self._outcomes.get(act.key, [])
        if not outcomes:
            return True
        if outcomes[-1] == "not_run":
            return len(outcomes) < _TRIES
        return outcomes[-1] in ("interrupted", "lost") and not act.once and len(outcomes) < _TRIES

    def whole(self, act: script.Act) -> bool:
        """Whether the act's last try ran to a good end."""
        return self._outcomes.get(act.key, [""])[-1] == "ok"

    def regrets(self) -> list[str]:
        """What has to be admitted about the newest results: a stopped call is never passed off as done."""
        return [_REGRETS[entry.outcome] for entry in self._last if entry.outcome in _REGRETS]


def _take_note(past: _Past) -> Line:
    """Acknowledge people's new words by quoting them, and write all words since the first into the notes."""
    again = [] if past.first_turn else ["Still the scripted demonstration here."]
    told = [f"I am told: {note}." for note in map(_note_of, past.fresh) if note]
    heard = f"I have heard you: {_quoted(past.fresh)}. I put that into {script.NOTES}, where it stays."
    lines = "".join(f"- {_spoken(words)}\n" for words in past.said[1:])
    content = f"# What people told me on the way\n\n{lines}"
    call = _call(past, "note", "write_file", {"path": script.NOTES, "content": content})
    return Line("", " ".join([*told, *past.regrets(), *again, heard]), call)


def _call(past: _Past, key: str, tool: str, arguments: dict[str, object]) -> Call:
    # Each request holds more entries than the one before, so the call of a reply that was withdrawn has another id.
    return Call(f"demo_{key}_{past.entries}", tool, arguments)


def _quoted(texts: list[str]) -> str:
    return " and ".join(f"“{_short(_spoken(text))}”" for text in texts) or "nothing"


def _spoken(text: str) -> str:
    """A person's own words on one line, a steer's with its sender: `transcript` puts notes in brackets before them."""
    note, end, words = text.partition("]\n")
    if not (text.startswith("[") and end):
        words = text
    sender = re.fullmatch(r"\[Message from (.+) while you work", note)
    words = " ".join(words.split())
    return f"{sender[1]}: {words}" if sender else words


def _note_of(text: str) -> str:
    """The first sentence of a note about a turn that ended early, if `transcript` put one before these words."""
    match = _NOTE.match(text)
    return match[1] if match else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)
