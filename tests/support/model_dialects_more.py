"""Two further dialects of the scripted model server: OpenAI's Responses API and Google's `generateContent`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.model_history import Said
from tests.support.model_parts import Counted, Finish, ToolCall


def _event(data: dict[str, Any], name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


@dataclass
class ResponsesWriter:
    """Events of `/v1/responses`."""

    body: dict[str, Any]
    output: list[dict[str, Any]] = field(default_factory=list)
    sequence: int = -1
    text: str | None = None

    def begin(self, counted: Counted) -> Iterator[str]:
        yield self._send("response.created", response=self._response("in_progress"))

    def words(self, token: str, kind: str) -> Iterator[str]:
        if kind == "reasoning":
            return  # the real one shows summaries only, and only to those who ask
        if self.text is None:
            self.text = ""
            item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
            yield self._send("response.output_item.added", output_index=len(self.output), item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._send("response.content_part.added", **self._where(), part=part)
        self.text += token
        yield self._send("response.output_text.delta", **self._where(), delta=token, logprobs=[])

    def call(self, call: ToolCall, id_: str) -> Iterator[str]:
        yield from self._close()
        item = {"id": f"fc_{id_}", "type": "function_call", "call_id": id_, "name": call.tool}
        place = {"output_index": len(self.output), "item_id": item["id"]}
        started = {**item, "arguments": "", "status": "in_progress"}
        yield self._send("response.output_item.added", output_index=len(self.output), item=started)
        yield self._send("response.function_call_arguments.delta", **place, delta=call.arguments)
        yield self._send("response.function_call_arguments.done", **place, name=call.tool, arguments=call.arguments)
        done = {**item, "arguments": call.arguments, "status": "completed"}
        yield self._send("response.output_item.done", output_index=len(self.output), item=done)
        self.output.append(done)

    def end(self, counted: Counted, finish: Finish | None) -> Iterator[str]:
        yield from self._close()
        usage = {
            "input_tokens": counted.input,
            "input_tokens_details": {"cached_tokens": counted.cached},
            "output_tokens": counted.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counted.input + counted.output,
        }
        if finish and finish.reason != "stop":
            reason = "max_output_tokens" if finish.reason == "length" else "content_filter"
            cut = {**self._response("incomplete"), "incomplete_details": {"reason": reason}, "usage": usage}
            yield self._send("response.incomplete", response=cut)
        else:
            yield self._send("response.completed", response={**self._response("completed"), "usage": usage})

    def _close(self) -> Iterator[str]:
        if self.text is None:
            return
        part = {"type": "output_text", "text": self.text, "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        yield self._send("response.output_text.done", **self._where(), text=self.text, logprobs=[])
        yield self._send("response.content_part.done", **self._where(), part=part)
        yield self._send("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)
        self.text = None

    def _where(self) -> dict[str, Any]:
        return {"item_id": "msg_1", "output_index": len(self.output), "content_index": 0}

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": "resp_scripted",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": self.body["model"],
            "output": self.output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _send(self, kind: str, **data: object) -> str:
        self.sequence += 1
        return _event({"type": kind, "sequence_number": self.sequence, **data}, kind)


_FINISHES = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


@dataclass
class GoogleWriter:
    """Chunks of `models/…:streamGenerateContent`; a call comes whole, with its arguments as an object."""

    body: dict[str, Any]

    def begin(self, counted: Counted) -> Iterator[str]:
        yield from ()

    def words(self, token: str, kind: str) -> Iterator[str]:
        yield self._chunk({"text": token, **({"thought": True} if kind == "reasoning" else {})})

    def call(self, call: ToolCall, id_: str) -> Iterator[str]:
        yield self._chunk({"functionCall": {"name": call.tool, "args": json.loads(call.arguments)}})

    def end(self, counted: Counted, finish: Finish | None) -> Iterator[str]:
        usage = {
            "promptTokenCount": counted.input,
            "candidatesTokenCount": counted.output,
            "cachedContentTokenCount": counted.cached,
            "totalTokenCount": counted.input + counted.output,
        }
        last = {"index": 0, "finishReason": _FINISHES[finish.reason if finish else "stop"]}
        yield _event({"candidates": [{**last, "content": {"role": "model", "parts": []}}], "usageMetadata": usage})

    def _chunk(self, part: dict[str, Any]) -> str:
        return _event({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})


def responses_history(body: dict[str, Any]) -> list[Said]:
    """The instructions and input items of a Responses request."""
    said = [Said("system", body["instructions"])] if body.get("instructions") else []
    for item in body.get("input", []):
        match item.get("type", "message"):
            case "function_call":
                said.append(Said("assistant", "", ((item["call_id"], item["name"], json.loads(item["arguments"])),)))
            case "function_call_output":
                said.append(Said("tool", str(item["output"]), call=item["call_id"]))
            case _:
                content = item.get("content")
                text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])
                said.append(Said(item.get("role", ""), text))
    return said


def google_history(body: dict[str, Any]) -> list[Said]:
    """The system instruction and contents of a generateContent request; ids of calls are their names."""
    system = "".join(part.get("text", "") for part in body.get("systemInstruction", {}).get("parts", []))
    said = [Said("system", system)] if system else []
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if "functionCall" in part:
                asked = part["functionCall"]
                said.append(Said("assistant", "", ((asked["name"], asked["name"], asked.get("args")),)))
            elif "functionResponse" in part:
                answer = part["functionResponse"]
                said.append(Said("tool", json.dumps(answer["response"]), call=answer["name"]))
            elif "inlineData" not in part:
                said.append(Said("assistant" if content.get("role") == "model" else "user", part.get("text", "")))
    return said


def _pairing_faults(said: list[Said]) -> Iterator[str]:
    """Calls and results must pair off, results at once after the calls of one reply."""
    open_calls: list[str] = []
    for at, piece in enumerate(said):
        if piece.call is not None:
            if piece.call not in open_calls:
                yield f"item {at}: no tool call found for function call output {piece.call!r}"
            else:
                open_calls.remove(piece.call)
        elif piece.calls:
            open_calls += [id_ for id_, _, _ in piece.calls]
        elif open_calls:
            yield f"item {at}: no tool output found for function calls {open_calls}"
            open_calls = []
        elif not piece.text.strip():
            yield f"item {at}: an empty text"
    if open_calls:
        yield f"no tool output found for function calls {open_calls}"
    if not said or (said[-1].role == "assistant"):
        yield "the last item is nothing to answer"


def responses_faults(body: dict[str, Any]) -> list[str]:
    """What is wrong with a Responses request."""
    return list(_pairing_faults(responses_history(body)))


def google_faults(body: dict[str, Any]) -> list[str]:
    """What is wrong with a generateContent request."""
    return list(_pairing_faults(google_history(body)))
