"""Frames that leave by the socket: encoded once, and laid out for the wire once, however many clients get them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

PROTOCOL: Final = 1

NOT_SIGNED_IN: Final = 4401
NOT_ALLOWED: Final = 4403
NOT_FOUND: Final = 4404
TOO_SLOW: Final = 4408
BAD_REQUEST: Final = 1002
FLOOD: Final = 1008
BROKEN: Final = 1011
TRY_AGAIN: Final = 1013


class Frame:
    """One JSON text frame: `payload` is its bytes, `wire` the same with the websocket header (RFC 6455, unmasked)."""

    __slots__ = ("_text", "_wire", "payload")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self._wire: bytes | None = None
        self._text: str | None = None

    def __len__(self) -> int:
        return len(self.payload)

    @property
    def wire(self) -> bytes:
        if self._wire is None:
            self._wire = _header(len(self.payload)) + self.payload
        return self._wire

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = self.payload.decode()
        return self._text


def _header(size: int) -> bytes:
    if size <= 125:
        return bytes((0x81, size))
    if size <= 0xFFFF:
        return b"\x81\x7e" + size.to_bytes(2)
    return b"\x81\x7f" + size.to_bytes(8)


def frame(message: Mapping[str, Any]) -> Frame:
    """Encode a message. Text that UTF-8 cannot hold (a lone surrogate that an error hands back) is escaped."""
    try:
        return Frame(orjson.dumps(message, option=orjson.OPT_UTC_Z))
    except TypeError:
        return Frame(json.dumps(message, default=str).encode())


def hello(**fields: Any) -> Frame:
    """The first frame; `now` in it is the database's time."""
    return frame({"t": "hello", "protocol": PROTOCOL, **fields})


def caught_up(seq: int) -> Frame:
    """Replay is over: everything up to `seq` has been sent, live from here (L1)."""
    return frame({"t": "caught_up", "seq": seq})


def beat(head: int, now: str | None) -> Frame:
    """A sign of life with the newest seq, by which a client notices silence, and the database's time if it is known."""
    return frame({"t": "beat", "head": head} if now is None else {"t": "beat", "head": head, "now": now})


def resync(after: int) -> Frame:
    """This client fell behind; it reconnects from `after` (L3)."""
    return frame({"t": "resync", "after": after})


def presence(people: Sequence[Mapping[str, Any]]) -> Frame:
    return frame({"t": "presence", "people": people})


def delayed(is_delayed: bool) -> Frame:
    """Redis is away: everything still comes, by the slow poll (scenario D33)."""
    return frame({"t": "delayed", "delayed": is_delayed})


def you(about: Mapping[str, Any]) -> Frame:
    """The client's own role has changed."""
    return frame({"t": "you", "you": about})


def ack(command: str, result: Mapping[str, Any]) -> Frame:
    """The command is durable; what comes of it is an event."""
    return frame({"t": "ack", "id": command, "result": result})


def error(
    command: str | None, code: str, detail: str, data: Mapping[str, Any], retry_after: float | None = None
) -> Frame:
    message: dict[str, Any] = {"t": "error", "code": code, "detail": detail, "data": data}
    if command is not None:
        message["id"] = command
    if retry_after is not None:
        message["retry_after"] = retry_after
    return frame(message)
