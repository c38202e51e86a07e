"""The slow poll behind the bell: what Redis does not bring comes a second later, or a third of one while it is away."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.live.clock import DatabaseClock
from sessions_app.live.feed import Feed
from sessions_app.live.hearing import Hearing
from sessions_app.live.threads import Pool, in_thread
from sessions_app.live.watch import Watch
from sessions_app.log import read, stream, watching
from sessions_app.log.stream import Size

POLL_S: Final = 1.0
POLL_DEAF_S: Final = 0.3
IN_FLIGHT_S: Final = 0.05
"""How long an event that the poll has found may still be on its way by the bell."""

log = logging.getLogger(__name__)


class Poll:
    """Compares all watched sessions with the database, and the list feed with the list."""

    def __init__(self, watches: Mapping[str, Watch], hearing: Hearing, feed: Feed, clock: DatabaseClock) -> None:
        self._watches = watches
        self._hearing = hearing
        self._feed = feed
        self._clock = clock
        self._at_once = asyncio.Event()

    def soon(self) -> None:
        """Do not wait for the next second."""
        self._at_once.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S if self._hearing.up else POLL_DEAF_S):
                    await self._at_once.wait()
            self._at_once.clear()
            try:
                await self._sessions()
                await self._feed.poll()
            except (psycopg.Error, Refused, OSError) as error:
                log.warning("the database cannot be polled: %s", error)

    async def _sessions(self) -> None:
        sessions = [session for session, watch in self._watches.items() if watch.opened]
        if not sessions:
            return
        heads, sizes, now = await in_thread(Pool.HUB, _ask, sessions)
        self._clock.saw(now)
        for session, head in heads.items():
            if (watch := self._watches.get(session)) is not None:
                self._compare(watch, head)
        for session in {size.session for size in sizes if self._behind(size)}:
            if (watch := self._watches.get(session)) is not None:
                await watch.read_streams()

    def _compare(self, watch: Watch, head: int) -> None:
        if head <= watch.head:
            return
        watch.known = max(watch.known, head)
        if self._hearing.up:
            asyncio.get_running_loop().call_later(IN_FLIGHT_S, watch.missed, head)
        else:
            watch.look_again()

    def _behind(self, size: Size) -> bool:
        watch = self._watches.get(size.session)
        return watch is not None and watch.streams.behind(size.key, size.attempt, size.octets)


def _ask(sessions: Sequence[str]) -> tuple[dict[str, int], list[Size], datetime]:
    return read.heads(sessions), stream.sizes(sessions), watching.now()
