"""A socket client for tests: reads frames in the background, keeps them by kind, and answers questions about them."""

import asyncio
import base64
import contextlib
import os
import socket as sockets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from sessions_app.ids import new_id
from tests.support.waiting import PATIENCE_S, wait_until_async

Frame = dict[str, Any]


def ws(url: str, path: str) -> str:
    """The socket's address beside a web process's `http://...`."""
    return url.replace("http", "ws", 1) + path


class Socket:
    """An open socket. `frames` is all that came, `raw` the same as text; `code` is set once it is closed."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[Frame] = []
        self.raw: list[str] = []
        self.code: int | None = None
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for message in self.connection:
                assert isinstance(message, str)
                self.raw.append(message)
                self.frames.append(orjson.loads(message))
        except ConnectionClosed:
            pass
        self.code = self.connection.close_code

    def of(self, kind: str) -> list[Frame]:
        return [frame for frame in self.frames if frame["t"] == kind]

    def events(self, *types: str) -> list[Frame]:
        return [frame for frame in self.of("event") if not types or frame["type"] in types]

    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.of("event")]

    def text(self, kind: str = "text", call: str | None = None) -> str:
        """What `hello` and the deltas say of one kind of text; a hole or a repetition fails."""
        text = ""
        pieces = [*(step for hello in self.of("hello") for step in hello["live"]["steps"]), *self.of("delta")]
        for piece in pieces:
            if piece["kind"] == kind and piece.get("call") == call:
                assert piece["offset"] == len(text), (piece, text)
                text += piece["text"]
        return text

    async def until(self, condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
        """Wait for a condition on what has come."""

        async def asked() -> Any:
            return condition()

        return await wait_until_async(asked, what, timeout_s)

    async def until_event(self, type_: str, count: int = 1) -> Frame:
        """Wait for the event of a type, or the last of so many; it."""
        await self.until(lambda: len(self.events(type_)) >= count, f"{count} {type_}")
        return self.events(type_)[count - 1]

    async def until_text(self, text: str) -> None:
        """Wait until the streamed text is exactly this."""
        await self.until(lambda: self.text() == text, "the whole text")

    async def until_seq(self, seq: int) -> None:
        """Wait until the event of that seq is the last one."""
        await self.until(lambda: self.seqs()[-1:] == [seq], f"event {seq}")

    async def live(self) -> "Socket":
        await self.until(lambda: self.of("caught_up"), "the end of the replay")
        return self

    async def closed(self, timeout_s: float = PATIENCE_S) -> int | None:
        await self.until(lambda: self._reading.done(), "the close", timeout_s)
        return self.code

    async def send(self, kind: str, **fields: Any) -> str:
        """Send a command; its id."""
        command = str(fields.pop("id", None) or new_id())
        await self.connection.send(orjson.dumps({"t": kind, "id": command, **fields}).decode())
        return command

    async def ask(self, kind: str, **fields: Any) -> Frame:
        """Send a command and wait for its `ack` or `error`."""
        before = len(self.frames)
        command = await self.send(kind, **fields)

        def answer() -> Frame | None:
            answers = (f for f in self.frames[before:] if f["t"] in ("ack", "error") and f.get("id") == command)
            return next(answers, None)

        found: Frame = await self.until(answer, f"the answer to {kind}")
        return found

    async def close(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self.connection.close()
        await self._reading


@asynccontextmanager
async def opened(
    url: str,
    path: str,
    *,
    cookie: str | None = None,
    token: str | None = None,
    origin: str | None = None,
    user_agent: str | None = None,
) -> AsyncIterator[Socket]:
    """An open socket. A cookie comes with the web process's own origin unless another is named."""
    headers: dict[str, str] = {}
    if cookie is not None:
        headers["Cookie"] = f"sessionid={cookie}"
        headers["Origin"] = origin or url
    elif origin is not None:
        headers["Origin"] = origin
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with connect(
        ws(url, path), additional_headers=headers, user_agent_header=user_agent, max_size=None, proxy=None
    ) as connection:
        socket = Socket(connection)
        yield socket
        await socket.close()


@contextmanager
def never_reads(url: str, path: str, token: str) -> Iterator[sockets.socket]:
    """A connection that completes the handshake and then takes nothing."""
    where = urlsplit(url)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {path} HTTP/1.1", f"Host: {where.netloc}", "Upgrade: websocket", "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", f"Authorization: Bearer {token}", "", "",
    )  # fmt: skip
    with sockets.socket() as raw:
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        raw.settimeout(10)
        raw.connect((where.hostname, where.port))
        raw.sendall("\r\n".join(lines).encode())
        assert raw.recv(12) == b"HTTP/1.1 101"
        yield raw


def was_cut(raw: sockets.socket) -> bool:
    """Whether the other side has ended the connection, looked at without reading from it."""
    state = raw.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED
