"""One call's output: read no faster than the worker takes it, and never more in memory than a bounded tail."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

PIECE: Final = 64 * 1024
TAIL_BYTES: Final = 64 * 1024
PACE_BYTES: Final = 1024 * 1024
PACE_S: Final = 0.05
"""At most 1 MiB in 50 ms: an endless `yes` costs the worker's event loop a few percent, not all of it."""


class Tail:
    """The last 64 KiB of what was added."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Append bytes; cut only now and then, so that many small pieces stay cheap."""
        self._kept += data
        if len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        """The tail, decoded with replacement; a character cut at the front is left out."""
        whole = len(self._kept) <= TAIL_BYTES
        kept = bytes(self._kept[-TAIL_BYTES:])
        start = 0
        while not whole and start < min(3, len(kept)) and kept[start] & 0xC0 == 0x80:
            start += 1
        return kept[start:].decode("utf-8", "replace")


class Output:
    """Reads a pipe while `may_read()`; `wake()` tries again after it did not. Each piece goes to `forward`."""

    def __init__(self, handle: int, forward: Callable[[bytes], None], may_read: Callable[[], bool]) -> None:
        self.tail = Tail()
        self._handle, self._forward, self._may_read = handle, forward, may_read
        self._loop = asyncio.get_running_loop()
        self._spent, self._window_ends = 0, 0.0
        self._reading = self._open = True
        self._loop.add_reader(handle, self._on_readable)

    def wake(self) -> None:
        """Go on reading, if there is room."""
        if self._open and not self._reading and self._may_read():
            self._reading = True
            self._loop.add_reader(self._handle, self._on_readable)

    def close(self) -> None:
        """Take what is in the pipe (a bounded rest, since nobody of the call is left to fill it) and let go of it."""
        if not self._open:
            return
        for _ in range(32):
            if not self._take():
                break
        self._pause()
        self._open = False
        os.close(self._handle)

    def _on_readable(self) -> None:
        now = self._loop.time()
        if now >= self._window_ends:
            self._spent, self._window_ends = 0, now + PACE_S
        if not self._may_read() or self._take() == 0:
            self._pause()
        elif self._spent >= PACE_BYTES:
            self._pause()
            self._loop.call_at(self._window_ends, self.wake)

    def _take(self) -> int | None:
        """Read one piece: its length, 0 at the end of the output, None when there is nothing now."""
        try:
            data = os.read(self._handle, PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return 0
        self._spent += len(data)
        if data:
            self.tail.add(data)
            self._forward(data)
        return len(data)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._handle)
