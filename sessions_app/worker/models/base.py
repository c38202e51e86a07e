"""The protocol between a turn and whatever answers it: one request in, pieces of a reply out, the whole reply last."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from sessions_app.engine.transcript_types import Call, Entry

INVALID: Final = "_invalid"
"""The one argument of a call whose arguments were no JSON object: their raw text."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; `schema` is a JSON schema of an object."""

    name: str
    description: str
    schema: dict[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """Everything one model call depends on. `model` is the full `provider:model` name.

    `images` are those of the entries' files that are shown, by the file's id.
    """

    model: str
    instructions: str
    entries: tuple[Entry, ...]
    tools: tuple[ToolSpec, ...] = ()
    images: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the reply's text: never empty, no NUL, no half of a surrogate pair (A6)."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model shows of its reasoning, as clean as `Text`."""

    text: str


Delta = Text | Reasoning


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `cached_tokens` are part of `input_tokens`. `estimated`: it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply. `text` and `reasoning` equal the deltas joined; `calls` have ids no earlier call has.

    `replaced` says that something no text can hold was replaced by a visible sign (A6).
    """

    text: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    replaced: bool = False


ErrorCode = Literal["provider_error", "provider_refused", "model_unknown", "key_missing", "bad_reply"]


class ModelError(Exception):
    """A model call that gave no reply. `detail` is a sentence for people, with known secrets masked (A6).

    `status` is the provider's HTTP status where there was one; `retryable` says that the same request may succeed
    later, `retry_after_s` how long the provider asked us to wait.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: ErrorCode = code
        self.detail = detail
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class Model(Protocol):
    """One way of getting replies. Opening one may take seconds (it loads a library); streaming does not block."""

    def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the reply's pieces as they arrive and the whole `Reply` last; raises `ModelError`.

        Cancelling the task that waits for the next piece closes the provider's connection within milliseconds, also
        on a stalled stream (E6). A consumer that may stop anywhere else wraps the stream in `contextlib.aclosing`.
        """
        ...


def estimate_usage(request: Request, streamed: str) -> Usage:
    """Usage of a call that was cut off before its provider reported any, at about four characters a token."""
    sent = len(request.instructions) + sum(_length(entry) for entry in request.entries)
    return Usage(input_tokens=_tokens(sent), output_tokens=_tokens(len(streamed)), estimated=True)


def _length(entry: Entry) -> int:
    calls: tuple[Call, ...] = getattr(entry, "calls", ())
    return len(entry.text) + sum(len(call.tool) + len(str(call.arguments)) for call in calls)


def _tokens(characters: int) -> int:
    return -(-characters // 4)
