"""The protocol between a turn and a tool: arguments in, live text on the way, one outcome out."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from sessions_app.worker.background import Keeper
from sessions_app.worker.warden.client import Warden
from sessions_app.worker.warden.shapes import CallSpec, Process

Outcome = Literal["ok", "error", "interrupted"]
Schema = dict[str, Any]
Changes = tuple[Literal["command", "path"], str]

READ_LIMIT: Final = 128 * 1024
"""Characters of one result, at most: what a model is shown of a file or a search at once."""


class BadArgumentsError(ValueError):
    """Arguments a tool cannot work with; the text tells the model what to send instead."""


class ToolError(Exception):
    """What was asked cannot be done; the text tells the model why, in a way it can act on."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where and for whom a call runs. `emit` takes live text (clean, bounded), `stop` is set by an interrupt (E6).

    `workspace` is an absolute path; `scratch_home` a directory of the session that stands in for the user's home;
    `keeper` takes over what a call declares to run on (E13).
    """

    workspace: Path
    call: str
    turn: str
    session: str
    loop: str
    epoch: int
    warden: Warden
    emit: Callable[[str], None]
    stop: asyncio.Event
    scratch_home: Path
    keeper: Keeper

    def spec(self, argv: list[str], cwd: Path, timeout_s: float | None) -> CallSpec:
        """A process of this call, with the session's own home and temporary directory."""
        temporary = self.scratch_home / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        env = {"HOME": str(self.scratch_home), "TMPDIR": str(temporary)}
        return CallSpec(
            self.call, self.turn, self.session, self.loop, self.epoch, tuple(argv), str(cwd), env, timeout_s
        )


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What became of a call; `output` is clean text (A6), `replaced` says that something in it had to be replaced.

    `exit` is the exit code of a process that ended by itself; `ended` and `surviving` are processes the call's end took
    along or could not (E7); `background` are those that run on by declaration (E13).
    """

    outcome: Outcome
    output: str
    exit: int | None = None
    ended: list[Process] = field(default_factory=list)
    surviving: list[Process] = field(default_factory=list)
    replaced: bool = False
    background: list[Process] = field(default_factory=list)


class Tool(Protocol):
    """One tool. `changes`: what kind of thing it changes and which argument names it, for modes and rules (H3, I1).

    None for a tool that only reads: it never asks, may run in plan mode (I1) and beside other reads (C2).
    """

    name: str
    description: str
    schema: Schema

    @property
    def changes(self) -> Changes | None: ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Do it. Raises BadArgumentsError or ToolError; anything else is a defect."""
        ...


def schema(properties: dict[str, Schema], *required: str) -> Schema:
    """A JSON schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def text_argument(arguments: dict[str, Any], name: str, default: str | None = None) -> str:
    """A string argument; required when there is no default."""
    value = arguments.get(name, default)
    if value is None:
        raise BadArgumentsError(f"`{name}` is missing: it must be a string")
    if not isinstance(value, str):
        raise BadArgumentsError(f"`{name}` must be a string, not {_kind(value)}")
    return value


def number_argument(arguments: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    """An integer argument between `least` and `most`; a whole float or a numeral will do, as models send them."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise BadArgumentsError(f"`{name}` must be an integer, not {_kind(value)}")
    if not least <= value <= most:
        raise BadArgumentsError(f"`{name}` is {int(value)}; it must be between {least} and {most}")
    return int(value)


def flag_argument(arguments: dict[str, Any], name: str) -> bool:
    """A boolean argument, false by default."""
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise BadArgumentsError(f"`{name}` must be true or false, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")
