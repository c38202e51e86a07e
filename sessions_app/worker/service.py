"""A worker process: one asyncio loop for all its turns, one warden, one heartbeat, one sweep.

Celery's threads only hand loops over (`offer`) and return. How many turns run is this process's own counter, which a
turn gives up while it waits for an answer or a delegate (G2); it goes on at once when that comes. A worker that loses
its lease or its warden has lost the authority to run anything and exits at once (J6); `up` starts another. One that is
told to end hands its turns over (J4), for as long as the grace lasts; one that is drained takes as long as it takes.
"""

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import psycopg

from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.engine.model_names import Given
from sessions_app.ids import new_id
from sessions_app.keys import stored
from sessions_app.log import db, phases, read, secrets
from sessions_app.log.phases import LEASE_S
from sessions_app.worker.background import Background, BackgroundNews
from sessions_app.worker.heartbeat import Heartbeat
from sessions_app.worker.models.base import ModelError
from sessions_app.worker.models.registry import begin_preload, use_stored_keys
from sessions_app.worker.place import place
from sessions_app.worker.pusher import Pusher
from sessions_app.worker.streaming import Streams
from sessions_app.worker.sweep import Sweep
from sessions_app.worker.turn import TurnRun
from sessions_app.worker.warden.client import Warden
from sessions_app.worker.warden.shapes import SurvivorsNews

P = ParamSpec("P")
R = TypeVar("R")

DROP_S: Final = 5.0
"""How long before the end of the grace a model call is dropped; of a short grace its last half."""
HURRY_S: Final = 1.0
"""The grace that is left when a worker is told to end a second time."""
END_S: Final = 8.0
"""How long after the grace the ends of the last turns may take."""
POLL_S: Final = 1.0
SPARE: Final = 64
"""How many more loops are looked at than there is room for: some may be other workers' to take (J4)."""
ANSWER_POLL_S: Final = 0.2
_RETRY_S: Final = 0.5
_TELLING: Final = "telling"
_log = logging.getLogger(__name__)


class Worker:
    """The worker of this process.

    `capacity`: how many turns at once; `grace_s`: how long a running tool may go on after SIGTERM (J4); `leaving` is
    called once when it is drained, from the heartbeat's thread.
    """

    def __init__(
        self,
        database_url: str,
        data_dir: Path,
        capacity: int,
        grace_s: float,
        leaving: Callable[[], object] | None = None,
    ) -> None:
        self.id = new_id()
        self._leaving = leaving
        self._database_url, self._data_dir, self._capacity = database_url, data_dir, capacity
        self._grace_s = grace_s
        self._ends_at: float | None = None
        self._hurried = False
        self._loop = asyncio.new_event_loop()
        # Each turn may sit in one of these until its provider's library is loaded; the others' stops pass through, too.
        self._loop.set_default_executor(ThreadPoolExecutor(capacity + 8, thread_name_prefix="turns"))
        self._threads = ThreadPoolExecutor(max_workers=24, thread_name_prefix="reports")
        self._runs: dict[str, TurnRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._claiming: set[str] = set()
        self._asked: dict[str, asyncio.Event] = {}
        self._held: set[str] = set()  # turns from before their claim until after their end
        self._open = True
        self.background = Background(self._on_background_ended)
        self.pusher = Pusher()
        self._warden: Warden | None = None
        self._keys: dict[str, Given | None] = {}
        self._told: list[str] = []  # what its warden masks beside its own

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            raise RuntimeError("the worker has not started")
        return self._warden

    def start(self) -> None:
        """Start everything; returns once turns can be taken."""
        threading.Thread(target=self._loop.run_forever, name="turns", daemon=True).start()
        self._call(self._start())
        use_stored_keys(self._stored_key)
        begin_preload()  # after the lease, which is not to wait for it, and before the first turn
        heartbeat = Heartbeat(self.id, self._loop, self.warden.renew, self._give_up, self.drain)
        threading.Thread(target=heartbeat.run, name="heartbeat", daemon=True).start()
        threading.Thread(target=Sweep(self).run, name="sweep", daemon=True).start()
        threading.Thread(target=self.pusher.run, name="pusher", daemon=True).start()

    async def _start(self) -> None:
        self.streams = Streams()
        self._warden = await Warden.start(
            self.id,
            self._database_url,
            LEASE_S,
            on_marked=self._on_marked,
            on_gone=self._give_up,
            on_survivors_ended=self._on_survivors_ended,
        )
        row = phases.WorkerRow(
            self.id, socket.gethostname(), place(), os.getpid(), self.warden.pid, self.warden.isolation
        )
        await self.in_thread(phases.enlist, row)
        self.warden.renew(time.monotonic())
        self._spawn(self.streams.run())
        self._spawn(self._poll_marks())
        self._spawn(self._poll_answers())
        _log.info("worker %s is ready; %s", self.id, self.warden.isolation)

    def _call(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str | None = None) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the worker failed", exc_info=task.exception())

    # -- taking turns

    def offer(self, session: str, loop: str) -> None:
        """A loop may have something to run; callable from any thread, returns at once."""
        self._loop.call_soon_threadsafe(self._consider, session, loop)

    def take(self) -> None:
        """The sweep's part: take what nobody has taken (J3), whatever the broker does."""
        if secrets.learned() != self._told:
            self._told = secrets.learned()
            self.warden.learn(self._told)
        free = self._free()
        if self._open and free > 0:
            for session, loop in phases.runnable_loops(free + SPARE):
                self.offer(session, loop)

    def _stored_key(self, provider: str) -> Given | None:
        """A key that was entered on the page, as it is now, or was before the database went away; blocking."""
        family = stored.family_of(provider)
        if family is None:
            return None
        try:
            self._keys = stored.refresh()
        except (Refused, psycopg.Error) as error:
            _log.warning("the stored keys were not read: %s", error)
        if family in self._keys and self._keys[family] is None:
            raise ModelError("key_missing", stored.UNREADABLE)
        return self._keys.get(family)

    def _free(self) -> int:
        """How many more turns may be taken; those that wait for an answer or a delegate do not count (G2)."""
        return self._capacity - (len(self._held) - len(self._asked))

    def holds(self, turn: str, loop: str) -> bool:
        """Whether this worker claims or runs the turn at this moment; callable from any thread."""
        return turn in self._held or turn in self._runs or loop in self._claiming

    def _consider(self, session: str, loop: str) -> None:
        if not self._open or loop in self._claiming or self._free() <= 0:
            return
        turn = new_id()
        self._claiming.add(loop)
        self._held.add(turn)
        self._spawn(self._hold(session, loop, turn))

    async def _hold(self, session: str, loop: str, turn: str) -> None:
        try:
            ran = await self._run(session, loop, turn)
        finally:
            self._held.discard(turn)  # what the database still has of it then, the sweep ends
        if ran:
            self._consider(session, loop)  # its next input, without a trip through the broker

    async def _run(self, session: str, loop: str, turn: str) -> bool:
        """Claim and run one turn; a loop that another worker has, or that has nothing to run, ends it quietly (J1).

        The turn's id is made before: a claim whose answer was lost is found again by it (A4). One that was handed over
        keeps its own.
        """
        try:
            ready = await self.persistently(self._has_workspace, session)
            claim = await self.persistently(reports.claim, session, loop, self.id, turn, resume=ready)
            if not claim["claimed"]:
                return False
            run = self._runs[claim["turn"]] = TurnRun(self, session, loop, claim)
        except Refused as refused:
            _log.warning("loop %s was not claimed: %s", loop, refused)
            return False
        finally:
            self._claiming.discard(loop)
        if not self._open:  # told to end while it claimed
            run.leave(None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic()))
        try:
            await run.run()
        finally:
            del self._runs[run.turn]
        return True

    # -- stops

    def _on_marked(self, turns: list[str]) -> None:
        for turn in turns:
            run = self._runs.get(turn)
            if run is not None and not run.stop.is_set():
                run.mark()
                self._spawn(run.acknowledge())

    async def _poll_marks(self) -> None:
        """The slow poll behind the stop's bell (L5), also for a mark that came before the claim was known here."""
        while True:
            await asyncio.sleep(POLL_S)
            if self._runs:
                try:
                    self._on_marked(await self.in_thread(phases.marked_among, list(self._runs)))
                except (Refused, psycopg.Error) as error:
                    _log.warning("marks were not read: %s", error)

    # -- gates

    async def answered(self, turn: str) -> None:
        """Wait until the turn's open gate, or its last delegate, is over; both take seconds, so a poll will do."""
        over = self._asked[turn] = asyncio.Event()
        self._spawn(self._take())  # there is room for another one now
        try:
            await over.wait()
        finally:
            del self._asked[turn]

    async def _take(self) -> None:
        try:
            await self.in_thread(self.take)
        except (Refused, psycopg.Error) as error:
            _log.warning("runnable loops were not read: %s", error)

    async def _poll_answers(self) -> None:
        while True:
            await asyncio.sleep(ANSWER_POLL_S)
            asked = dict(self._asked)
            if not asked:
                continue
            try:
                still = await self.in_thread(phases.asked_among, list(asked))
            except (Refused, psycopg.Error) as error:
                _log.warning("answers were not read: %s", error)
                continue
            for turn in asked.keys() - set(still):
                asked[turn].set()

    def _on_survivors_ended(self, news: SurvivorsNews) -> None:
        ended = [process.to_json() for process in news.ended]
        told = (news.session, news.loop, news.turn, news.call, ended, self.id)
        self._spawn(self.persistently(reports.survivors_ended, *told))

    def _on_background_ended(self, news: BackgroundNews) -> None:
        self._spawn(self._tell_background_ended(news), _TELLING)

    async def _tell_background_ended(self, news: BackgroundNews) -> None:
        """It has ended (E13); what the sweep was quicker to tell is told already."""
        ended, surviving = ([process.to_json() for process in each] for each in (news.ended, news.surviving))
        why = "worker_shutdown" if self._ends_at is not None and news.killed_by is not None else ""
        command = commands.BackgroundEnded(news.turn, news.loop, news.call, ended, surviving, why=why)
        with contextlib.suppress(Refused):
            await self.persistently(reports.background_ended, news.session, command, self.id)

    # -- the end

    def _give_up(self, reason: str) -> None:
        """Without a lease or a warden nothing may run here: the tools are dead, the sweep ends the turns (J6)."""
        _log.critical("worker %s gives up: %s", self.id, reason)
        logging.shutdown()
        os._exit(3)

    def shut_down(self) -> None:
        """No new turns; running ones are handed over, and ended when the grace is over (J4).

        Called again, the grace is over within a second. Callable from any thread, returns at once.
        """
        self._open = False
        grace_s = self._grace_s if self._ends_at is None else min(self._grace_s, HURRY_S)
        if not self._hurried:
            self._hurried = self._ends_at is not None
            self._ends_at = min(self._ends_at or math.inf, time.monotonic() + grace_s)
            self._loop.call_soon_threadsafe(self._begin_to_leave, grace_s)

    def _begin_to_leave(self, grace_s: float) -> None:
        """All runs leave now; late in the grace their model calls are dropped; after it the rest is ended."""
        self._each_run(lambda run: run.leave(grace_s))
        self._loop.call_later(max(grace_s - DROP_S, grace_s / 2), self._each_run, TurnRun.drop)
        self._loop.call_later(grace_s, self._each_run, TurnRun.shut_down)

    def _each_run(self, tell: Callable[[TurnRun], None]) -> None:
        for run in list(self._runs.values()):
            tell(run)

    def drain(self) -> None:
        """No new turns, and an end as soon as the last one has gone, however long that takes (J4).

        Called from the heartbeat, again and again.
        """
        self._open = False
        if self._leaving is not None:
            self._leaving()
            self._leaving = None
        self._loop.call_soon_threadsafe(self._each_run, TurnRun.leave)
        if not self._held and self._ends_at is None:
            _log.warning("worker %s is drained", self.id)
            os.kill(os.getpid(), signal.SIGTERM)

    def join(self) -> None:
        """Wait for the last turns, as long as the grace lasts and their ends may take; then leave."""
        while self._held and time.monotonic() < (self._ends_at or 0.0) + END_S:  # a second signal makes it earlier
            time.sleep(0.05)
        self._call(self._end_background())
        if not self._held:
            phases.retire(self.id)
        self._call(self.warden.aclose())

    async def _end_background(self) -> None:
        """What runs in the background ends with its worker, and is told (J6)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self.background.end_all()
                while told := [task for task in self._tasks if task.get_name() == _TELLING]:
                    await asyncio.wait(told)

    # -- what turns need

    async def in_thread(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._loop.run_in_executor(self._threads, lambda: call(*args, **kwargs))

    async def persistently(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask the database as often as it takes. The lease ends this wait: a worker that cannot renew it exits."""
        while True:
            try:
                return await self.in_thread(call, *args, **kwargs)
            except Refused as refused:
                if refused.code != "unavailable":
                    raise
                _log.warning("the worker waits for the database: %s", refused)
            except db.LOST as error:
                _log.warning("the worker waits for the database: %s", error)
            await asyncio.sleep(_RETRY_S)

    def _has_workspace(self, session: str) -> bool:
        """Whether a turn that has worked already can go on here (J4)."""
        try:
            return Path(read.workspace_of(session)).is_dir()
        except OSError:  # it cannot even be looked at
            return False

    def workspace(self, session: str) -> Path:
        path = Path(read.workspace_of(session))
        if path.is_relative_to(self._data_dir):
            path.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            raise FileNotFoundError(f"The workspace {path} is not there.")
        return path

    def scratch_home(self, session: str) -> Path:
        return self._data_dir / "homes" / session
