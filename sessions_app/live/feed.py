"""The session list's feed: what changed in whose list, encoded once for everybody who has it there."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.live import frames, standing
from sessions_app.live.client import Client
from sessions_app.live.presence import People
from sessions_app.live.threads import Pool, in_thread
from sessions_app.log import watching

DEBOUNCE_S: Final = 0.2
AT_ONCE: Final = 200

log = logging.getLogger(__name__)


class Watchers(Protocol):
    """Who can say who watches a session."""

    async def people_of_sessions(self, sessions: Sequence[str]) -> Mapping[str, People]: ...


@dataclass(eq=False, slots=True)
class Reader(Client):
    """A client of the list feed. `shown` are the sessions it was told of, so that it also hears when one is lost."""

    shown: set[str] = field(default_factory=set)


class Feed:
    """All clients of the list feed in this process. `seen` are the heads that the slow poll has found of late."""

    def __init__(self, watchers: Watchers) -> None:
        self.clients: set[Reader] = set()
        self._watchers = watchers
        self._dirty: set[str] = set()
        self._tell_at = 0.0
        self._telling: asyncio.Task[None] | None = None
        self._since: datetime | None = None
        self.seen: dict[str, int] = {}

    async def join(self, reader: Reader) -> None:
        """Show the reader the sessions that changed last, then every change."""
        self.clients.add(reader)
        mine = await in_thread(Pool.REPLAYS, watching.sessions_of, str(reader.principal.person), AT_ONCE)
        await self._send(mine, [reader])
        reader.caught_up = True

    def leave(self, reader: Reader) -> None:
        self.clients.discard(reader)

    def changed(self, session: str) -> None:
        """A session's row has changed, or who watches it."""
        if not self.clients:
            return
        if not self._dirty:
            self._tell_at = time.monotonic() + DEBOUNCE_S
        self._dirty.add(session)

    def tick(self) -> None:
        """Tell of what changed, once the debounce is over and the last telling is done."""
        if self._dirty and time.monotonic() >= self._tell_at and self._telling is None:
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        dirty, self._dirty = self._dirty, set()
        try:
            await self._send(sorted(dirty), list(self.clients))
        except (psycopg.Error, Refused, OSError) as error:
            log.warning("the session list cannot be read, trying again: %s", error)
            self._dirty |= dirty
            self._tell_at = time.monotonic() + 1
        finally:
            self._telling = None

    async def _send(self, sessions: Sequence[str], readers: Sequence[Reader]) -> None:
        rows, who, places = await in_thread(Pool.HUB, _read, sessions)
        people = await self._watchers.people_of_sessions(sessions)
        for session in sessions:
            row, allowed = rows.get(session), who[session]
            said = {"t": "session", **row, "people": people[session]} if row is not None else None
            encoded: dict[tuple[bool, bool, str], frames.Frame] = {}
            for reader in readers:
                person = str(reader.principal.person)
                if said is not None and person in allowed:
                    pinned, archived = places.get((session, person), (False, False))
                    own = (pinned, archived, allowed[person])
                    if own not in encoded:
                        mine = {"pinned": pinned, "archived": archived, "role": allowed[person]}
                        encoded[own] = frames.frame({**said, **mine})
                    reader.shown.add(session)
                    reader.send(encoded[own])
                elif session in reader.shown:
                    reader.shown.discard(session)
                    reader.send(frames.frame({"t": "session", "id": session, "gone": True}))

    async def poll(self) -> None:
        """The slow poll behind `steerweb:list`: sessions whose log has grown since the last look."""
        if not self.clients:
            self._since = None
            return
        if self._since is None:
            self._since, self.seen = await in_thread(Pool.HUB, watching.newest_activity), {}
        found = await in_thread(Pool.HUB, watching.changed_since, self._since)
        for one in found:
            if self.seen.get(one.session) != one.head:
                self.changed(one.session)
        self.seen = {one.session: one.head for one in found}
        self._since = max([self._since, *(one.active_at for one in found)])

    def beat(self, now: str | None) -> None:
        """A sign of life; a list has no seq."""
        beat = frames.beat(0, now)
        for reader in self.clients:
            reader.send(beat)

    async def check_standing(self) -> None:
        """Close the sockets of readers who are signed out."""
        try:
            await standing.check_signed_in(list(self.clients))
        except (psycopg.Error, Refused, OSError) as error:
            log.warning("who may read the session list cannot be checked: %s", error)


def _read(
    sessions: Sequence[str],
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]], dict[tuple[str, str], tuple[bool, bool]]]:
    return watching.list_rows(sessions), watching.readers(sessions), watching.places(sessions)
