"""What a model is sent, in our own words: entries that `transcript` makes of events and a model adapter translates."""

from dataclasses import dataclass
from typing import Literal

from sessions_app.engine.files import File

Outcome = Literal["ok", "error", "denied", "interrupted", "not_run", "lost"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call a reply asked for. `arguments` is a JSON object; `{"_invalid": text}` holds what was none."""

    id: str
    tool: str
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class UserEntry:
    """Words of a person or another program. `interrupt` marks a delivered steer (D3); no provider is sent the mark.

    `files` came with them; the worker says in the text where each lies.
    """

    text: str
    interrupt: bool = False
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantEntry:
    """A committed reply: its text (may be empty) and the calls it asked for, in its own order."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The one settlement of one call (C4): its id, the tool's name, the text worded for the model, and the outcome.

    No provider is sent the outcome, whose meaning the text holds; the scripted demonstration reads it.
    """

    call: str
    tool: str
    text: str
    outcome: Outcome = "ok"


Entry = UserEntry | AssistantEntry | ResultEntry
