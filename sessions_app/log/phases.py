"""What workers do at this moment, beside the log and outside the session's lock (A1), and the leases they live by."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sessions_app.engine.state import from_json
from sessions_app.log import db

LEASE_S = 10.0
"""A worker that has not renewed its lease for so long is dead to everybody (J2)."""


def set_retry(turn: str, epoch: int, attempt: int, wait_s: float) -> datetime | None:
    """The turn waits before attempt `attempt`; when it will try, by the database's clock."""
    with db.cursor("write") as cur:
        row = cur.execute(
            """UPDATE running_turn SET phase = 'retry', since = clock_timestamp(), attempt = %s,
                   next_at = clock_timestamp() + make_interval(secs => %s)
               WHERE turn = %s AND epoch = %s RETURNING next_at""",
            (attempt, wait_s, turn, epoch),
        ).fetchone()
    return None if row is None else row[0]


def set_model(turn: str, epoch: int, attempt: int) -> None:
    """The turn asks its model, for the `attempt`th time at this step."""
    with db.cursor("write") as cur:
        cur.execute(
            """UPDATE running_turn SET phase = 'model', since = clock_timestamp(), attempt = %s, next_at = NULL
               WHERE turn = %s AND epoch = %s""",
            (attempt, turn, epoch),
        )


def acknowledge(turn: str) -> tuple[str, str, int] | None:
    """The turn's worker has heard of its mark: (request, phase, ms since the mark); None when it is not marked."""
    with db.cursor("stop") as cur:
        row = cur.execute(
            """UPDATE turn_mark m SET acknowledged_at = coalesce(acknowledged_at, clock_timestamp())
               FROM running_turn r WHERE m.turn = %s AND r.turn = m.turn
               RETURNING request, phase, extract(epoch FROM acknowledged_at - marked_at) * 1000""",
            (turn,),
        ).fetchone()
    return None if row is None else (str(row[0]), row[1], max(0, int(row[2])))


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as it introduces itself."""

    id: str
    host: str
    boot_id: str
    pid: int
    warden_pid: int
    isolation: str


def enlist(worker: WorkerRow) -> None:
    """A new worker with a fresh lease."""
    with db.cursor("write") as cur:
        cur.execute(
            """INSERT INTO worker (id, host, boot_id, pid, warden_pid, isolation, beat_at, alive_until)
               VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))""",
            (worker.id, worker.host, worker.boot_id, worker.pid, worker.warden_pid, worker.isolation, LEASE_S),
        )


def beat(worker: str) -> Literal["known", "draining"] | None:
    """Renew a worker's lease, on the database's clock (J2); None when nobody knows the worker any more."""
    with db.cursor("stop") as cur:
        row = cur.execute(
            """UPDATE worker SET beat_at = clock_timestamp(),
                   alive_until = clock_timestamp() + make_interval(secs => %s) WHERE id = %s RETURNING draining""",
            (LEASE_S, worker),
        ).fetchone()
    return None if row is None else "draining" if row[0] else "known"


def retire(worker: str) -> None:
    """A worker that has ended all its turns leaves; where it was is remembered as long as processes of it survive."""
    with db.cursor("write") as cur:
        cur.execute(
            "DELETE FROM worker WHERE id = %s AND NOT EXISTS (SELECT 1 FROM survivor WHERE worker = worker.id)",
            (worker,),
        )
        cur.execute("UPDATE worker SET alive_until = least(alive_until, clock_timestamp()) WHERE id = %s", (worker,))


def marked_among(turns: list[str]) -> list[str]:
    """Which of these turns are marked: the slow poll behind the stop's bell (L5)."""
    with db.cursor("stop") as cur:
        return [str(row[0]) for row in cur.execute("SELECT turn FROM turn_mark WHERE turn = ANY(%s)", (turns,))]


def asked_among(turns: list[str]) -> list[str]:
    """Which of these turns still wait for an answer or for a delegate (G3, H1)."""
    with db.cursor("read") as cur:
        query = "SELECT turn FROM running_turn WHERE turn = ANY(%s) AND phase IN ('gate', 'delegate')"
        return [str(row[0]) for row in cur.execute(query, (turns,))]


def runnable_loops(limit: int) -> list[tuple[str, str]]:
    """(session, loop) of loops that somebody may claim, longest waiting first (B2)."""
    with db.cursor("read") as cur:
        rows = cur.execute(
            "SELECT id, state FROM session WHERE runnable ORDER BY active_at LIMIT %s", (limit,)
        ).fetchall()
    states = [(str(row[0]), from_json(row[1])) for row in rows]
    return [(session, loop.id) for session, state in states for loop in state.loops.values() if state.claimable(loop)]


@dataclass(frozen=True, slots=True)
class Drained:
    """A worker on its way out: how many turns it still has, and how many of them are in a command."""

    id: str
    host: str
    pid: int
    turns: int
    in_tools: int


def living(place: str | None) -> list[str]:
    """The living workers of a place, or of all (None)."""
    with db.cursor("read") as cur:
        rows = cur.execute(
            """SELECT id FROM worker WHERE alive_until > clock_timestamp()
               AND (%(place)s::text IS NULL OR boot_id = %(place)s) ORDER BY id""",
            {"place": place},
        ).fetchall()
    return [str(row[0]) for row in rows]


def drain(workers: list[str]) -> None:
    """Tell workers to take no more turns (J4)."""
    with db.cursor("write") as cur:
        cur.execute("UPDATE worker SET draining = true WHERE id = ANY(%s)", (workers,))


def drained(workers: list[str]) -> list[Drained]:
    """Those of these workers that are still there."""
    with db.cursor("read") as cur:
        rows = cur.execute(
            """SELECT w.id, w.host, w.pid, count(r.turn), count(r.turn) FILTER (WHERE r.phase = 'tool')
               FROM worker w LEFT JOIN running_turn r ON r.worker = w.id
               WHERE w.id = ANY(%s) AND w.alive_until > clock_timestamp() GROUP BY w.id ORDER BY w.id""",
            (workers,),
        ).fetchall()
    return [Drained(str(row[0]), row[1], row[2], row[3], row[4]) for row in rows]
