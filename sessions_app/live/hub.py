"""One hub per web process: it hears Redis once for all its clients, passes on what it hears, and keeps time.

Everything here runs in the process's event loop, which is Daphne's.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import orjson
import psycopg

from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.live import frames, standing
from sessions_app.live.attendance import Attendance
from sessions_app.live.client import Client
from sessions_app.live.clock import DatabaseClock
from sessions_app.live.counters import counters
from sessions_app.live.feed import Feed
from sessions_app.live.hearing import Hearing
from sessions_app.live.poll import Poll
from sessions_app.live.presence import People
from sessions_app.live.threads import Pool, in_thread
from sessions_app.live.watch import Watch
from sessions_app.log import stream, watching
from sessions_app.log.bell import LIST_CHANNEL, SESSION_CHANNEL
from sessions_app.log.stream import Piece

TICK_S: Final = 0.1
PACE_S: Final = 1.0
BEAT_S: Final = 15.0
STANDING_S: Final = 5.0
LINGER_S: Final = 5.0
"""How long a session is watched on after its last client, who may only be reconnecting."""
DELAYED_S: Final = 1.0
"""How long Redis may be away before people are told; most reconnections are over by then."""
PRESENCE_S: Final = 0.3
"""How long a `hello` waits to hear who watches in other processes; it comes later where Redis is slow."""
AGAIN_S: Final = 1.0

log = logging.getLogger(__name__)


class Hub:
    """Watched sessions by id, the list feed, and the loops that serve them."""

    def __init__(self, redis_url: str) -> None:
        self.redis_url = redis_url
        self.watches: dict[str, Watch] = {}
        self.hearing = Hearing(redis_url, LIST_CHANNEL, self._heard, self._turned)
        self.attendance = Attendance(redis_url)
        self.feed = Feed(self)
        self.clock = DatabaseClock()
        self.users = 0
        self.delayed = False
        self._turned_at = time.monotonic()
        self._poll = Poll(self.watches, self.hearing, self.feed, self.clock)
        self._channels: dict[str, str] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for loop in (self.hearing.run, self._poll.run, self._keep_time):
            self.spawn(_for_ever(loop))

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watch in self.watches.values():
            watch.close()
        await self.attendance.close(list(self.watches))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside everything else, until the hub stops; what it raises is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the hub failed", exc_info=error)

    # Clients

    @contextlib.asynccontextmanager
    async def watching(self, session: str) -> AsyncIterator[Watch]:
        """Watch a session; Refused `session_not_found`, or an error of the database."""
        watch = self.watches.get(session)
        if watch is None:
            watch = self.watches[session] = Watch(session)
            self._channels[SESSION_CHANNEL.format(session)] = session
            self._opening[session] = asyncio.create_task(self._open(watch))
            self._opening[session].add_done_callback(_seen)
        watch.users += 1
        try:
            await asyncio.shield(self._opening[session])
            yield watch
        finally:
            watch.users -= 1
            watch.idle_since = time.monotonic()

    async def _open(self, watch: Watch) -> None:
        """Hear the session first, then read where it stands: nothing falls between (L1)."""
        try:
            await self.hearing.want(SESSION_CHANNEL.format(watch.session))
            head, state, pieces = await in_thread(Pool.HUB, _where_it_stands, watch.session)
            watch.begin(head, state, pieces)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRESENCE_S):
                    await self.attendance.refresh([watch])
        except BaseException:
            self._forget(watch)
            raise

    def _forget(self, watch: Watch) -> None:
        if self.watches.get(watch.session) is watch:
            del self.watches[watch.session], self._opening[watch.session]
            del self._channels[SESSION_CHANNEL.format(watch.session)]
            self.spawn(self.hearing.unwant(SESSION_CHANNEL.format(watch.session)))
        watch.close()

    def join(self, watch: Watch, client: Client) -> None:
        """From now on what comes is for this client too; its `hello` has to be sent before the next await."""
        watch.clients.add(client)
        counters.clients_joined += 1
        self.attendance.changed(watch)

    def leave(self, watch: Watch, client: Client) -> None:
        """The client is gone."""
        watch.clients.discard(client)
        self.attendance.changed(watch)

    async def people_of_sessions(self, sessions: Sequence[str]) -> Mapping[str, People]:
        """Who watches each of these sessions, watched here or not."""
        return await self.attendance.people_of_sessions(sessions, self.watches)

    # What is heard

    def _heard(self, channel: str, data: bytes) -> None:
        try:
            message = orjson.loads(data)
            if channel == LIST_CHANNEL:
                self.feed.changed(message["id"])
            elif (watch := self.watches.get(self._channels.get(channel, ""))) is not None:
                self._heard_of(watch, message)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            log.exception("a message of %s is not what this version sends", channel)

    def _heard_of(self, watch: Watch, message: Mapping[str, Any]) -> None:
        if message["k"] == "presence":
            self.attendance.heard(watch, message.get("by"))
        else:
            watch.hear(message)
            self._after(watch)

    def _after(self, watch: Watch) -> None:
        if watch.members_changed:
            watch.members_changed = False
            self.spawn(self._check_standing(watch))

    def _turned(self, up: bool) -> None:
        """Deaf, or hearing again: either way something may have been missed, so look at once."""
        self._poll.soon()
        self._turned_at = time.monotonic()
        if up:
            for watch in self.watches.values():
                self.attendance.changed(watch)

    # Time

    async def _keep_time(self) -> None:
        now = time.monotonic()
        pace_at, beat_at, standing_at = now + PACE_S, now + BEAT_S, now + STANDING_S
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self._each_tick(now)
            if now >= pace_at:
                pace_at = now + PACE_S
                self._each_second(now)
            if now >= beat_at:
                beat_at = now + BEAT_S
                self._beat()
            if now >= standing_at:
                standing_at = now + STANDING_S
                self.spawn(self._check_everybody())

    def _each_tick(self, now: float) -> None:
        for watch in self.watches.values():
            watch.pay_owed()
            self._after(watch)
        self.feed.tick()
        for work in self.attendance.due(self.watches.values(), now):
            self.spawn(work)

    def _each_second(self, now: float) -> None:
        delayed = not self.hearing.up and now - self._turned_at > DELAYED_S
        if delayed != self.delayed:
            self.delayed = delayed
            for watch in self.watches.values():
                watch.ephemeral(frames.delayed(delayed))
        for watch in list(self.watches.values()):
            for client in watch.clients:
                client.check_pace(now)
            if not watch.users and now - watch.idle_since > LINGER_S:
                self._forget(watch)
        for client in self.feed.clients:
            client.check_pace(now)

    def _beat(self) -> None:
        """A client in its replay is told where that is: a head far ahead would look to it like lost events."""
        now = self.clock.now()
        for watch in self.watches.values():
            beat = frames.beat(watch.head, now)
            for client in watch.clients:
                client.send(beat if client.caught_up else frames.beat(client.cursor, now))
        self.feed.beat(now)

    # Who may still be here

    async def _check_everybody(self) -> None:
        for watch in list(self.watches.values()):
            await self._check_standing(watch)
        await self.feed.check_standing()

    async def _check_standing(self, watch: Watch) -> None:
        try:
            await standing.check(watch.session, list(watch.clients))
        except (psycopg.Error, Refused, OSError) as error:
            log.warning("who may watch %s cannot be checked: %s", watch.session, error)


def _where_it_stands(session: str) -> tuple[int, dict[str, Any], list[Piece]]:
    opening = watching.opening(session)
    if opening is None:
        raise Refused("session_not_found", NO_SESSION)
    return *opening, stream.read_running(session)


def _seen(opening: asyncio.Task[None]) -> None:
    """Whoever waited for it got its error; nobody may have."""
    if not opening.cancelled():
        opening.exception()


async def _for_ever(loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A bug in one of the hub's loops must not leave every client of the process deaf."""
    while True:
        try:
            await loop()
        except Exception:
            log.exception("a loop of the hub failed and begins again")
        await asyncio.sleep(AGAIN_S)
