"""The way out to one client: frames go in, and one can see how many bytes the client has not taken yet (L3).

`DaphneWire` depends on Daphne 4.2, autobahn 26 and Twisted's asyncio reactor:
- the `send` that Daphne hands to the application is `functools.partial(Server.handle_reply, protocol)`;
- `protocol` is an autobahn websocket in state OPEN, without compression, whose `transport` is a plain Twisted socket;
- what Twisted has not written yet is `dataBuffer` from `offset` on, and `_tempDataLen` bytes more;
- everything runs in one thread, so nothing comes between looking at the buffer and writing.

While Twisted's buffer is empty a frame goes straight to the socket: one system call instead of two rounds of the event
loop. What the kernel does not take, and everything behind it, goes through Twisted and keeps its order. Daphne itself
never pushes back, so `waiting()` is the only thing that bounds a client that does not read. A server that does not look
like this gets a `PlainWire`: the ASGI `send`, behind a queue of its own. (So does Daphne's own TLS, where its missing
push-back has no bound: TLS belongs to a proxy in front.)
"""

import asyncio
import contextlib
import functools
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from sessions_app.live.counters import counters
from sessions_app.live.frames import Frame

MAX_FRAME: Final = 8 * 1024 * 1024
"""The largest frame a client may send, in bytes; a larger one closes its socket with 1009."""
CLOSE_S: Final = 5.0
"""How long a client may take to answer a close before its connection is cut."""

AsgiSend = Callable[[dict[str, Any]], Awaitable[None]]


class Wire(Protocol):
    """What the hub needs of a connection. Nothing here ever waits."""

    def send(self, frames: Sequence[Frame]) -> None:
        """Pass frames on, in order; nothing happens on a connection that is closed."""

    def waiting(self) -> int:
        """Bytes accepted here that the client's connection has not taken."""

    def taken(self) -> int:
        """Bytes the client's connection has taken since the beginning."""

    def close(self, code: int) -> None:
        """Close with a code, behind what was sent; a client that does not answer is cut off soon."""

    def release(self) -> None:
        """The connection is over: keep nothing of it."""


class DaphneWire:
    """Straight to the socket of one Daphne connection."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._transport = protocol.transport
        self._socket: socket.socket = protocol.transport.getHandle()
        self._given = 0
        # Daphne's own limits are the command line's; these are the contract's, with a close code instead of a cut.
        protocol.maxMessagePayloadSize = protocol.maxFramePayloadSize = MAX_FRAME
        protocol.failByDrop = False
        protocol.closeHandshakeTimeout = CLOSE_S

    def _open(self) -> bool:
        return bool(self._protocol.state == self._protocol.STATE_OPEN and self._transport.connected)

    def send(self, frames: Sequence[Frame]) -> None:
        if not self._open():
            return
        data = frames[0].wire if len(frames) == 1 else b"".join(frame.wire for frame in frames)
        self._given += len(data)
        transport = self._transport
        if not (transport.dataBuffer or transport._tempDataLen or transport.disconnecting or self._protocol.send_queue):
            try:
                done = self._socket.send(data)
            except OSError:  # full, or broken: Twisted finds out which, and reports a lost connection
                done = 0
            counters.direct_sends += 1
            if done == len(data):
                return
            data = data[done:]
        counters.buffered_sends += 1
        transport.write(data)

    def waiting(self) -> int:
        transport = self._transport
        return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)

    def taken(self) -> int:
        return self._given - self.waiting()

    def close(self, code: int) -> None:
        if self._open():
            self._protocol.sendCloseFrame(code=code)  # sendClose refuses the codes below 3000

    def release(self) -> None:
        """Nothing is held here; Daphne and Twisted let go of theirs."""


class PlainWire:
    """Any other ASGI server: a task awaits its `send`, and what has not been awaited yet is waiting."""

    def __init__(self, send: AsgiSend) -> None:
        self._send = send
        self._queue: deque[Frame | int] = deque()
        self._queued = 0
        self._given = 0
        self._wake = asyncio.Event()
        self._closed = False
        self.pump_task = asyncio.create_task(self._pump())

    def send(self, frames: Sequence[Frame]) -> None:
        if self._closed:
            return
        for frame in frames:
            self._queue.append(frame)
            self._queued += len(frame)
            self._given += len(frame)
        self._wake.set()

    def waiting(self) -> int:
        return self._queued

    def taken(self) -> int:
        return self._given - self._queued

    def close(self, code: int) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.append(code)
        self._wake.set()
        asyncio.get_running_loop().call_later(CLOSE_S, self.pump_task.cancel)

    def release(self) -> None:
        self._closed = True
        self.pump_task.cancel()

    async def _pump(self) -> None:
        with contextlib.suppress(OSError):  # how servers say that the client has gone
            while True:
                while self._queue:
                    item = self._queue.popleft()
                    if isinstance(item, int):
                        await self._send({"type": "websocket.close", "code": item})
                        return
                    await self._send({"type": "websocket.send", "text": item.text})
                    self._queued -= len(item)
                self._wake.clear()
                await self._wake.wait()


def _daphne_protocol(send: AsgiSend) -> Any | None:
    """The Daphne websocket behind an ASGI `send`, or None where it is not one we know how to write to."""
    daphne = sys.modules.get("daphne.ws_protocol")
    tcp = sys.modules.get("twisted.internet.tcp")
    if daphne is None or tcp is None or not isinstance(send, functools.partial) or not send.args:
        return None
    protocol = send.args[0]
    if not isinstance(protocol, daphne.WebSocketProtocol) or protocol._perMessageCompress is not None:
        return None
    transport = protocol.transport
    known = isinstance(transport, tcp.Connection) and not transport.TLS and hasattr(transport, "_tempDataLen")
    return protocol if known else None


def wire_for(send: AsgiSend) -> Wire:
    """The fastest way out for an accepted connection."""
    protocol = _daphne_protocol(send)
    return PlainWire(send) if protocol is None else DaphneWire(protocol)
