"""What a sweep may have to end: turns, background processes and survivors whose worker cannot, found by one look.

Whether a worker lives is its lease's to say (J2). Two things outdo it: a worker of this very place whose process is not
there any more is gone at once, and a server that has just started believes in nobody's end for one whole lease, because
nobody could renew meanwhile.
"""

import os
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from psycopg import Cursor
from psycopg.rows import class_row

from sessions_app.log import phases
from sessions_app.log.db import Row

FENCE_S: Final = 4.0
"""How long a marked turn's worker has to settle (E9)."""


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A running turn that may have to be ended.

    `depth`: how many agents are above its own. `place`: its worker's, None when nothing is known of the worker.
    `expired_s`: how long its worker's lease has been over; negative while it is not, 0 where nobody asks.
    `acknowledged_ms`: from its mark to the worker's word.
    """

    turn: str
    session: str
    loop: str
    depth: int
    epoch: int
    step: int
    worker: str
    phase: str
    place: str | None
    expired_s: float
    acknowledged_ms: int | None


@dataclass(frozen=True, slots=True)
class LeftProcesses:
    """Processes of a call that a worker has left behind: in the background, or survivors of their kill.

    `seq`: of the settlement that names the survivors; 0 for the background. `place`, `expired_s`: as a turn's.
    """

    turn: str
    session: str
    loop: str
    call: str
    worker: str
    seq: int
    place: str | None
    expired_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """One look.

    `overdue`: marked turns whose worker did not settle in time (E9). `gone_turns`, `gone_background`: of workers whose
    process has ended. `lost_turns`, `lost_background`, `survivors`: of workers whose lease is over; survivors only of
    this place. `own`: what this very worker runs, by the database. `clock_s`: the database's, in seconds.
    """

    overdue: list[LostTurn]
    gone_turns: list[LostTurn]
    lost_turns: list[LostTurn]
    own: list[LostTurn]
    gone_background: list[LeftProcesses]
    lost_background: list[LeftProcesses]
    survivors: list[LeftProcesses]
    clock_s: float


# A beat from the future was written before the database's clock was set back: whoever lives has beaten again since.
_ALIVE: Final = """(w.alive_until >= clock_timestamp()
    AND w.beat_at <= clock_timestamp() + make_interval(secs => %(lease)s))"""
_DEAD: Final = f"""(w.id IS NULL OR NOT {_ALIVE})
    AND clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %(lease)s)"""
_OVER: Final = "extract(epoch FROM clock_timestamp() - w.alive_until)::float8"
# Of a worker that nobody knows any more, it is over for longer than anybody waits.
_LONG_OVER: Final = f"coalesce(abs({_OVER}), 1e6)"

_TURN: Final = """SELECT r.turn::text, r.session::text, r.loop::text, r.depth, r.epoch, r.step, r.worker::text, r.phase,
    w.boot_id AS place"""
_OF_TURN: Final = "running_turn r LEFT JOIN worker w ON w.id = r.worker"
# A clock that was set between the two must not make one row a number that keeps all others from being found.
_WITHIN: Final = "trunc(least(greatest(extract(epoch FROM m.acknowledged_at - m.marked_at) * 1000, 0), 1e9))::int"
_OVERDUE: Final = f"""{_TURN}, 0 AS expired_s,
        CASE WHEN m.acknowledged_at IS NOT NULL THEN {_WITHIN} END AS acknowledged_ms
    FROM turn_mark m JOIN {_OF_TURN} ON r.turn = m.turn
    WHERE m.marked_at NOT BETWEEN clock_timestamp() - make_interval(secs => %(fence)s) AND clock_timestamp()"""
_GONE_TURNS: Final = f"""{_TURN}, {_OVER} AS expired_s, NULL AS acknowledged_ms
    FROM {_OF_TURN} WHERE w.id = ANY(%(gone)s::uuid[])"""
_LOST_TURNS: Final = f"{_TURN}, {_LONG_OVER} AS expired_s, NULL AS acknowledged_ms FROM {_OF_TURN} WHERE {_DEAD}"
_OWN: Final = f"""{_TURN}, 0 AS expired_s, NULL AS acknowledged_ms
    FROM {_OF_TURN} WHERE r.worker = %(worker)s AND w.id IS NOT NULL"""

_LEFT: Final = "SELECT p.turn::text, p.session::text, p.loop::text, p.call, p.worker::text, w.boot_id AS place"
_OF_LEFT: Final = "p LEFT JOIN worker w ON w.id = p.worker"
_GONE_BACKGROUND: Final = f"""{_LEFT}, 0 AS seq, {_OVER} AS expired_s
    FROM background_process {_OF_LEFT} WHERE w.id = ANY(%(gone)s::uuid[])"""
_LOST_BACKGROUND: Final = (
    f"{_LEFT}, 0 AS seq, {_LONG_OVER} AS expired_s FROM background_process {_OF_LEFT} WHERE {_DEAD}"
)
_SURVIVORS: Final = f"""{_LEFT}, p.seq, 0 AS expired_s
    FROM survivor {_OF_LEFT} WHERE w.boot_id = %(place)s AND {_DEAD}"""

_NEIGHBOURS: Final = """SELECT w.id::text, w.pid FROM worker w WHERE w.boot_id = %(place)s
    AND (EXISTS (SELECT 1 FROM running_turn r WHERE r.worker = w.id)
         OR EXISTS (SELECT 1 FROM background_process b WHERE b.worker = w.id))"""
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
_LIVES: Final = f"SELECT 1 FROM worker w WHERE id = %(worker)s AND {_ALIVE}"

T = TypeVar("T", LostTurn, LeftProcesses)


def look(cur: Cursor[Row], place: str, worker: str | None) -> Found:
    """What there is now; `worker`: the one that looks, None in a process that runs no turns."""
    asked: dict[str, Any] = {"lease": phases.LEASE_S, "fence": FENCE_S, "place": place, "worker": worker}

    def find(kind: type[T], statement: str) -> list[T]:
        with cur.connection.cursor(row_factory=class_row(kind)) as rows:
            return rows.execute(statement, asked).fetchall()

    neighbours = cur.execute(_NEIGHBOURS, asked).fetchall()
    # Nearly always nobody is gone, and this looks once a second.
    asked["gone"] = gone = [id for id, pid in neighbours if not _exists(pid)]
    return Found(
        overdue=find(LostTurn, _OVERDUE),
        gone_turns=find(LostTurn, _GONE_TURNS) if gone else [],
        lost_turns=find(LostTurn, _LOST_TURNS),
        own=find(LostTurn, _OWN) if worker is not None else [],
        gone_background=find(LeftProcesses, _GONE_BACKGROUND) if gone else [],
        lost_background=find(LeftProcesses, _LOST_BACKGROUND),
        survivors=find(LeftProcesses, _SURVIVORS),
        clock_s=_clock_s(cur),
    )


def lives(cur: Cursor[Row], worker: str) -> bool:
    """Whether its lease is not over yet."""
    return cur.execute(_LIVES, {"worker": worker, "lease": phases.LEASE_S}).fetchone() is not None


def _clock_s(cur: Cursor[Row]) -> float:
    row = cur.execute(_CLOCK).fetchone()
    assert row is not None
    return float(row[0])


def _exists(pid: int) -> bool:
    """Whether a process has this id. Another one may have it by now: then the lease decides."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
