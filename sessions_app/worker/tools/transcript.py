"""A process's output as text: live for people, and the head and tail that are kept for the model."""

import codecs
from collections.abc import Callable
from typing import Final

from sessions_app.engine.text import clean
from sessions_app.log.stream import LIVE_CHARS

HEAD_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 64 * 1024


class Transcript:
    """Takes a call's output as it comes. `emit` gets it as clean text, whole characters only (D28), until the live
    view has more than its limit and says so itself."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._live_left = LIVE_CHARS + 1
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take a piece of output, however it was cut."""
        self._total += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        self._show(data)

    def finish(self) -> tuple[str, bool]:
        """(output, replaced): everything, or the head, a line that says how much is left out, and the tail."""
        self._show(b"", final=True)
        kept = len(self._head) + min(len(self._tail), TAIL_BYTES)
        if kept == self._total:
            return decode(bytes(self._head) + bytes(self._tail))
        head = without_cut_end(bytes(self._head))
        tail = without_cut_start(bytes(self._tail[-TAIL_BYTES:]))
        left_out = self._total - len(head) - len(tail)
        (first, first_replaced), (last, last_replaced) = decode(head), decode(tail)
        return f"{first}\n[… {left_out:,} bytes left out …]\n{last}", first_replaced or last_replaced

    def _show(self, data: bytes, *, final: bool = False) -> None:
        if self._live_left <= 0:
            return
        text = clean(self._decoder.decode(data, final))[0]
        if text:
            self._emit(text[: self._live_left])
        self._live_left -= len(text)


def decode(data: bytes) -> tuple[str, bool]:
    """Text that can be stored, and whether a byte of it had to be replaced (A6)."""
    try:
        text, broken = data.decode("utf-8"), False
    except UnicodeDecodeError:
        text, broken = data.decode("utf-8", "replace"), True
    text, replaced = clean(text)
    return text, replaced or broken


def without_cut_end(data: bytes) -> bytes:
    """Leave out the beginning of a character whose rest was cut off."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def without_cut_start(data: bytes) -> bytes:
    """Leave out the end of a character whose beginning was cut off."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
