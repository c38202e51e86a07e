"""Keeps each watched session's `presence` frame true: debounced, refreshed, and merged over web processes."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from sessions_app.live import frames
from sessions_app.live.presence import REFRESH_S, People, Presence, Seat, people_of, seat
from sessions_app.live.watch import Watch

DEBOUNCE_S: Final = 0.2
FAREWELL_S: Final = 1.0


class Attendance:
    """Who sits in which watched session. Changes are told after `DEBOUNCE_S`, everything again each `REFRESH_S`."""

    def __init__(self, redis_url: str) -> None:
        self._presence = Presence(redis_url)
        self._due: dict[str, tuple[float, bool]] = {}
        self._refresh_at = time.monotonic() + REFRESH_S
        self._busy: set[str] = set()

    def changed(self, watch: Watch) -> None:
        """Somebody came or went in this process, or looks away."""
        self._plan(watch.session, True)

    def heard(self, watch: Watch, process: str | None) -> None:
        """Another process says that somebody came or went there."""
        if process != self._presence.process:
            self._plan(watch.session, False)

    def _plan(self, session: str, ours: bool) -> None:
        at, before = self._due.get(session, (time.monotonic() + DEBOUNCE_S, False))
        self._due[session] = (at, before or ours)

    def due(self, watches: Iterable[Watch], now: float) -> list[Coroutine[Any, Any, None]]:
        """What is to be done now."""
        by_session = {watch.session: watch for watch in watches}
        work: list[Coroutine[Any, Any, None]] = []
        for session, (at, ours) in list(self._due.items()):
            if session not in by_session:
                del self._due[session]
            elif at <= now and session not in self._busy:
                del self._due[session]
                work.append(self._tell(by_session[session], ours))
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH_S
            work.append(self._again(list(by_session.values())))
        return work

    async def _tell(self, watch: Watch, ours: bool) -> None:
        self._busy.add(watch.session)
        try:
            if ours:
                self._show(watch)  # our own people see it now, however long Redis takes
                await self._presence.publish(watch.session, self.seats(watch), changed=True)
            await self.refresh([watch])
        finally:
            self._busy.discard(watch.session)

    async def _again(self, watches: Sequence[Watch]) -> None:
        for watch in watches:
            if watch.clients:
                await self._presence.publish(watch.session, self.seats(watch), changed=False)
        await self.refresh(watches)

    async def refresh(self, watches: Sequence[Watch]) -> None:
        """Ask what other processes say, and show it."""
        if not watches:
            return
        found = await self._presence.elsewhere([watch.session for watch in watches])
        for watch in watches:
            watch.elsewhere = found[watch.session]
            self._show(watch)

    @staticmethod
    def seats(watch: Watch) -> list[Seat]:
        return [
            seat(client.principal, client.role, looking=client.looking) for client in watch.clients if not client.gone
        ]

    def people(self, watch: Watch) -> People:
        """Everybody who watches a session, as far as this process knows."""
        return people_of([*self.seats(watch), *watch.elsewhere])

    async def people_of_sessions(self, sessions: Sequence[str], watches: dict[str, Watch]) -> dict[str, People]:
        """Everybody who watches each of these sessions, watched here or not."""
        found = await self._presence.elsewhere(sessions)
        return {
            session: people_of([*(self.seats(watches[session]) if session in watches else ()), *found[session]])
            for session in sessions
        }

    def _show(self, watch: Watch) -> None:
        people = self.people(watch)
        if people != watch.people:
            watch.people = people
            watch.ephemeral(frames.presence(people))

    async def close(self, sessions: Sequence[str]) -> None:
        """Whoever watched here does so no more; what Redis does not hear in time expires there."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await asyncio.gather(*(self._presence.publish(session, [], changed=True) for session in sessions))
        await self._presence.close()
