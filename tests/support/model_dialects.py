"""How two families of providers put a reply on the wire: OpenAI's chat completions and Anthropic's messages."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.model_dialects_more import (
    GoogleWriter,
    ResponsesWriter,
    google_faults,
    google_history,
    responses_faults,
    responses_history,
)
from tests.support.model_history import Said, anthropic_faults, anthropic_history, openai_faults, openai_history
from tests.support.model_parts import Counted, Fail, Finish, ToolCall


class Writer(Protocol):
    """Renders the stream of one reply; every string is one server-sent event, complete with its blank line."""

    def begin(self, counted: Counted) -> Iterator[str]: ...
    def words(self, token: str, kind: str) -> Iterator[str]: ...
    def call(self, call: ToolCall, id_: str) -> Iterator[str]: ...
    def end(self, counted: Counted, finish: Finish | None) -> Iterator[str]: ...


@dataclass(frozen=True)
class Dialect:
    """One provider's way of talking."""

    name: str
    history: Callable[[dict[str, Any]], list[Said]]
    faults: Callable[[dict[str, Any]], list[str]]
    writer: Callable[[dict[str, Any]], Writer]
    error: Callable[[Fail], dict[str, Any]]
    key: Callable[[dict[str, str]], str]


def _event(data: dict[str, Any], name: str = "") -> str:
    # ASCII only, so that half a surrogate pair goes out as the escape a JavaScript server would send.
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def _cut(text: str, count: int) -> Iterator[str]:
    size = max(1, -(-len(text) // max(count, 1)))
    for at in range(0, len(text), size):
        yield text[at : at + size]


@dataclass
class OpenAIWriter:
    """Chunks of `/v1/chat/completions`."""

    body: dict[str, Any]
    calls: int = 0

    def begin(self, counted: Counted) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})

    def words(self, token: str, kind: str) -> Iterator[str]:
        yield self._chunk({"content" if kind == "text" else "reasoning_content": token})

    def call(self, call: ToolCall, id_: str) -> Iterator[str]:
        index = self.calls
        self.calls += 1
        function = {"name": call.tool, "arguments": ""}
        yield self._chunk({"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]})
        for piece in _cut(call.arguments, call.pieces):
            yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})

    def end(self, counted: Counted, finish: Finish | None) -> Iterator[str]:
        yield self._chunk({}, finish.reason if finish else "tool_calls" if self.calls else "stop")
        if (self.body.get("stream_options") or {}).get("include_usage"):
            usage = {
                "prompt_tokens": counted.input,
                "completion_tokens": counted.output,
                "total_tokens": counted.input + counted.output,
                "prompt_tokens_details": {"cached_tokens": counted.cached},
            }
            yield _event({**self._head(), "choices": [], "usage": usage})
        yield "data: [DONE]\n\n"

    def _head(self) -> dict[str, Any]:
        return {
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": self.body["model"],
        }

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> str:
        return _event({**self._head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


@dataclass
class AnthropicWriter:
    """Events of `/v1/messages`: content blocks are opened and closed as the kind of content changes."""

    body: dict[str, Any]
    index: int = -1
    open: str = ""
    called: bool = False
    _kinds: dict[str, str] = field(default_factory=lambda: {"text": "text", "reasoning": "thinking"})

    def begin(self, counted: Counted) -> Iterator[str]:
        usage = {
            "input_tokens": counted.input - counted.cached,
            "cache_read_input_tokens": counted.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": self.body["model"]}
        yield self._send("message_start", message={**message, "content": [], "stop_reason": None, "usage": usage})

    def words(self, token: str, kind: str) -> Iterator[str]:
        kind = self._kinds[kind]
        if self.open != kind:
            extra = {"signature": ""} if kind == "thinking" else {}
            yield from self._start(kind, {"type": kind, kind: "", **extra})
        yield self._delta({"type": f"{kind}_delta", kind: token})

    def call(self, call: ToolCall, id_: str) -> Iterator[str]:
        self.called = True
        yield from self._start("tool_use", {"type": "tool_use", "id": id_, "name": call.tool, "input": {}})
        for piece in _cut(call.arguments, call.pieces):
            yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def end(self, counted: Counted, finish: Finish | None) -> Iterator[str]:
        yield from self._stop()
        reason = _STOP_REASONS[finish.reason] if finish else "tool_use" if self.called else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield self._send("message_delta", delta=delta, usage={"output_tokens": counted.output})
        yield self._send("message_stop")

    def _start(self, kind: str, block: dict[str, Any]) -> Iterator[str]:
        yield from self._stop()
        self.index += 1
        self.open = kind
        yield self._send("content_block_start", index=self.index, content_block=block)

    def _stop(self) -> Iterator[str]:
        if self.open:
            self.open = ""
            yield self._send("content_block_stop", index=self.index)

    def _delta(self, delta: dict[str, Any]) -> str:
        return self._send("content_block_delta", index=self.index, delta=delta)

    def _send(self, kind: str, **data: object) -> str:
        return _event({"type": kind, **data}, kind)


def _openai_error(fail: Fail) -> dict[str, Any]:
    kind = "invalid_request_error" if fail.status < 429 else "server_error"
    return {"error": {"message": fail.message, "type": kind, "param": None, "code": fail.code}}


_ANTHROPIC_ERRORS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"} | {
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _anthropic_error(fail: Fail) -> dict[str, Any]:
    kind = fail.code or _ANTHROPIC_ERRORS.get(fail.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": fail.message}, "request_id": "req_scripted"}


def _google_error(fail: Fail) -> dict[str, Any]:
    return {"error": {"code": fail.status, "message": fail.message, "status": fail.code or "UNKNOWN"}}


def _bearer(headers: dict[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


_DIALECTS = {
    "/v1/chat/completions": Dialect("openai", openai_history, openai_faults, OpenAIWriter, _openai_error, _bearer),
    "/v1/responses": Dialect("responses", responses_history, responses_faults, ResponsesWriter, _openai_error, _bearer),
    "/v1/messages": Dialect(
        "anthropic",
        anthropic_history,
        anthropic_faults,
        AnthropicWriter,
        _anthropic_error,
        lambda headers: headers.get("x-api-key", ""),
    ),
    ":streamGenerateContent": Dialect(
        "google",
        google_history,
        google_faults,
        GoogleWriter,
        _google_error,
        lambda headers: headers.get("x-goog-api-key", ""),
    ),
}


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a request's path; Google's names the model before the verb."""
    return next((dialect for end, dialect in _DIALECTS.items() if path.endswith(end)), None)
