"""What calls declared to run on in the background: kept past their turns until they end, and told of then (E13)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sessions_app.worker.background_log import BackgroundLog
from sessions_app.worker.warden.running import RunningCall
from sessions_app.worker.warden.shapes import CallSpec, KilledBy, Process, WardenError


@dataclass(frozen=True, slots=True)
class BackgroundNews:
    """A kept call has ended, by itself or killed; the fields are those of its `CallSpec` and its `Exit`."""

    session: str
    loop: str
    turn: str
    call: str
    ended: list[Process]
    surviving: list[Process]
    code: int | None
    signal: int | None
    killed_by: KilledBy | None


class Keeper(Protocol):
    """Who takes calls over that run on."""

    def running(self, session: str) -> list[tuple[str, str]]:
        """(turn, call) of what that session keeps running here, oldest first."""
        ...

    def keep(self, spec: CallSpec, call: RunningCall, log: BackgroundLog) -> None:
        """Take over a call that the warden keeps already, and the log its output goes to."""
        ...


class Background:
    """The kept calls of one worker process, on its event loop.

    `on_ended` is told of each one's end, once, however it came; not when the warden itself is gone (J6: the worker
    exits then). Calls are named by (turn, call): a call's id alone may recur in another session.
    """

    def __init__(self, on_ended: Callable[[BackgroundNews], None]) -> None:
        self._on_ended = on_ended
        self._kept: dict[RunningCall, CallSpec] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, spec: CallSpec, call: RunningCall, log: BackgroundLog) -> None:
        """Take over a call that the warden keeps already, and the log its output goes to."""
        self._kept[call] = spec
        task = asyncio.get_running_loop().create_task(self._see_through(spec, call, log))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def kill(self, turn: str, call: str) -> None:
        """Ask the warden to end a kept call; one that is not kept here needs nothing."""
        for running, spec in self._kept.items():
            if (spec.turn, spec.call) == (turn, call):
                running.kill()

    def running(self, session: str) -> list[tuple[str, str]]:
        """(turn, call) of what that session keeps running here, oldest first."""
        return [(spec.turn, spec.call) for spec in self._kept.values() if spec.session == session]

    async def end_all(self) -> None:
        """Have all of them ended; returns when each one's end was told."""
        while self._tasks:
            for running in self._kept:
                running.kill()
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _see_through(self, spec: CallSpec, call: RunningCall, log: BackgroundLog) -> None:
        try:
            end = await call.wait()
        except WardenError:
            return
        finally:
            del self._kept[call]
            log.close()
        self._on_ended(
            BackgroundNews(
                session=spec.session,
                loop=spec.loop,
                turn=spec.turn,
                call=spec.call,
                ended=end.ended,
                surviving=end.surviving,
                code=end.code,
                signal=end.signal,
                killed_by=end.killed_by,
            )
        )
