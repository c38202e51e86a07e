"""All calls of one warden: what the worker may ask, what a mark does, and the end of everything."""

import asyncio
import sys
from collections.abc import Coroutine, Iterable
from typing import Final

from sessions_app.worker.warden.call import Call
from sessions_app.worker.warden.isolation import Isolation
from sessions_app.worker.warden.link import Link
from sessions_app.worker.warden.reports import Report, Reporter
from sessions_app.worker.warden.shapes import CallSpec, KilledBy, Patience, Processes
from sessions_app.worker.warden.wire import Header

MARKS_REMEMBERED: Final = 10_000
_REFUSALS: Final = {
    "marked": "a stop was asked for first",
    "lease_lapsed": "this worker's lease has lapsed",
    "worker_closed": "this worker is ending",
    "worker_died": "this worker is dead",
}


class Custody:
    """Owns the calls. A turn that was ever marked starts no call here again (E2)."""

    def __init__(self, worker: str, isolation: Isolation, patience: Patience, link: Link, reporter: Reporter) -> None:
        self._worker, self._isolation, self._patience = worker, isolation, patience
        self._link, self._reporter = link, reporter
        self._calls: dict[int, Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Ended calls whose end the worker has not confirmed: it may die before it reads the news.
        self._unconfirmed: dict[int, Call] = {}
        self._surviving: set[Call] = set()
        self._marked: dict[str, None] = {}
        self._closed: str | None = None

    def start(self, header: Header) -> None:
        """The worker wants a call started."""
        key, spec = int(header["key"]), _spec(header)
        if self._closed is not None or spec.turn in self._marked:
            code = "marked" if self._closed is None else self._closed
            error = f"the call was not started: {_REFUSALS[code]}"
            self._link.send({"op": "failed", "key": key, "code": code, "error": error})
            return
        call = self._calls[key] = Call(spec, self._worker, self._isolation, self._patience)
        self._spawn_task(self._live(key, call))

    def kill(self, key: int, by: KilledBy = "stop") -> None:
        """The worker wants a call ended; one that is gone already needs nothing."""
        if key in self._calls:
            self._calls[key].kill(by)

    def keep(self, key: int) -> None:
        """The worker declares a call to run on in the background (E13); of one that is ending it hears the end."""
        call = self._calls.get(key)
        if call is not None and not call.ending:
            call.kept = True
            processes = [each.to_json() for each in call.running()]
            self._link.send({"op": "kept", "key": key, "processes": processes})

    def kill_kept(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Somebody wants kept calls ended, each named by (turn, call); all that match, since an id may recur (E13)."""
        wanted = set(pairs)
        for call in self._calls.values():
            if call.kept and (call.spec.turn, call.spec.call) in wanted:
                call.kill("stop")

    def mark(self, turns: Iterable[str]) -> None:
        """Turns are marked: kill their calls first, not the kept ones, tell the worker, report when they are dead."""
        turns = list(turns)
        for call in self._calls.values():
            if call.spec.turn in turns and not call.kept:
                call.report_reason = call.report_reason or "mark"
                call.kill("stop")
        news = [turn for turn in turns if turn not in self._marked]
        for turn in news:
            self._marked[turn] = None
        while len(self._marked) > MARKS_REMEMBERED:
            del self._marked[next(iter(self._marked))]
        if news:
            self._link.send({"op": "marked", "turns": news})

    def room(self) -> None:
        """The worker takes output again."""
        for call in self._calls.values():
            call.wake()

    def reaped(self, pid: int, status: int) -> None:
        """The warden has reaped a child; only a call's root means something."""
        for call in (*self._calls.values(), *self._surviving):
            if call.pid == pid:
                call.root_ended(status)
                return

    def close(self, reason: str) -> None:
        """Start nothing more."""
        self._closed = self._closed or reason

    def confirmed(self, key: int) -> None:
        """The worker knows of a call's end."""
        self._unconfirmed.pop(key, None)

    async def end_all(self, reason: str, by: KilledBy) -> None:
        """Authority is over: start nothing more, kill every call, report each, and last the worker as a whole."""
        self.close(reason)
        for call in self._calls.values():
            call.report_reason = call.report_reason or reason
            call.kill(by)
        while self._calls:
            await asyncio.wait(self._tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        for call in self._unconfirmed.values():
            if call.report_reason is None:
                self._report(call, reason)
        if not self._surviving:
            self._reporter.add(Report(None, "", 0, Processes(), "", reason))

    async def _live(self, key: int, call: Call) -> None:
        """One call's life, and the news of it."""
        try:
            result = await call.run(
                lambda pid: self._link.send({"op": "started", "key": key, "pid": pid}),
                lambda data: self._link.send({"op": "output", "key": key}, data),
                lambda: self._link.has_room,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            self._link.send({"op": "failed", "key": key, "code": "failed", "error": str(error)})
            return
        finally:
            del self._calls[key]
        self._link.send(
            {
                "op": "exited",
                "key": key,
                "code": result.code,
                "signal": result.signal,
                "ended": [each.to_json() for each in result.ended],
                "surviving": [each.to_json() for each in result.surviving],
                "killed_by": result.killed_by,
                "duration_ms": result.duration_ms,
            }
        )
        self._unconfirmed[key] = call
        if call.report_reason is not None:
            self._report(call, call.report_reason)
        if result.surviving:
            sys.stderr.write(f"warden {self._worker}: {len(result.surviving)} processes outlived SIGKILL\n")
            self._surviving.add(call)
            self._spawn_task(self._watch_survivors(call))

    async def _watch_survivors(self, call: Call) -> None:
        """Tell when the survivors of a kill have ended at last (E7)."""
        await call.survivors_gone()
        self._surviving.discard(call)
        ended = call.processes.surviving
        self._link.send(
            {
                "op": "survivors_ended",
                "session": call.spec.session,
                "loop": call.spec.loop,
                "turn": call.spec.turn,
                "call": call.spec.call,
                "ended": [each.to_json() for each in ended],
            }
        )

    def _report(self, call: Call, reason: str) -> None:
        spec = call.spec
        self._reporter.add(Report(spec.turn, spec.call, spec.epoch, call.processes, call.output_tail, reason))

    def _spawn_task(self, life: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(life)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _spec(header: Header) -> CallSpec:
    return CallSpec(
        call=header["call"],
        turn=header["turn"],
        session=header["session"],
        loop=header["loop"],
        epoch=header["epoch"],
        argv=tuple(header["argv"]),
        cwd=header["cwd"],
        env=dict(header["env"]),
        timeout_s=header["timeout_s"],
    )
