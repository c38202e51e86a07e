"""A client of the hub whose wire only records, and can be made to look full."""

from collections.abc import Sequence
from typing import Any

import orjson

from sessions_app.live.client import Client, Filters
from sessions_app.live.frames import Frame
from sessions_app.people.principals import Principal
from sessions_app.people.roles import Role


class RecordingWire:
    """Keeps what is sent; `full` is what it says is waiting."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.code: int | None = None
        self.full = 0
        self.has_taken = 0

    def send(self, frames: Sequence[Frame]) -> None:
        assert self.code is None, "nothing is sent behind a close"
        self.frames += [orjson.loads(frame.payload) for frame in frames]

    def waiting(self) -> int:
        return self.full

    def taken(self) -> int:
        return self.has_taken

    def close(self, code: int) -> None:
        self.code = code

    def release(self) -> None:
        return


class Watcher:
    """A recording client with questions a test asks."""

    def __init__(self, principal: Principal, role: Role = "owner", after: int = 0, **filters: Any) -> None:
        self.wire = RecordingWire()
        self.client = Client(self.wire, principal, role, after, Filters(**filters))

    def frames(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.wire.frames if frame["t"] == kind]

    def seqs(self) -> list[int]:
        return [frame["seq"] for frame in self.frames("event")]

    def text(self, kind: str = "text", start: str = "") -> str:
        """The deltas of a kind put together; a hole or a repetition fails."""
        text = start
        for frame in self.frames("delta"):
            if frame["kind"] == kind:
                assert frame["offset"] == len(text), (frame, text)
                text += frame["text"]
        return text
