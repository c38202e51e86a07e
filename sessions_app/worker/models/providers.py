"""Every real provider, through pydantic-ai's direct streaming API. Only `registry` imports this module, and late.

Retries are ours (`backoff`), where a stop can reach the wait; the providers' own libraries are told to make none.
One HTTP client serves all sessions of an event loop; a cancelled stream closes its one connection, not the client.
"""

import asyncio
import gc
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2
from pydantic_ai import messages as wire
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as WireModel
from pydantic_ai.models import ModelRequestParameters, create_async_httpx2_client, infer_model
from pydantic_ai.providers import Provider as WireProvider
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from sessions_app.engine.model_names import Given, Provider, split_name
from sessions_app.engine.transcript_types import AssistantEntry, Entry, ResultEntry, UserEntry
from sessions_app.worker.models.assembly import Assembly
from sessions_app.worker.models.base import Delta, ModelError, Reply, Request, Usage
from sessions_app.worker.models.provider_errors import broken_off, from_provider, unusable

CONNECT_TIMEOUT_S: Final = 10.0
STALL_TIMEOUT_S: Final = 120.0
"""Silence on an open stream after which the attempt counts as failed; `STEERWEB_MODEL_STALL_S` overrides it."""
NO_KEY: Final = "none"

_SETTINGS: Final = ModelSettings(max_retries=0, cache=True)
_FOREIGN_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass
class _Connections:
    """What the streams of one event loop share: a pool belongs to the loop that opened its connections."""

    client: httpx2.AsyncClient
    models: dict[tuple[object, ...], WireModel] = field(default_factory=dict)
    collecting: bool = False
    collect_again: bool = False


_COLLECT_AFTER_S: Final = 0.05
_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = WeakKeyDictionary()


class ProviderModel:
    """A model of a real provider. The name has passed `check_name`; without `given` the environment has its key."""

    def __init__(self, name: str, given: Given | None = None) -> None:
        self._name, self._given = name, given
        self._provider, self._model = split_name(name)
        try:
            _load_library(self._provider, given)
        # Each library refuses a setting with an exception of its own, of which some are no more than an `Exception`.
        except Exception as error:
            raise unusable(error, self._provider, given=given is not None) from error

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the deltas and then the `Reply`; see `base.Model`."""
        assembly = Assembly(frozenset(_calls_of(request.entries)))
        try:
            model = _wire_model(self._name, self._given)
            title = _speaker(self._provider, model)
        except Exception as error:
            raise unusable(error, self._provider, given=self._given is not None) from error
        try:
            async with model_request_stream(
                model,
                _messages(request),
                model_settings=_SETTINGS,
                model_request_parameters=_parameters(request),
            ) as stream:
                async for event in stream:
                    for delta in _deltas(event, assembly):
                        yield delta
                response = stream.get()
        except (asyncio.CancelledError, GeneratorExit):
            # A library whose stream is a nested generator closes its connection when that is collected, which a cycle
            # through this very exception can put off: look for it once the exception has left (E6).
            _collect_soon(asyncio.get_running_loop())
            raise
        # The border to five foreign libraries: what they raise for a reply they cannot read has no common parent.
        except Exception as error:
            raise from_provider(error, title, self._model) from error
        for delta in assembly.finish():
            yield delta
        yield _reply(response, assembly, title)


@cache
def _load_library(provider: Provider, given: Given | None = None) -> None:
    """Build one model to no other end than to have everything imported: up to 3 s that no event loop should spend."""
    infer_model(provider.example, provider_factory=lambda kind: _build(kind, given))


def _build(kind: str, given: Given | None, **more: Any) -> WireProvider[Any]:
    """A provider of pydantic-ai: called with what is given, else with what the environment says."""
    # Every provider of `PROVIDERS` takes these, but their common base does not say so.
    build: Callable[..., WireProvider[Any]] = infer_provider_class(kind)
    if given is not None:
        # A server that asks for no key is sent a word that is none; the libraries insist on one.
        more |= {"api_key": given.key or NO_KEY, **({"base_url": given.base_url} if given.base_url else {})}
    return build(**more)


def _collect_soon(loop: asyncio.AbstractEventLoop) -> None:
    """Look for garbage in a moment: a hundred streams stopped at once must not stop the loop a hundred times."""
    shared = _connections.get(loop)
    if shared is None:
        return
    if shared.collecting:
        shared.collect_again = True  # its exception may not have left when the look that is planned comes
        return
    shared.collecting = True
    loop.call_later(_COLLECT_AFTER_S, _collect, loop, shared)


def _collect(loop: asyncio.AbstractEventLoop, shared: _Connections) -> None:
    gc.collect()
    shared.collecting, again, shared.collect_again = False, shared.collect_again, False
    if again:
        _collect_soon(loop)


async def close_connections() -> None:
    """Close the connections that the running event loop's streams have shared; for the end of a worker."""
    shared = _connections.pop(asyncio.get_running_loop(), None)
    if shared is not None:
        await shared.client.aclose()


def _wire_model(name: str, given: Given | None) -> WireModel:
    loop = asyncio.get_running_loop()
    shared = _connections.get(loop)
    if shared is None:
        stall_s = float(os.environ.get("STEERWEB_MODEL_STALL_S") or STALL_TIMEOUT_S)
        client = create_async_httpx2_client(timeout=httpx2.Timeout(stall_s, connect=CONNECT_TIMEOUT_S))
        shared = _connections.setdefault(loop, _Connections(client))
    # Building Google's client takes 0.1 s of the loop's time, so models are kept as long as keys and addresses last.
    key = (name, given, *sorted(item for item in os.environ.items() if item[0].endswith(("_API_KEY", "_BASE_URL"))))
    if key not in shared.models:
        client = shared.client

        shared.models[key] = infer_model(name, provider_factory=lambda kind: _build(kind, given, http_client=client))
    return shared.models[key]


def _speaker(provider: Provider, model: WireModel) -> str:
    """Who answers, for people: with OPENAI_BASE_URL it may be anybody's server, and not OpenAI's fault."""
    host = urlsplit(model.base_url or "").netloc
    return f"The server at {host}" if provider.title == "OpenAI" and not host.endswith("openai.com") else provider.title


def _calls_of(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            for call in entry.calls:
                yield call.id


def _parameters(request: Request) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in request.tools
    ]
    instructions = [wire.InstructionPart(content=request.instructions)] if request.instructions else []
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _messages(request: Request) -> list[wire.ModelMessage]:
    """The entries as pydantic-ai's history: neighbours that go the same way share one message."""
    history: list[wire.ModelMessage] = []
    sent: list[wire.ModelRequestPart] = []
    for entry in request.entries:
        match entry:
            case UserEntry():
                sent.append(_user_part(entry, request.images))
            case ResultEntry(call=call, tool=tool, text=text):
                sent.append(wire.ToolReturnPart(_tool_name(tool), text, tool_call_id=call))
            case AssistantEntry():
                reply = _response_parts(entry)
                if reply:  # an empty reply is one that every provider would refuse to be reminded of
                    if sent:
                        history.append(wire.ModelRequest(parts=sent))
                        sent = []
                    history.append(wire.ModelResponse(parts=reply))
    history.append(wire.ModelRequest(parts=sent, instructions=request.instructions or None))
    return history


def _user_part(entry: UserEntry, images: Mapping[str, bytes]) -> wire.UserPromptPart:
    """Words, with the images that came with them."""
    shown = [wire.BinaryContent(images[file.id], media_type=file.type) for file in entry.files if file.id in images]
    return wire.UserPromptPart([entry.text, *shown] if shown else entry.text)


def _response_parts(entry: AssistantEntry) -> list[wire.ModelResponsePart]:
    parts: list[wire.ModelResponsePart] = []
    if entry.text.strip():
        parts.append(wire.TextPart(entry.text))
    parts.extend(wire.ToolCallPart(_tool_name(call.tool), call.arguments, tool_call_id=call.id) for call in entry.calls)
    return parts


def _tool_name(name: str) -> str:
    """The name as providers take it back: they refuse a whole history over one name that a model made up."""
    return _FOREIGN_IN_NAME.sub("_", name)[:64] or "unknown"


def _deltas(event: wire.ModelResponseStreamEvent, assembly: Assembly) -> Iterator[Delta]:
    match event:
        case wire.PartStartEvent(part=wire.TextPart(content=content)):
            yield from assembly.text(content)
        case wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=content)):
            yield from assembly.text(content)
        case wire.PartStartEvent(part=wire.ThinkingPart(content=content)):
            yield from assembly.reasoning(content)
        case wire.PartDeltaEvent(delta=wire.ThinkingPartDelta(content_delta=str(content))):
            yield from assembly.reasoning(content)
        case _:
            return  # arguments of calls are taken whole, from the finished response


def _reply(response: wire.ModelResponse, assembly: Assembly, title: str) -> Reply:
    """The whole reply, or the reason why this was none."""
    for call in response.tool_calls:
        assembly.call(call.tool_call_id, call.tool_name, call.args)
    reply = assembly.reply(_usage(response.usage))
    details = response.provider_details or {}
    if "finish_reason" not in details and "refusal" not in details:
        raise broken_off(title)
    if reply.text.strip() or reply.calls:
        return reply
    if response.finish_reason == "content_filter":
        words = details.get("refusal") or "its filter held the reply back."
        raise ModelError("provider_refused", f"{title} refused: {words}")
    if response.finish_reason == "length":
        raise ModelError("bad_reply", f"{title} reached its length limit before it said anything.")
    raise ModelError("bad_reply", f"{title} sent an empty reply.", retryable=True)


def _usage(usage: RequestUsage) -> Usage:
    return Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
