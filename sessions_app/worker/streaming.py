"""Streamed text on its way out: deltas to the bell as they come, the whole text beside the log every 250 ms (L2).

Pieces pile up while a batch is on its way and leave merged with the next one, so a slow Redis or a fast model costs
fewer, larger deltas, never memory or order. Secrets are masked before anything leaves (A6).
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.log import bell, secrets, stream
from sessions_app.log.stream import Piece

FLUSH_S: Final = 0.02
SAVE_S: Final = 0.25
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Stream:
    """One growing text of a step: `kind` is text, reasoning or tool. `sent` and `saved` count code points.

    `tail` is its end that has not left, because it may be the beginning of a secret.
    """

    session: str
    loop: str
    turn: str
    step: int
    attempt: int
    kind: str
    call: str = ""
    parts: list[str] = field(default_factory=list)
    length: int = 0
    unsent: list[str] = field(default_factory=list)
    sent: int = 0
    saved: int = 0
    tail: str = ""

    def add(self, text: str) -> None:
        if self.length > stream.LIVE_CHARS:  # what is beyond the limit makes the note
            return
        text = self.tail + text
        settled = secrets.settled(text)
        self.tail = text[settled:]
        self._leave(text[:settled])

    def finish(self) -> None:
        """Nothing follows: what was held back is no secret's beginning."""
        rest, self.tail = self.tail, ""
        self._leave(rest)

    def _leave(self, text: str) -> None:
        if text:
            text = secrets.mask(text)
            self.parts.append(text)
            self.unsent.append(text)
            self.length += len(text)

    def text(self) -> str:
        """All of it, the end that is held back too."""
        return self._left() + secrets.mask(self.tail)

    def _left(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    def take_delta(self) -> dict[str, object] | None:
        """What has come since the last delta, as a frame."""
        if not self.unsent:
            return None
        text = "".join(self.unsent)
        self.unsent.clear()
        frame: dict[str, object] = {
            "t": "delta", "loop": self.loop, "turn": self.turn, "step": self.step, "attempt": self.attempt,
            "kind": self.kind, "offset": self.sent, "text": text,
        }  # fmt: skip
        if self.call:
            frame["call"] = self.call
        self.sent += len(text)
        return frame

    def piece(self) -> Piece:
        return Piece(
            self.session, self.loop, self.turn, self.step, self.attempt, self.kind, stream.clip(self._left()), self.call
        )


class Streams:
    """All growing texts of a worker. Belongs to its event loop; `run` is its one background task."""

    def __init__(self) -> None:
        self._live: list[Stream] = []
        self._dirty = asyncio.Event()

    def open(self, new: Stream) -> Stream:
        self._live.append(new)
        return new

    def add(self, target: Stream, text: str) -> None:
        """More text; leaves within a few milliseconds."""
        if text:
            target.add(text)
            self._dirty.set()

    def close(self, gone: Stream) -> None:
        """Its step is over: the event has the whole text."""
        gone.finish()
        if gone in self._live:
            self._live.remove(gone)

    async def run(self) -> None:
        """Publish and save until cancelled."""
        clock = asyncio.get_running_loop().time
        saved_at = 0.0
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            frames = [(live.session, frame) for live in self._live if (frame := live.take_delta()) is not None]
            if frames:
                await asyncio.to_thread(bell.deltas, frames)
            if clock() - saved_at >= SAVE_S:
                saved_at = clock()
                await self._save()
            elif any(live.saved < live.length for live in self._live):
                asyncio.get_running_loop().call_later(SAVE_S, self._dirty.set)
            await asyncio.sleep(FLUSH_S)

    async def _save(self) -> None:
        behind = [live for live in self._live if live.saved < live.length]
        if not behind:
            return
        lengths = [live.length for live in behind]
        try:
            await asyncio.to_thread(stream.save, [live.piece() for live in behind])
        except (Refused, psycopg.Error) as error:
            _log.warning("stream text was not saved: %s", error)
            return
        for live, length in zip(behind, lengths, strict=True):
            live.saved = length
