"""What real providers refuse in a request's history: an unanswered call, an unknown or second result, an empty text.

Each check answers a list of sentences; one is enough for HTTP 400 (scenario D07).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Said:
    """One piece of a request's history in both dialects' common terms. `call` is the id a result answers."""

    role: str
    text: str
    calls: tuple[tuple[str, str, Any], ...] = ()
    call: str | None = None


def openai_history(body: dict[str, Any]) -> list[Said]:
    """The messages of a chat-completions request."""
    said = []
    for message in body.get("messages", []):
        calls = tuple(
            (str(item.get("id")), str(item["function"].get("name")), _parsed(item["function"].get("arguments")))
            for item in message.get("tool_calls") or []
        )
        said.append(Said(message.get("role"), _text(message.get("content")), calls, message.get("tool_call_id")))
    return said


def anthropic_history(body: dict[str, Any]) -> list[Said]:
    """The system prompt and messages of a messages request, results as pieces of their own."""
    said = [Said("system", _text(body["system"]))] if body.get("system") else []
    for message in body.get("messages", []):
        blocks = _blocks(message)
        said.extend(
            Said("tool", _text(b.get("content")), call=b.get("tool_use_id")) for b in _of("tool_result", blocks)
        )
        calls = tuple((str(b.get("id")), str(b.get("name")), b.get("input")) for b in _of("tool_use", blocks))
        text = "".join(b.get("text", "") for b in _of("text", blocks))
        if text or calls:
            said.append(Said(message.get("role"), text, calls))
    return said


def openai_faults(body: dict[str, Any]) -> list[str]:
    """What is wrong with a chat-completions request."""
    return [*_tool_faults([tool.get("function", {}) for tool in body.get("tools") or []]), *_openai_faults(body)]


def _openai_faults(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not body.get("model") or body.get("stream") is not True or not isinstance(messages, list) or not messages:
        yield "a request needs a model, messages and stream: true"
        return
    open_calls: list[str] = []
    before = ""
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            call = message.get("tool_call_id")
            if call in open_calls:
                open_calls.remove(call)
            else:
                yield f"message {at}: a result for {call!r}, which is no unanswered call of the message before"
        elif open_calls:
            yield f"message {at}: tool calls {open_calls} have no result at once after them"
            open_calls = []
        if role == "assistant":
            yield from _assistant_faults(at, message, before)
            open_calls = [item.get("id") for item in message.get("tool_calls") or []]
        elif role == "user" and not _text(message.get("content")).strip():
            yield f"message {at}: an empty user message"
        elif role not in ("system", "developer", "user", "tool"):
            yield f"message {at}: no role is called {role!r}"
        before = role
    if open_calls:
        yield f"the last tool calls {open_calls} have no result"
    if before not in ("user", "tool"):
        yield f"the last message is of role {before!r}"


def _assistant_faults(at: int, message: dict[str, Any], before: str) -> Iterator[str]:
    calls = message.get("tool_calls") or []
    if before not in ("user", "tool"):
        yield f"message {at}: an assistant message after one of role {before!r}"
    if not calls and not _text(message.get("content")).strip():
        yield f"message {at}: an assistant message with neither text nor calls"
    if "tool_calls" in message and not calls:
        yield f"message {at}: an empty list of tool calls"
    ids = [item.get("id") for item in calls]
    if len(set(ids)) < len(ids) or not all(isinstance(id_, str) and 0 < len(id_) <= 40 for id_ in ids):
        yield f"message {at}: bad ids of tool calls: {ids}"
    for item in calls:
        function = item.get("function", {})
        if not _NAME.fullmatch(str(function.get("name"))):
            yield f"message {at}: a tool cannot be called {function.get('name')!r}"
        if not isinstance(_parsed(function.get("arguments")), dict):
            yield f"message {at}: arguments that are no JSON object"


def anthropic_faults(body: dict[str, Any]) -> list[str]:
    """What is wrong with a messages request."""
    return [*_tool_faults(body.get("tools") or []), *_anthropic_faults(body)]


def _anthropic_faults(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages")
    if not body.get("model") or body.get("stream") is not True or not messages or not body.get("max_tokens"):
        yield "a request needs a model, messages, max_tokens and stream: true"
        return
    open_calls: list[str] = []
    ids: list[str] = []
    before = "assistant"
    for at, message in enumerate(messages):
        role, blocks = message.get("role"), _blocks(message)
        if role not in ("user", "assistant") or role == before:
            yield f"message {at}: role {role!r} after {before!r}"
        if not blocks or any(b.get("type") == "text" and not b.get("text", "").strip() for b in blocks):
            yield f"message {at}: empty content"
        answered = [str(b.get("tool_use_id")) for b in _of("tool_result", blocks)]
        if sorted(answered) != sorted(open_calls):
            yield f"message {at}: tool_use ids {open_calls} are followed by results for {answered}"
        if [b.get("type") for b in blocks[: len(answered)]] != ["tool_result"] * len(answered):
            yield f"message {at}: results must come first"
        open_calls = [str(b.get("id")) for b in _of("tool_use", blocks)]
        ids += open_calls
        for block in _of("tool_use", blocks):
            if not isinstance(block.get("input"), dict) or not _NAME.fullmatch(str(block.get("name"))):
                yield f"message {at}: a bad tool_use {block}"
        before = str(role)
    if len(set(ids)) < len(ids) or not all(_NAME.fullmatch(str(id_)) for id_ in ids):
        yield f"tool_use ids must be unique and plain: {ids}"
    if before != "user":
        yield f"the last message is of role {before!r}"


def _tool_faults(tools: list[dict[str, Any]]) -> Iterator[str]:
    names = [str(tool.get("name")) for tool in tools]
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        yield f"bad names of tools: {names}"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _of(kind: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def _parsed(arguments: object) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        return None
