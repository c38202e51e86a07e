"""One watched session in one web process: its clients, the newest events, and the text of its running steps.

Events come by the bell as a hint. One that continues the sequence is passed on; any other only says how far the log has
grown, and the log is read (L5). So every client gets every event once, in order, whatever the bell loses or repeats.

Nearly everything is plain code of the event loop: between two awaits nothing else runs, and that is what makes "look at
the head, then join" safe.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.live import frames
from sessions_app.live.client import Client
from sessions_app.live.counters import counters
from sessions_app.live.entries import FIRST_PAGE, Entry, entries_after, entry, next_limit, page_after, parts
from sessions_app.live.frames import Frame
from sessions_app.live.presence import People, Seat
from sessions_app.live.streams import Fresh, Streams
from sessions_app.live.threads import Pool, in_thread
from sessions_app.log import stream
from sessions_app.log.stream import Piece

RECENT_EVENTS: Final = 1000
RECENT_BYTES: Final = 4 * 1024 * 1024
REPAIR_PAUSE_S: Final = 0.1
REPAIR_PAUSE_MAX_S: Final = 2.0

log = logging.getLogger(__name__)


class Watch:
    """A session's live state. `head` is the seq of the last event passed on, `known` the highest one heard of; `users`
    counts who needs the watch, also before they are among `clients`; `elsewhere` sits in other processes."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.clients: set[Client] = set()
        self.streams = Streams()
        self.head = 0
        self.known = 0
        self.members_changed = False
        self.opened = False
        self.users = 0
        self.idle_since = 0.0
        self.people: People = []
        self.elsewhere: list[Seat] = []
        self._early: list[Mapping[str, Any]] = []
        self._recent: deque[Entry] = deque()
        self._recent_bytes = 0
        self._repairing: asyncio.Task[None] | None = None

    def begin(self, head: int, state: Mapping[str, Any], pieces: Sequence[Piece]) -> None:
        """Start from what the database says; what the bell brought meanwhile comes after it."""
        self.head, self.known = head, max(head, self.known)
        self.streams.begin(state)
        for piece in stream.newest_attempts(pieces):
            self.streams.saved(piece)
        self.opened = True
        early, self._early = self._early, []
        for message in early:
            self.hear(message)
        self.look_again()

    def hear(self, message: Mapping[str, Any]) -> None:
        """A message of this session's channel; `presence` is the hub's business."""
        if not self.opened:
            self._early.append(message)
        elif message["k"] == "events":
            self._hints(message["events"])
        elif message["k"] == "delta":
            self._pass_on(self.streams.delta(message["frame"]))
            self.look_again()
        elif message["k"] == "frame":
            self.ephemeral(frames.frame(message["frame"]), message["frame"].get("loop"))

    def ephemeral(self, encoded: Frame, loop: str | None = None) -> None:
        """Pass a live frame on to everybody who wants such."""
        for client in self.clients:
            client.ephemeral(encoded, loop)

    def _hints(self, events: Sequence[Mapping[str, Any]]) -> None:
        fresh = [event for event in events if event["seq"] > self.head]
        if not fresh:
            return
        self.known = max(self.known, fresh[-1]["seq"])
        if fresh[0]["seq"] == self.head + 1:
            self.take([entry(event["member"].encode(), event["observer"].encode()) for event in fresh])
        else:
            if self._repairing is None:
                counters.gaps_missed += 1
            self.look_again()

    def take(self, entries: Sequence[Entry]) -> int:
        """Pass on those events that continue the sequence; how many that were."""
        fresh: list[Entry] = []
        for one in entries:
            if one.seq == self.head + 1:
                self.head = one.seq
                fresh.append(one)
                self.streams.event(one.type, one.turn, one.step, one.call)
                self.members_changed |= one.type == "MemberChanged"
                self._remember(one)
        self.known = max(self.known, self.head)
        if fresh:
            for client in self.clients:
                if client.caught_up:
                    client.events(fresh)
        return len(fresh)

    def _remember(self, one: Entry) -> None:
        if one.type == "ContentErased":  # a text that was forgotten is not told from memory (A3); the log has the rest
            self._recent.clear()
            self._recent_bytes = 0
        self._recent.append(one)
        self._recent_bytes += len(one.member)
        while len(self._recent) > RECENT_EVENTS or (self._recent_bytes > RECENT_BYTES and len(self._recent) > 1):
            self._recent_bytes -= len(self._recent.popleft().member)

    def _pass_on(self, fresh: Sequence[Fresh]) -> None:
        for one in fresh:
            encoded = frames.frame(one.message())
            for client in self.clients:
                client.delta(one, encoded)

    # Repairing what the bell did not bring

    def look_again(self) -> None:
        """Read the database if something is known to be missing here; one reader at a time."""
        if self.opened and self._repairing is None and (self.known > self.head or self.streams.gaps()):
            self._repairing = asyncio.create_task(self._repair())

    async def _repair(self) -> None:
        pause = REPAIR_PAUSE_S
        try:
            while self.known > self.head or self.streams.gaps():
                try:
                    await self._read_missing()
                    pause = REPAIR_PAUSE_S
                except (psycopg.Error, Refused, OSError) as error:
                    log.warning("session %s cannot be read, trying again: %s", self.session, error)
                    pause = min(pause * 2, REPAIR_PAUSE_MAX_S)
                if self.streams.gaps() or pause > REPAIR_PAUSE_S:
                    await asyncio.sleep(pause)
        finally:
            self._repairing = None

    async def _read_missing(self) -> None:
        if self.known > self.head:
            found = await in_thread(Pool.HUB, entries_after, self.session, self.head)
            counters.gaps_repaired += self.take(found)
            if not found:
                self.known = self.head  # a bell rings after the commit, so this one was not true
        if self.streams.gaps():
            await self.read_streams()

    def missed(self, head: int) -> None:
        """The poll saw this head a moment ago: if the bell has not brought it since, it will not."""
        if self.head < head and self._repairing is None:
            counters.gaps_missed += 1
            self.look_again()

    async def read_streams(self) -> None:
        """Fill in what is saved of the running streams."""
        pieces = await in_thread(Pool.HUB, stream.read_running, self.session)
        for piece in stream.newest_attempts(pieces):
            self._pass_on(self.streams.saved(piece))

    # Clients

    async def catch_up(self, client: Client) -> None:
        """Replay from the client's cursor, then join it to the live events with neither hole nor repetition (L1)."""
        limit = FIRST_PAGE
        while not client.gone:
            await client.room()
            rest = self._since(client.cursor)
            if rest is None:
                page = await in_thread(Pool.REPLAYS, page_after, self.session, client.cursor, limit, client.audience)
                for part in parts(page):
                    await client.room()
                    client.events(part)
                limit = next_limit(page, limit)
                continue
            first = next(parts(rest), [])
            client.events(first)
            if len(first) == len(rest):
                client.go_live(self.streams)
                return

    def _since(self, cursor: int) -> list[Entry] | None:
        """The events after a cursor that were passed on; None where that goes further back than memory."""
        if cursor >= self.head:
            return []
        if not self._recent or self._recent[0].seq > cursor + 1:
            return None
        return [one for one in self._recent if one.seq > cursor]

    def pay_owed(self) -> None:
        """Send held-back text to the clients that have caught up with the rest."""
        for client in self.clients:
            if client.owed:
                client.pay(self.streams)

    def close(self) -> None:
        """Nobody watches any more."""
        if self._repairing is not None:
            self._repairing.cancel()
