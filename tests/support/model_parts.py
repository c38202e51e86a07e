"""The parts a scripted reply is made of: `[think("..."), say("hello", delay_s=0.05), call("shell", command="ls")]`."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Words:
    """Text or reasoning, one chunk and one counted token per element, `delay_s` before each."""

    tokens: tuple[str, ...]
    delay_s: float = 0.0
    kind: Literal["text", "reasoning"] = "text"


@dataclass(frozen=True)
class ToolCall:
    """A tool call; `arguments` is the raw text, sent in `pieces` chunks. Without an id the server makes one."""

    tool: str
    arguments: str
    id: str | None = None
    pieces: int = 2


@dataclass(frozen=True)
class Stall:
    """Nothing is sent for so long; None: until `server.release()`. A client that goes away ends it at once.

    `unanswered`: as the first part, not even the status line is sent before.
    """

    seconds: float | None = None
    unanswered: bool = False


@dataclass(frozen=True)
class Drop:
    """The connection breaks (`reset`), or the body ends in good order but without saying that the reply is complete."""

    how: Literal["reset", "end"] = "reset"


@dataclass(frozen=True)
class Raw:
    """One server-sent event with exactly this data, whatever it is; only events with a name reach Anthropic's SDK."""

    data: str
    event: str = ""


@dataclass(frozen=True)
class Fail:
    """An HTTP error instead of a stream; only as the first part of a reply."""

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True)
class Counted:
    """The usage to report, instead of the one counted."""

    input: int
    output: int
    cached: int = 0


@dataclass(frozen=True)
class Finish:
    """Why the reply ends, as OpenAI spells it, instead of `stop` or `tool_calls`."""

    reason: Literal["stop", "length", "content_filter"]


Part = Words | ToolCall | Stall | Drop | Raw | Fail | Counted | Finish
ScriptedReply = Sequence[Part]


def say(text: str, delay_s: float = 0.0) -> Words:
    """Text, a token per word."""
    return Words(_split(text), delay_s)


def think(text: str, delay_s: float = 0.0) -> Words:
    """Reasoning, a token per word."""
    return Words(_split(text), delay_s, "reasoning")


def pieces(*tokens: str, delay_s: float = 0.0) -> Words:
    """Text in exactly these chunks; halves of surrogate pairs go out as JSON escapes."""
    return Words(tokens, delay_s)


def call(tool: str, id: str | None = None, **arguments: object) -> ToolCall:
    """A tool call with these arguments."""
    return ToolCall(tool, json.dumps(arguments), id)


def raw_call(tool: str, arguments: str, id: str | None = None, chunks: int = 2) -> ToolCall:
    """A tool call whose arguments are this text, JSON or not."""
    return ToolCall(tool, arguments, id, chunks)


def stall(seconds: float | None = None, *, unanswered: bool = False) -> Stall:
    """Silence; `unanswered`, of a server that has taken the request and says nothing of it."""
    return Stall(seconds, unanswered)


def drop(how: Literal["reset", "end"] = "reset") -> Drop:
    """The end of the connection in the middle of the reply."""
    return Drop(how)


def half_json() -> Raw:
    """An event cut off inside its JSON."""
    return Raw('{"id": "x", "choices": [{"index": 0, "del', "content_block_delta")


def unknown_field() -> Raw:
    """A chunk of a newer API than anybody has heard of."""
    return Raw(json.dumps({"object": "chat.completion.chunk", "type": "vibe", "vibe": {"level": 9}, "choices": []}))


def fail(
    status: int, message: str = "scripted failure", code: str | None = None, retry_after: float | None = None
) -> Fail:
    """An HTTP error, with a `Retry-After` header where `retry_after` is given."""
    return Fail(status, message, code, retry_after)


def counted(input: int, output: int, cached: int = 0) -> Counted:
    """The usage this reply reports."""
    return Counted(input, output, cached)


def finish(reason: Literal["stop", "length", "content_filter"]) -> Finish:
    """The reason to finish that this reply gives."""
    return Finish(reason)


def _split(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\S+\s*|\s+", text))
