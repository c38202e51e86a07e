"""What the warden killed on its own authority, written where a sweep or a fence will look for it (J6, E9).

Reports wait in memory while PostgreSQL is down; a stop is rare, so each batch opens a connection of its own and the
one that listens for stops is never kept waiting.
"""

import asyncio
import sys
from collections import deque
from dataclasses import dataclass
from typing import Final

import orjson
import psycopg

from sessions_app.engine.text import clean
from sessions_app.log.secrets import mask, mask_json
from sessions_app.worker.warden.shapes import Processes

_INSERT: Final = """
INSERT INTO warden_report (worker, turn, call, epoch, processes, output, reason)
SELECT %(worker)s::uuid, %(turn)s::uuid, %(call)s::text, %(epoch)s::int, %(processes)s::jsonb, %(output)s::text,
    %(reason)s::text
WHERE NOT EXISTS (
    SELECT 1 FROM warden_report WHERE worker = %(worker)s::uuid AND turn IS NOT DISTINCT FROM %(turn)s::uuid
    AND call = %(call)s::text AND epoch = %(epoch)s::int AND reason = %(reason)s::text
)
"""
"""Guarded: a report repeated after a broken commit lands once."""
_LATEST_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """One row of `warden_report`. `turn` None and `call` empty: about the whole worker, none of whose tools runs."""

    turn: str | None
    call: str
    epoch: int
    processes: Processes
    output: str
    reason: str


class Reporter:
    """Writes reports in the background, again and again until they are in."""

    def __init__(self, worker: str, database_url: str) -> None:
        self._worker, self._url = worker, database_url
        self._waiting: deque[Report] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, report: Report) -> None:
        """Have a report written; returns at once."""
        self._waiting.append(report)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    async def finish(self, timeout_s: float) -> bool:
        """Wait until everything is written, or the time is over; whether it was."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)
        return not self._waiting

    async def _write_all(self) -> None:
        pause_s, told = 0.05, False
        while self._waiting:
            try:
                await self._write()
            except (psycopg.Error, OSError) as error:
                if not told:
                    sys.stderr.write(f"warden {self._worker}: a report has to wait: {error}\n")
                told = True
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LATEST_RETRY_S)

    async def _write(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True, connect_timeout=3) as connection:
            while self._waiting:
                try:
                    await connection.execute(_INSERT, self._row(self._waiting[0]))
                except (psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError) as error:
                    # The database will never take this one; it must not keep the others from it.
                    sys.stderr.write(f"warden {self._worker}: a report was refused: {error}\n")
                self._waiting.popleft()

    def _row(self, report: Report) -> dict[str, object]:
        return {
            "worker": self._worker,
            "turn": report.turn,
            "call": clean(report.call)[0],
            "epoch": report.epoch,
            "processes": orjson.dumps(mask_json(report.processes.to_json())).decode(),
            "output": clean(mask(report.output))[0],
            "reason": report.reason,
        }
