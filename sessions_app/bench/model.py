"""A model to be stopped: a small server of OpenAI's streaming chat completions that does what the message says.

`tool COMMAND` in the last message makes it call the shell. `words N` makes it stream N words a second, each with an
instant, until the client leaves or `finish` is set. Anything else, a tool's result among it, is answered with one word.
"""

import asyncio
import contextlib
import json
import math
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from sessions_app.bench.watchers import instant

NAME: Final = "openai-chat:bench"
_ASKED: Final = re.compile(r"(tool|words) (.+)", re.DOTALL)


class Model:
    """The server. `gone_at` is when (time.perf_counter) a client left a stream that was not over."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._calls = 0
        self.gone_at: asyncio.Future[float]
        self.finish: asyncio.Event
        self._allowed: float = math.inf
        self._said_all = asyncio.Event()
        self._exchanges: set[asyncio.Task[None]] = set()

    @property
    def environment(self) -> Mapping[str, str]:
        """What makes a worker ask here."""
        port = self._listener.getsockname()[1]
        return {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "none"}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve in the running event loop."""
        self.expect()
        server = await asyncio.start_server(self._serve, sock=self._listener.dup())
        try:
            yield self
        finally:
            server.close()
            for exchange in self._exchanges:
                exchange.cancel()
            await asyncio.gather(*self._exchanges)

    def expect(self) -> None:
        """Forget the streams so far; those to come have no limit."""
        self._allowed = math.inf
        self.gone_at = asyncio.get_running_loop().create_future()
        self.finish = asyncio.Event()

    def allow(self, words: int) -> None:
        """Let streams say so many more words, then pause."""
        self._allowed = words
        self._said_all.clear()

    async def said_all(self, within_s: float) -> None:
        """Until those words are said; TimeoutError."""
        await asyncio.wait_for(self._said_all.wait(), within_s)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = asyncio.current_task()
        assert exchange is not None
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)
        # Cancelled only at the end, and asyncio's streams complain about a task that says so.
        over = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*over), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                size = re.search(r"\ncontent-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(size[1]) if size else 0) or b"{}")
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                asked = _ASKED.search(_last_words(body))
                if asked and asked[1] == "words":
                    await self._stream(reader, writer, float(asked[2]))
                else:
                    for delta, finish in self._whole(asked[2] if asked else ""):
                        _send(writer, delta, finish)
                _end(writer)
                await writer.drain()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, per_s: float) -> None:
        left = asyncio.ensure_future(reader.read(1))
        due = time.monotonic()
        try:
            while not self.finish.is_set():
                if self._allowed > 0:
                    _send(writer, {"content": f"{instant()} and so on "})
                    self._allowed -= 1
                    if self._allowed == 0:
                        self._said_all.set()
                due += 1 / per_s
                done, _ = await asyncio.wait([left], timeout=max(0.0, due - time.monotonic()))
                if done:
                    raise ConnectionError
        except ConnectionError:
            if not self.gone_at.done():
                self.gone_at.set_result(time.perf_counter())
            raise
        finally:
            left.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await left
        _send(writer, {}, "stop")

    def _whole(self, command: str) -> Iterator[tuple[dict[str, Any], str | None]]:
        if not command:
            yield {"role": "assistant", "content": "Done."}, None
            yield {}, "stop"
            return
        self._calls += 1
        function = {"name": "shell", "arguments": json.dumps({"command": command})}
        call = {"index": 0, "id": f"call_{self._calls}", "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}, None
        yield {}, "tool_calls"


def _last_words(body: Mapping[str, Any]) -> str:
    """The text of the last message where it is a person's, else nothing."""
    message = (body.get("messages") or [{}])[-1]
    content = message.get("content") if message.get("role") == "user" else ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content or ())


def _send(writer: asyncio.StreamWriter, delta: Mapping[str, Any], finish: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "bench", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": [choice]}
    _chunk(writer, f"data: {json.dumps(chunk)}\n\n")


def _end(writer: asyncio.StreamWriter) -> None:
    _chunk(writer, "data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
