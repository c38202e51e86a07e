"""Frames between a worker and its warden: two lengths, an orjson header with an `op`, and raw bytes (tool output)."""

import struct
from typing import Any, Final

import orjson

MAX_HEADER: Final = 16 * 1024 * 1024
MAX_BODY: Final = 1024 * 1024
_LENGTHS: Final = struct.Struct("!II")

Header = dict[str, Any]


class WireError(ValueError):
    """Bytes that are no frame of ours; the line cannot be used any more."""


def pack(header: Header, body: bytes = b"") -> bytes:
    """One frame as bytes."""
    encoded = orjson.dumps(header)
    return _LENGTHS.pack(len(encoded), len(body)) + encoded + body


class Unpacker:
    """Cuts a stream of bytes into frames, however it was chopped on the way."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[tuple[Header, bytes]]:
        """The frames that are complete now; raises `WireError` on nonsense."""
        self._pending += data
        frames: list[tuple[Header, bytes]] = []
        at = 0
        while len(self._pending) - at >= _LENGTHS.size:
            header_length, body_length = _LENGTHS.unpack_from(self._pending, at)
            if header_length > MAX_HEADER or body_length > MAX_BODY:
                raise WireError(f"a frame of {header_length} + {body_length} bytes")
            start = at + _LENGTHS.size
            middle, end = start + header_length, start + header_length + body_length
            if len(self._pending) < end:
                break
            frames.append((_header(bytes(self._pending[start:middle])), bytes(self._pending[middle:end])))
            at = end
        del self._pending[:at]
        return frames


def _header(encoded: bytes) -> Header:
    try:
        header = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        raise WireError(str(error)) from error
    if not isinstance(header, dict) or not isinstance(header.get("op"), str):
        raise WireError("a frame without an op")
    return header
