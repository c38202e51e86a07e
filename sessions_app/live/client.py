"""One socket as the hub sees it: where it is in the log, what it may see, and how far behind it may fall (L3)."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sessions_app.live import frames
from sessions_app.live.counters import counters
from sessions_app.live.entries import Entry
from sessions_app.live.frames import Frame
from sessions_app.live.streams import Fresh, Streams
from sessions_app.live.wire import Wire
from sessions_app.log.frames import Audience, audience_of
from sessions_app.log.stream import Key
from sessions_app.people.principals import Principal
from sessions_app.people.roles import CAN, Role

MERGE_ABOVE: Final = 256 * 1024
"""Waiting bytes above which deltas are held back and merged."""
DROP_ABOVE: Final = 4 * 1024 * 1024
"""Waiting bytes above which the client is told to resume from its cursor."""
STALL_S: Final = 10.0
"""How long a client may take nothing at all while something waits for it."""
REPLAY_ABOVE: Final = 1024 * 1024
"""Waiting bytes above which a replay waits for the client."""
ROOM_PAUSE_S: Final = 0.02
HELD_FRAMES: Final = 64


@dataclass(frozen=True, slots=True)
class Filters:
    """What a client asked for (L4): types and loops of events, and whether, or for which loops, it wants live text.
    None is everything; what belongs to the whole session passes the loops' filter."""

    types: frozenset[str] | None = None
    loops: frozenset[str] | None = None
    live: bool = True
    live_loops: frozenset[str] | None = None

    def event(self, event: Entry) -> bool:
        if self.types is not None and event.type not in self.types:
            return False
        return self.loops is None or event.loop is None or event.loop in self.loops

    def ephemeral(self, loop: str | None) -> bool:
        return self.live and (self.live_loops is None or loop is None or loop in self.live_loops)


@dataclass(eq=False, slots=True)
class Client:
    """A connected client. `cursor` is the seq of the last event that was passed on; until `caught_up`, and while the
    client is behind, `owed` says from where on each stream's text is due to it. `looking`: its page is visible."""

    wire: Wire
    principal: Principal
    role: Role
    cursor: int = 0
    filters: Filters = field(default_factory=Filters)
    caught_up: bool = False
    gone: bool = False
    looking: bool = True
    owed: dict[Key, tuple[int, int]] = field(default_factory=dict)
    held: list[Frame] = field(default_factory=list)
    _taken: int = 0
    _moved_at: float = field(default_factory=time.monotonic)

    @property
    def audience(self) -> Audience:
        return audience_of(self.role)

    def you(self) -> dict[str, Any]:
        """Who the client is here, and what it may do."""
        actor = self.principal.actor
        return {"id": actor.id, "name": actor.name, "role": self.role, "can": sorted(CAN[self.role])}

    # Passing on

    def send(self, *to_send: Frame) -> None:
        """Pass frames on, unless so much waits already that the client has to resume."""
        if self.gone or not to_send:
            return
        if self.wire.waiting() > DROP_ABOVE:
            self.fall_behind()
        else:
            self.wire.send(to_send)

    def events(self, entries: Sequence[Entry]) -> None:
        """Pass on those events the client does not have, in order; each once."""
        fresh = [entry for entry in entries if entry.seq > self.cursor]
        self.send(*(entry.frame(self.audience) for entry in fresh if self.filters.event(entry)))
        if fresh and not self.gone:
            self.cursor = fresh[-1].seq

    def delta(self, fresh: Fresh, encoded: Frame) -> None:
        """Pass a delta on, or hold it back to be merged with those after it: never dropped while its step runs."""
        if self.gone or not self.filters.ephemeral(fresh.loop):
            return
        if self.caught_up and not self.owed and self.wire.waiting() <= MERGE_ABOVE:
            self.wire.send((encoded,))
            return
        counters.deltas_merged += 1
        since = self.owed.get(fresh.key)
        if since is None or since[0] != fresh.attempt:
            self.owed[fresh.key] = (fresh.attempt, fresh.offset)

    def ephemeral(self, encoded: Frame, loop: str | None = None) -> None:
        """Pass another live frame on, after the replay if that is not over."""
        if self.caught_up:
            if self.filters.ephemeral(loop):
                self.send(encoded)
        elif self.filters.ephemeral(loop) and len(self.held) < HELD_FRAMES:
            self.held.append(encoded)

    def pay(self, streams: Streams) -> None:
        """Send the text that is owed, one delta for each stream, once the client has taken most of what waited."""
        if self.gone or not self.caught_up or self.wire.waiting() > MERGE_ABOVE // 2:
            return
        owed, self.owed = self.owed, {}
        merged = (streams.since(key, attempt, offset) for key, (attempt, offset) in owed.items())
        self.send(*(frames.frame(fresh.message()) for fresh in merged if fresh is not None))

    def go_live(self, streams: Streams) -> None:
        """The replay is over: say so, then everything that was held back meanwhile."""
        self.caught_up = True
        held, self.held = self.held, []
        self.send(frames.caught_up(self.cursor), *held)
        self.pay(streams)

    async def room(self) -> None:
        """Wait until a replay may go on: no server tells us when a client has taken what waited, so we look."""
        full = self.wire.waiting() > REPLAY_ABOVE
        while full and not self.gone:
            await asyncio.sleep(ROOM_PAUSE_S)
            full = self.wire.waiting() > REPLAY_ABOVE

    # Ending

    def fall_behind(self) -> None:
        """The client takes less than it is sent: it resumes from its cursor with a new connection (L3)."""
        counters.clients_dropped_slow += 1
        self.end(frames.TOO_SLOW, frames.resync(self.cursor))

    def end(self, code: int, last: Frame | None = None) -> None:
        """Close the client's socket; it gets nothing more."""
        if self.gone:
            return
        self.gone = True
        self.owed.clear()
        self.held.clear()
        if last is not None:
            self.wire.send((last,))
        self.wire.close(code)

    def check_pace(self, now: float) -> None:
        """Once a second: a client that has taken nothing for `STALL_S` while something waits has stalled."""
        taken = self.wire.taken()
        if taken != self._taken or not self.wire.waiting():
            self._taken, self._moved_at = taken, now
        elif now - self._moved_at > STALL_S:
            self.fall_behind()
