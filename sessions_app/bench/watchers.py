"""Many watchers in one process, each a websocket that costs next to nothing: what is measured is the server.

`python -m sessions_app.bench.watchers PORT PATH TOKEN COUNT`. A watcher does the handshake by hand and takes apart the
server's unmasked frames (RFC 6455); it counts as connected once it has read `READY`. In the frames that follow it looks
for instants, `@` with the nanoseconds of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import base64
import contextlib
import math
import os
import re
import sys
import time
from collections.abc import Iterable
from typing import Final

from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.helper import hear, say

READY: Final = b'"t":"caught_up"'
AT_ONCE: Final = 20
CONNECT_S: Final = 60.0
_INSTANT: Final = re.compile(rb"@(\d{8,20});")
_CLOSE, _PING, _PONG = 8, 9, 10


def instant() -> str:
    """This instant, to be sent in a text."""
    return f"@{time.monotonic_ns()};"


class Arrivals:
    """How long each instant took, in seconds, of those after `begin`."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._old = self._since_ns = 0
        self._expected = math.inf
        self._enough = asyncio.Event()

    def begin(self) -> None:
        """Forget what came so far, and what was sent so far and comes later."""
        self._times.clear()
        self._old, self._since_ns = 0, time.monotonic_ns()

    def add(self, now_ns: int, sent: Iterable[bytes]) -> None:
        """Instants have come."""
        for each in sent:
            at_ns = int(each)
            if at_ns > self._since_ns:
                self._times.append((now_ns - at_ns) / 1e9)
            else:
                self._old += 1
        if len(self._times) >= self._expected:
            self._enough.set()

    async def report(self, expected: int, within_s: float) -> dict[str, int | Spread | None]:
        """What has come, once everything has or the time is over; `old` is what was sent before and came after."""
        self._expected = expected
        self._enough.clear()
        self.add(0, ())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._enough.wait(), within_s)
        came = len(self._times)
        return {
            "came": came,
            "old": self._old,
            "lost": expected - came,
            "took": spread_of(self._times) if came else None,
        }


class Watcher(asyncio.Protocol):
    """One connection; what its frames took is added to `arrivals`."""

    def __init__(self, path: str, token: str, arrivals: Arrivals) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._path, self._token, self._arrivals = path, token, arrivals
        self._buffer = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        lines = [
            f"GET {self._path} HTTP/1.1", f"Host: {host}:{port}", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Authorization: Bearer {self._token}", "", "",
        ]  # fmt: skip
        transport.write("\r\n".join(lines).encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        self._buffer += data
        if not self._open:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self._fail(head.decode("latin-1"))
                return
            self._open, self._buffer = True, rest
        at = 0
        while (end_at := self._frame(at, now)) is not None:
            at = end_at
        self._buffer = self._buffer[at:]

    def _frame(self, at: int, now: int) -> int | None:
        """Take the frame that begins at `at`; where it ends, or None while it is not whole."""
        buffer = self._buffer
        if len(buffer) < at + 2:
            return None
        size, body = buffer[at + 1] & 0x7F, at + 2
        if size >= 126:
            body += 2 if size == 126 else 8
            if len(buffer) < body:
                return None
            size = int.from_bytes(buffer[at + 2 : body])
        end = body + size
        if len(buffer) < end:
            return None
        code = buffer[at] & 0x0F
        if code == _PING:
            # Masked with zeros: a client's frames have to be masked, with anything.
            self._transport.write(bytes((0x80 | _PONG, 0x80 | size)) + bytes(4) + buffer[body:end])
        elif code == _CLOSE:
            self._fail("the server closed the connection")
        else:
            self._arrivals.add(now, _INSTANT.findall(buffer, body, end))
            if not self.ready.done() and READY in buffer[body:end]:
                self.ready.set_result(None)
        return end

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the connection was lost")

    def _fail(self, why: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(why))


async def _main(port: int, path: str, token: str, count: int) -> None:
    loop, arrivals = asyncio.get_running_loop(), Arrivals()
    watchers: list[Watcher] = []
    async with asyncio.timeout(CONNECT_S):
        for begin in range(0, count, AT_ONCE):
            some = [Watcher(path, token, arrivals) for _ in range(begin, min(begin + AT_ONCE, count))]
            for watcher in some:
                await loop.create_connection(lambda watcher=watcher: watcher, "127.0.0.1", port)  # type: ignore[misc]
            await asyncio.gather(*(watcher.ready for watcher in some))
            watchers += some
    say({"connected": len(watchers)})
    while (question := await asyncio.to_thread(hear)) is not None:
        if question == "begin":
            arrivals.begin()
            say("begun")
        else:
            say(await arrivals.report(question["expected"], question["within_s"]))


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
