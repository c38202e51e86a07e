"""A scripted model server over real HTTP, as strict about history as the real providers.

    with ModelServer() as server:
        server.script([say("Let me look."), call("shell", command="ls")], [say("Done.", delay_s=0.05)])
        ...                                     # a worker whose environment has server.environ()
        server.wait_for(lambda s: s.requests[-1].sent_tokens >= 3)
        assert server.violations == []

Each valid request takes the next scripted reply; `server.handler`, a function of the request, answers when the script
is empty. A request with a broken history gets HTTP 400, takes no reply and is noted in `violations`. Whoever asks for
the list of models gets one, and the key that came along is noted in `asked_for_models`. The server runs in a thread of
its own on an ephemeral port of 127.0.0.1 and serves any number of connections at once.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.support.model_dialects import Dialect, Writer, dialect_of
from tests.support.model_history import Said
from tests.support.model_parts import (
    Counted,
    Drop,
    Fail,
    Finish,
    Part,
    Raw,
    ScriptedReply,
    Stall,
    ToolCall,
    Words,
    call,
    counted,
    drop,
    fail,
    finish,
    half_json,
    pieces,
    raw_call,
    say,
    stall,
    think,
    unknown_field,
)
from tests.support.waiting import PATIENCE_S

__all__ = [
    "PROVIDERS",
    "ModelServer",
    "Said",
    "ScriptedReply",
    "Seen",
    "call",
    "counted",
    "drop",
    "fail",
    "finish",
    "half_json",
    "pieces",
    "raw_call",
    "say",
    "stall",
    "think",
    "unknown_field",
]

PROVIDERS = ("openai", "anthropic", "google")


@dataclass
class Seen:
    """One request and what became of its reply. Instants are of `time.monotonic`."""

    number: int
    api: str
    body: dict[str, Any]
    headers: dict[str, str]
    history: list[Said]
    at: float
    status: int = 0
    sent_tokens: int = 0
    finished: bool = False
    closed_at: float | None = None
    """When the client closed the connection before the reply was finished."""
    ended_at: float | None = None
    """When the server had no more to do with it, finished or not."""

    @property
    def text(self) -> str:
        """All text of the history in one string, for `word in request.text`."""
        return "\n".join(said.text for said in self.history)

    @property
    def last(self) -> Said:
        """The last piece of history: mostly what the reply answers."""
        return self.history[-1]


class _ClientGone(Exception):
    """The client closed its end while the reply was being sent."""


class _Dropped(Exception):
    """The script said to break the connection."""


@dataclass
class ModelServer:
    """The server; use it as a context manager. `key`: if set, other keys are refused with 401."""

    key: str | None = None
    handler: Callable[[Seen], ScriptedReply] | None = None
    requests: list[Seen] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    asked_for_models: list[str] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._replies: deque[ScriptedReply] = deque()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server", daemon=True)
        self._released = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # -- what a test uses -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        """The root address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def environ(self, *providers: str) -> dict[str, str]:
        """The environment that makes models of these of `PROVIDERS` come here; of the first one, unless told otherwise.

        A worker loads the libraries of all of whom it has a key, at its start: another second of work for each.
        """
        key = self.key or "scripted-key-0123456789"
        all_ = {
            "openai": {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": key},
            "anthropic": {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": key},
            "google": {"GOOGLE_GEMINI_BASE_URL": self.url, "GOOGLE_API_KEY": key},
        }
        return {name: value for each in providers or PROVIDERS[:1] for name, value in all_[each].items()}

    def script(self, *replies: ScriptedReply) -> None:
        """Queue replies, one for each of the next valid requests."""
        with self._changed:
            self._replies.extend(replies)

    def forget(self) -> None:
        """Start over: no requests and no violations seen, no replies queued, no handler."""
        with self._changed:
            self.requests.clear()
            self.violations.clear()
            self._replies.clear()
            self.handler = None

    def release(self) -> None:
        """End every stall that has no length of its own, now and later."""
        self._loop.call_soon_threadsafe(self._released.set)

    def wait_for(self, condition: Callable[[Self], object], timeout_s: float = PATIENCE_S) -> None:
        """Wait until the condition holds; it is asked again at every token, request and closing."""

        def holds() -> bool:
            try:
                return bool(condition(self))
            except IndexError:  # `requests[-1]` before the first one
                return False

        with self._changed:
            if not self._changed.wait_for(holds, timeout_s):
                raise TimeoutError(
                    f"not within {timeout_s} s; requests: {self.requests}, violations: {self.violations}"
                )

    async def until(self, condition: Callable[[Self], object], timeout_s: float = PATIENCE_S) -> None:
        """`wait_for` for a test that is a coroutine."""
        await asyncio.to_thread(self.wait_for, condition, timeout_s)

    # -- the HTTP side, all of it on the server's own loop ----------------------------------------------------------

    async def _start(self) -> None:
        self._loop.set_exception_handler(self._failed)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # Connections are kept alive as the real ones are: a cancelled request must not spoil the next.
            while await _Exchange(self, reader, writer).run():
                pass
        # Cancelled only by `_stop`, which waits for this task; asyncio's streams complain about one that says so.
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, _Dropped, _ClientGone):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A script or a handler raised: a test that looks at `violations` must see it."""
        self._note(lambda: self.violations.append(f"the script failed: {context.get('exception', context)!r}"))

    def _note(self, change: Callable[[], object]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def _reply_to(self, seen: Seen, dialect: Dialect) -> ScriptedReply:
        """Refuse, take the next scripted reply, or ask the handler."""
        if self.key is not None and dialect.key(seen.headers) != self.key:
            return [fail(401, f"Incorrect API key provided: {dialect.key(seen.headers)}", "invalid_api_key")]
        faults = dialect.faults(seen.body)
        if not faults and self._replies:
            return self._replies.popleft()
        if not faults and self.handler is not None:
            return self.handler(seen)
        faults = faults or [f"request {seen.number} came without a scripted reply"]
        self._note(lambda: self.violations.extend(f"{seen.number}: {fault}" for fault in faults))
        return [fail(400, faults[0])]


class _Exchange:
    """One request on one connection and its reply."""

    def __init__(self, server: ModelServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._gone = asyncio.Event()

    async def run(self) -> bool:
        """Serve one request; False when the client has no further one."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in lines if item)}
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        path = line.split(" ")[1].partition("?")[0]
        if line.startswith("GET ") and path.endswith("/models"):
            await self._list_models(headers)
            return True
        dialect = dialect_of(path)
        if dialect is None:
            await self._answer(404, {"error": {"message": f"nothing is at {path}"}}, {})
            return True
        await self._serve(dialect, json.loads(body), headers)
        return True

    async def _list_models(self, headers: dict[str, str]) -> None:
        """All three dialects' list of models at once: each finds its own names in it."""
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        sent = headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer
        self._server._note(lambda: self._server.asked_for_models.append(sent))
        if self._server.key is not None and sent != self._server.key:
            message = f"Incorrect API key provided: {sent}"
            await self._answer(401, {"error": {"message": message}}, {})
            return
        names = ["scripted-1", "scripted-2"]
        await self._answer(200, {"data": [{"id": name} for name in names]}, {})

    async def _serve(self, dialect: Dialect, body: dict[str, Any], headers: dict[str, str]) -> None:
        server = self._server
        number = len(server.requests)
        self._seen = seen = Seen(number, dialect.name, body, headers, dialect.history(body), time.monotonic())
        server._note(lambda: server.requests.append(seen))
        reply = server._reply_to(seen, dialect)
        watcher = asyncio.create_task(self._watch())
        try:
            if reply and isinstance(reply[0], Fail):
                failure = reply[0]
                extra = {} if failure.retry_after is None else {"Retry-After": f"{failure.retry_after:g}"}
                server._note(lambda: setattr(seen, "status", failure.status))
                await self._answer(failure.status, dialect.error(failure), extra)
            else:
                server._note(lambda: setattr(seen, "status", 200))
                await self._stream(dialect.writer(body), reply)
            server._note(lambda: setattr(seen, "finished", True))
        except ConnectionError:
            self._left()
            raise
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
            server._note(lambda: setattr(seen, "ended_at", time.monotonic()))

    async def _watch(self) -> None:
        """See the client go: nothing else makes its end readable before the reply is complete."""
        with suppress(ConnectionError):
            if await self._reader.read(1):
                raise AssertionError("the client sent a second request before the reply was complete")
        self._left()

    def _left(self) -> None:
        """The client closed the connection: seen by reading, or by a write that failed first."""
        if self._seen.closed_at is None:
            self._server._note(lambda: setattr(self._seen, "closed_at", time.monotonic()))
        self._gone.set()

    async def _answer(self, status: int, body: dict[str, Any], extra: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **extra}
        self._writer.write(self._head(status, headers) + data)
        await self._writer.drain()

    async def _stream(self, writer: Writer, reply: ScriptedReply) -> None:
        if reply and isinstance(reply[0], Stall) and reply[0].unanswered:
            await self._pause(reply[0].seconds)
            reply = reply[1:]
        counts = next((part for part in reply if isinstance(part, Counted)), None)
        usage = counts or Counted(len(self._seen.text.split()), 0)
        self._writer.write(self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}))
        await self._send(*writer.begin(usage))
        for at, part in enumerate(reply):
            if isinstance(part, Drop) and part.how == "end":
                await self._finish()
                return
            await self._part(writer, part, f"call_{self._seen.number}_{at}")
        reason = next((part for part in reply if isinstance(part, Finish)), None)
        await self._send(*writer.end(counts or Counted(usage.input, self._seen.sent_tokens), reason))
        await self._finish()

    async def _part(self, writer: Writer, part: Part, id_: str) -> None:
        match part:
            case Words():
                for token in part.tokens:
                    await self._pause(part.delay_s)
                    await self._send(*writer.words(token, part.kind))
                    self._server._note(self._count)
            case ToolCall():
                await self._send(*writer.call(part, part.id or id_))
            case Stall():
                await self._pause(part.seconds)
            case Drop():
                raise _Dropped
            case Raw():
                name = f"event: {part.event}\n" if part.event else ""
                await self._send(f"{name}data: {part.data}\n\n")
            case Fail():
                raise AssertionError("a failure can only be the first part of a reply")

    def _count(self) -> None:
        self._seen.sent_tokens += 1

    async def _pause(self, seconds: float | None) -> None:
        """Wait so long (None: until released), but not for a client that is gone."""
        if seconds == 0 and not self._gone.is_set():
            return
        waits = [asyncio.ensure_future(self._gone.wait())]
        if seconds is None:
            waits.append(asyncio.ensure_future(self._server._released.wait()))
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._gone.is_set():
            raise _ClientGone

    async def _send(self, *events: str) -> None:
        for event in events:
            if self._gone.is_set():
                raise _ClientGone
            data = event.encode()
            self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await self._writer.drain()

    async def _finish(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    @staticmethod
    def _head(status: int, headers: dict[str, str]) -> bytes:
        lines: Iterator[str] = (f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {status} Scripted\r\n{''.join(lines)}\r\n".encode("latin-1")
