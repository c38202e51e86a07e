"""One end of the socket pair between a worker and its warden, with the back-pressure that bounds both sides' memory."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from sessions_app.worker.warden.wire import Header, Unpacker, WireError, pack

HIGH_BYTES: Final = 256 * 1024
LOW_BYTES: Final = 64 * 1024


class Link(asyncio.Protocol):
    """Frames in and out. `on_closed` is called once, also after nonsense from the other end.

    `has_room` is False while more than 256 KiB wait for the other end; who sends in bulk then stops until `on_room`.
    """

    def __init__(
        self,
        on_frame: Callable[[Header, bytes], None],
        on_closed: Callable[[], None],
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self.has_room = True
        self._on_frame, self._on_closed, self._on_room = on_frame, on_closed, on_room
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        sock.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=sock)

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send one frame; once the line is closed this does nothing, since the other end is gone for good."""
        if self._transport is not None:
            self._transport.write(pack(header, body))

    def close(self) -> None:
        """Hang up after what was sent."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the socket is ours."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes from the other end."""
        try:
            frames = self._unpacker.feed(data)
        except WireError:
            if self._transport is not None:
                self._transport.abort()
            return
        for header, body in frames:
            self._on_frame(header, body)

    def pause_writing(self) -> None:
        """asyncio: too much waits to be sent."""
        self.has_room = False

    def resume_writing(self) -> None:
        """asyncio: the other end has caught up."""
        self.has_room = True
        self._on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the other end has hung up or died."""
        self._transport = None
        self._on_closed()
