"""The sweep (J3) and the fence (E9): they end turns whose worker cannot, and take what nobody has taken.

One thread in every web and worker process, without a global lock: all may find the same turn, the session's lock lets
one of them end it, and the expiry is checked again under it. After a gap of its own or the database's, also one that
only its clock has made, the sweep expires nobody for one whole lease, because a worker could not have renewed in it.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import psycopg
from psycopg import Cursor

from sessions_app.control import reports
from sessions_app.engine.commands import BackgroundEnded, EndTurn, Settlement
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.keys import stored
from sessions_app.log import db, files, read, search, stream
from sessions_app.log.db import Row
from sessions_app.log.phases import LEASE_S
from sessions_app.worker.place import place
from sessions_app.worker.warden.census import is_there, kill_marked

LOOK_S: Final = 1.0
FENCE_S: Final = 4.0
PROOF_S: Final = 6.0
"""How long after a lease's end a sweep on another machine waits for the warden's word before it says `unknown`."""
TIDY_S: Final = 600.0
SORT_S: Final = 10.0
"""How often what was appended is sorted into the index of messages."""
ORPHANS_S: Final = 10.0
JUMP_S: Final = 5.0
"""By how much the database's clock may run apart from a process's between two looks before it counts as set anew."""
STREAM_DAYS: Final = 3
_log = logging.getLogger(__name__)

_COLUMNS: Final = "r.turn, r.session, r.loop, r.depth, r.epoch, r.step, r.worker, r.phase, w.boot_id"  # see `place`
# A beat from the future was written before the database's clock was set back: whoever lives has beaten again since.
_ALIVE: Final = """(w.alive_until >= clock_timestamp()
    AND w.beat_at <= clock_timestamp() + make_interval(secs => %(lease)s))"""
_LOST: Final = f"""SELECT {_COLUMNS}, NULL::int,
        coalesce(abs(extract(epoch FROM clock_timestamp() - w.alive_until)), 1e6)
    FROM running_turn r LEFT JOIN worker w ON w.id = r.worker
    WHERE (w.id IS NULL OR NOT {_ALIVE})
      AND clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %(lease)s)"""
_OVERDUE: Final = f"""SELECT {_COLUMNS}, extract(epoch FROM m.acknowledged_at - m.marked_at) * 1000, 0
    FROM turn_mark m JOIN running_turn r ON r.turn = m.turn LEFT JOIN worker w ON w.id = r.worker
    WHERE m.marked_at NOT BETWEEN clock_timestamp() - make_interval(secs => %s) AND clock_timestamp()"""
_ORPHANS: Final = f"""SELECT b.turn, b.session, b.loop, 0, 0, 0, b.worker, b.call, w.boot_id, NULL::int,
        coalesce(abs(extract(epoch FROM clock_timestamp() - w.alive_until)), 1e6)
    FROM background_process b LEFT JOIN worker w ON w.id = b.worker
    WHERE (w.id IS NULL OR NOT {_ALIVE})
      AND clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %(lease)s)"""
_SURVIVORS: Final = f"""SELECT s.turn, s.session, s.loop, 0, 0, s.seq, s.worker, s.call, w.boot_id, NULL::int, 0
    FROM survivor s JOIN worker w ON w.id = s.worker WHERE w.boot_id = %(place)s AND NOT {_ALIVE}
      AND clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => %(lease)s)"""
_NEIGHBOURS: Final = """SELECT w.id, w.pid FROM worker w WHERE w.boot_id = %s
    AND (EXISTS (SELECT 1 FROM running_turn r WHERE r.worker = w.id)
         OR EXISTS (SELECT 1 FROM background_process b WHERE b.worker = w.id))"""
_SINCE: Final = "extract(epoch FROM clock_timestamp() - w.alive_until)"
_GONE: Final = f"""SELECT {_COLUMNS}, NULL::int, {_SINCE}
    FROM running_turn r JOIN worker w ON w.id = r.worker WHERE w.id = ANY(%s)"""
_GONE_ORPHANS: Final = f"""SELECT b.turn, b.session, b.loop, 0, 0, 0, b.worker, b.call, w.boot_id, NULL::int, {_SINCE}
    FROM background_process b JOIN worker w ON w.id = b.worker WHERE w.id = ANY(%s)"""
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())"
_OWN: Final = f"""SELECT {_COLUMNS}, NULL::int, 0 FROM running_turn r JOIN worker w ON w.id = r.worker
    WHERE r.worker = %s"""
_FREE: Final = "SELECT 1 FROM session WHERE id = %s FOR UPDATE SKIP LOCKED"
_TIDY: Final = (
    "DELETE FROM command WHERE at < now() - interval '30 days'",
    "DELETE FROM warden_report WHERE at < now() - interval '30 days'",
    """DELETE FROM worker WHERE alive_until < now() - interval '1 day'
       AND NOT EXISTS (SELECT 1 FROM survivor WHERE worker = worker.id)""",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running turn that may have to be ended. `expired_s`: how long its worker's lease has been over; `depth`: how
    many agents are above its own."""

    turn: str
    session: str
    loop: str
    depth: int
    epoch: int
    step: int
    worker: str
    phase: str
    place: str | None
    acknowledged_ms: int | None
    expired_s: float

    @classmethod
    def of(cls, row: Row) -> "Candidate":
        turn, session, loop, depth, epoch, step, worker, phase, place, acknowledged, expired = row
        ack = None if acknowledged is None else int(acknowledged)
        of = str(turn), str(session), str(loop)
        return cls(*of, depth, epoch, step, str(worker), phase, place, ack, float(expired))


@dataclass(slots=True)
class Evidence:
    """What is known of a turn's tool processes: by call, beside it, and whether it is proof that nothing runs."""

    settlements: dict[str, Settlement] = field(default_factory=dict)
    ended: list[dict[str, Any]] = field(default_factory=list)
    surviving: list[dict[str, Any]] = field(default_factory=list)
    proven: bool = False

    def of(self, call: str) -> Settlement:
        """How a call of a lost worker settles, each process named once, whoever has seen it."""
        known = self.settlements.get(call, Settlement("lost"))
        listed = {
            "ended": _once([*known.processes["ended"], *self.ended]),
            "surviving": _once([*known.processes["surviving"], *self.surviving]),
            "background": [],
        }
        return Settlement("lost", known.output, processes=listed)


class Host(Protocol):
    """The worker of the process that sweeps; its methods are called from the sweep's thread."""

    id: str

    def take(self) -> None:
        """Claim what nobody has; called once a second."""
        ...

    def holds(self, turn: str, loop: str) -> bool:
        """Whether it claims or runs this turn of its own."""
        ...


class Sweep:
    """`host` is None in a process that runs no turns."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host
        self._place = place()
        self._looked_at = time.monotonic()
        self._quiet_until = self._looked_at + LEASE_S
        self._again_at: dict[tuple[str, str, str], float] = {}
        self._ahead = 0.0  # how far the database's clock is ahead of this process's
        self._tidy_at = self._looked_at + TIDY_S
        self._sort_at = self._looked_at + SORT_S

    def run(self) -> None:
        """Look once a second until the process ends."""
        while True:
            time.sleep(LOOK_S)
            try:
                self.look()
            except (psycopg.Error, Refused) as error:
                _log.warning("the sweep could not look: %s", error)
            except Exception:  # noqa: BLE001 (one turn's fault must not end the watch over all others)
                _log.exception("the sweep failed over something and goes on")

    def look(self) -> None:
        """One look: fence, expire, abandon, take, tidy."""
        with db.cursor("stop") as cur:
            overdue = [Candidate.of(row) for row in cur.execute(_OVERDUE, (FENCE_S,)).fetchall()]
            lost = [Candidate.of(row) for row in cur.execute(_LOST, {"lease": LEASE_S}).fetchall()]
            orphans = [Candidate.of(row) for row in cur.execute(_ORPHANS, {"lease": LEASE_S}).fetchall()]
            here = {"lease": LEASE_S, "place": self._place}
            survivors = [Candidate.of(row) for row in cur.execute(_SURVIVORS, here).fetchall()]
            own = self._own(cur)
            gone = self._gone(cur)
            # Nearly always nobody is gone, and this looks once a second.
            bereft = [Candidate.of(row) for row in cur.execute(_GONE, (gone,)).fetchall()] if gone else []
            strays = [Candidate.of(row) for row in cur.execute(_GONE_ORPHANS, (gone,)).fetchall()] if gone else []
            clock = cur.execute(_CLOCK).fetchone()
        now = time.monotonic()  # after the answers: the time they took is part of a gap
        ahead = 0.0 if clock is None else float(clock[0]) - now
        jumped = abs(ahead - self._ahead) > JUMP_S
        if now - self._looked_at > LEASE_S or jumped:
            self._quiet_until = now + LEASE_S
        self._looked_at, self._ahead = now, ahead
        if not jumped:
            self._each(self._fence, overdue)
        self._each(self._bury, bereft)
        if now >= self._quiet_until:
            buried = {each.turn for each in bereft}
            self._each(self._expire, [each for each in lost if each.turn not in buried])
        self._each(self._abandon, own)
        if self._host is not None:
            self._host.take()
        alone = strays if now < self._quiet_until else [*strays, *orphans]  # one that is in both is due only once
        self._each(self._tell_ended, [each for each in alone if self._due("background", each, now)])
        if now >= self._quiet_until:  # whose worker may live has that to tell of it
            self._each(self._tell_survivors_ended, [each for each in survivors if self._due("survivors", each, now)])
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S
            self._tidy()
        if now >= self._sort_at:
            self._sort_at = now + SORT_S
            search.tidy()
        stored.refresh()  # every process masks the keys that were entered in one of them

    def _own(self, cur: Cursor[Row]) -> list[Candidate]:
        """The host's turns, in the database, that the host knows nothing of."""
        if self._host is None:
            return []
        rows = cur.execute(_OWN, (self._host.id,)).fetchall()
        return [each for each in map(Candidate.of, rows) if not self._host.holds(each.turn, each.loop)]

    def _gone(self, cur: Cursor[Row]) -> list[str]:
        """Workers of this very place whose process is not there any more: no lease is needed to know that (J2)."""
        return [str(id) for id, pid in cur.execute(_NEIGHBOURS, (self._place,)).fetchall() if not _exists(pid)]

    def _each(self, end: Callable[[Candidate], None], candidates: list[Candidate]) -> None:
        """End each; one that cannot be ended keeps nobody from the others and is tried again at the next look (J3).

        Delegates come before the turns above them, which end after them (G3).
        """
        for candidate in sorted(candidates, key=lambda each: each.depth, reverse=True):
            try:
                if _free(candidate.session):
                    end(candidate)
            except (Refused, psycopg.Error) as error:
                _log.warning("turn %s was not ended at this look: %s", candidate.turn, error)
            except Exception:  # noqa: BLE001 (one turn's fault must not keep the others running)
                _log.exception("turn %s could not be ended", candidate.turn)

    def _abandon(self, candidate: Candidate) -> None:
        """End a turn that its own living worker has lost: its claim's answer or its end never got through."""
        if self._step(candidate) is None:  # it has ended since: nothing of it is anybody's to kill
            return
        self._end(candidate, self._evidence(candidate, dead=True), by="worker")

    def _fence(self, candidate: Candidate) -> None:
        """A marked turn whose worker has not settled in time is ended for it (E9)."""
        self._end(candidate, self._evidence(candidate, dead=False), by="fence")

    def _expire(self, candidate: Candidate) -> None:
        """End a turn whose worker's lease is over, once its processes are proven dead or the wait for proof is over."""
        evidence = self._evidence(candidate, dead=True)
        if evidence.proven or candidate.expired_s > PROOF_S:
            self._end(candidate, evidence, by="sweep")

    def _bury(self, candidate: Candidate) -> None:
        """End a turn whose worker's process has ended, whatever is left of its lease."""
        self._end(candidate, self._evidence(candidate, dead=True), by="sweep", dead=True)

    def _due(self, what: str, orphan: Candidate, now: float) -> bool:
        """Whether to look after what a lost worker left again: each costs time as long as it cannot be killed."""
        due = self._again_at.get((what, orphan.turn, orphan.phase), 0.0)
        if now >= due:
            self._again_at[what, orphan.turn, orphan.phase] = now + ORPHANS_S
        return now >= due

    def _tell_ended(self, orphan: Candidate) -> None:
        """Background processes die with their worker (J6): said once it is proven, or the wait for proof is over.

        `phase` is their call.
        """
        evidence = self._evidence(orphan, dead=True)
        if evidence.proven or orphan.expired_s > PROOF_S:
            found = evidence.of(orphan.phase).processes
            command = BackgroundEnded(
                orphan.turn, orphan.loop, orphan.phase, found["ended"], found["surviving"], not evidence.proven,
                why="worker_lost",
            )  # fmt: skip
            reports.background_ended(orphan.session, command)

    def _tell_survivors_ended(self, survivor: Candidate) -> None:
        """The later end of what outlived its kill, where no worker lives to tell of it (E7). Looks and does not wait.

        `phase` is their call, `step` the settlement that names them. One without marks may be below a namespace's first
        process, which has none any more either when it is dying: so all that are named are looked for.
        """
        left = kill_marked(survivor.worker, survivor.turn, survivor.phase, for_s=0).surviving
        with db.cursor("read") as cur:
            named = read.payload(cur, survivor.session, survivor.step)["processes"]["surviving"]
        if not left and not any(map(is_there, named)):
            ended = [{**each, "command": each["command"] if isinstance(each["command"], str) else ""} for each in named]
            reports.survivors_ended(survivor.session, survivor.loop, survivor.turn, survivor.phase, ended)

    def _evidence(self, candidate: Candidate, *, dead: bool) -> Evidence:
        evidence = Evidence()
        here = dead and candidate.place == self._place
        if here:  # whatever of it runs can be seen from here: look for oneself
            found = kill_marked(candidate.worker, candidate.turn).to_json()
            evidence.ended, evidence.surviving = found["ended"], found["surviving"]
            evidence.proven = True
        with db.cursor("read") as cur:
            rows = cur.execute(
                """SELECT call, processes, output FROM warden_report
                   WHERE worker = %s AND (turn IS NULL OR turn = %s AND epoch = %s)""",
                (candidate.worker, candidate.turn, candidate.epoch),
            ).fetchall()
        for call, processes, output in rows:
            evidence.proven = True
            if call:
                left = [each for each in processes["surviving"] if not here or is_there(each)]
                gone = [each for each in processes["surviving"] if each not in left]
                listed = {"ended": [*processes["ended"], *gone], "surviving": left, "background": []}
                evidence.settlements[call] = Settlement("lost", output, processes=listed)
        return evidence

    def _end(
        self, candidate: Candidate, evidence: Evidence, *, by: Literal["worker", "fence", "sweep"], dead: bool = False
    ) -> None:
        started, committed = self._step(candidate) or ([], False)
        command = EndTurn(
            candidate.turn,
            candidate.epoch,
            by,
            cause="worker_lost",
            settlements={call: evidence.of(call) for call in started},
            cut_off={} if committed else self._cut_off(candidate),
            phase="tool" if started else candidate.phase,
            acknowledged_ms=candidate.acknowledged_ms,
            # Since the worker's last sign of life; a worker that lost a turn and lives finds that at once.
            settled_ms=0 if by == "worker" else int(min(max(LEASE_S + candidate.expired_s, 0), 3600) * 1000),
            unknown=bool(started) and not evidence.proven,
            request=new_id(),
        )
        try:
            if by == "worker":  # in its name, so that it meets what its worker may have said of it itself (A4)
                answer = reports.report(candidate.session, command, candidate.worker)
            else:
                check = _recheck(candidate.worker, proven=dead or by == "fence")
                answer = reports.end_turn(candidate.session, command, check)
            if answer.get("outcome") != "waiting":
                _log.warning("turn %s was ended by the %s", candidate.turn, by)
        except Refused as refused:
            if refused.code != "stale":
                raise

    def _step(self, candidate: Candidate) -> tuple[list[str], bool] | None:
        """The step's started calls, less those that wait for a delegate, and whether it is committed.

        What streamed of a committed reply was not cut off. None: the turn is over.
        """
        state = read.snapshot(candidate.session)["state"]
        turn = state["loops"].get(candidate.loop, {}).get("turn")
        if turn is None or turn["id"] != candidate.turn:
            return None
        started = [
            call["call"] for call in turn["calls"] or () if call["status"] == "started" and call["child"] is None
        ]
        return started, turn["calls"] is not None

    def _cut_off(self, candidate: Candidate) -> dict[str, str]:
        """What people had seen of the uncommitted step, up to the last saved piece (C3)."""
        pieces = [
            piece
            for piece in stream.read_turn(candidate.turn)
            if piece.step == candidate.step and piece.kind in ("text", "reasoning")
        ]
        latest = max((piece.attempt for piece in pieces), default=0)
        return {piece.kind: piece.text for piece in pieces if piece.attempt == latest and piece.text}

    def _tidy(self) -> None:
        for statement in _TIDY:
            with db.cursor("read") as cur:
                cur.execute(statement)
        stream.drop_old(STREAM_DAYS)
        files.tidy()


def _free(session: str) -> bool:
    """Whether nobody holds the session's lock: one that is stuck must not cost the others a wait."""
    with db.cursor("stop") as cur:
        return cur.execute(_FREE, (session,)).fetchone() is not None


def _once(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The processes by their pid, the first of each."""
    return list({each["pid"]: each for each in reversed(processes)}.values())[::-1]


def _exists(pid: int) -> bool:
    """Whether a process has this id. Another one may have it by now: then the lease decides."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _recheck(worker: str, *, proven: bool) -> Callable[[Cursor[Row]], None]:
    """Checked under the session's lock: a worker that came back in time keeps its turn (J2).

    `proven`: that it cannot, or that it had its time.
    """

    def check(cur: Cursor[Row]) -> None:
        if proven:
            return
        alive = cur.execute(f"SELECT 1 FROM worker w WHERE id = %(id)s AND {_ALIVE}", {"id": worker, "lease": LEASE_S})
        if alive.fetchone() is not None:
            raise Refused("stale", "The worker is alive.")

    return check
