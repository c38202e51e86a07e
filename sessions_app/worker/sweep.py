"""The sweep (J3) and the fence (E9): they end turns whose worker cannot, and take what nobody has taken.

One thread in every web and worker process, without a global lock: all may find the same turn, the session's lock lets
one of them end it, and the expiry is checked again under it. After a gap of its own or the database's, also one that
only its clock has made, the sweep expires nobody for one whole lease, because a worker could not have renewed in it.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol

import psycopg
from psycopg import Cursor

from sessions_app.control import reports
from sessions_app.engine.commands import BackgroundEnded, EndTurn, Settlement
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.keys import stored
from sessions_app.log import db, files, phases, read, search, stream
from sessions_app.log.db import Row
from sessions_app.worker import lost
from sessions_app.worker.lost import LeftProcesses, LostTurn, T
from sessions_app.worker.place import place
from sessions_app.worker.warden.census import is_there, kill_marked

LOOK_S: Final = 1.0
PROOF_S: Final = 6.0
"""How long after a lease's end a sweep on another machine waits for the warden's word before it says `unknown`."""
TIDY_S: Final = 600.0
SORT_S: Final = 10.0
"""How often what was appended is sorted into the index of messages."""
AGAIN_S: Final = 10.0
"""How often it looks after the same processes that a worker left behind."""
JUMP_S: Final = 5.0
"""By how much the database's clock may run apart from a process's between two looks before it counts as set anew."""
STREAM_DAYS: Final = 3
_log = logging.getLogger(__name__)

_REPORTS: Final = """SELECT call, processes, output FROM warden_report
    WHERE worker = %(worker)s::uuid AND (turn IS NULL OR turn = %(turn)s::uuid AND """
_REPORTS_OF: Final = {
    LostTurn: f"{_REPORTS} epoch = %(epoch)s)",
    # What ran on in the background was its call's last: what a mark ended was another one of that id, or of that turn.
    LeftProcesses: f"{_REPORTS} call = %(call)s AND reason <> 'mark')",
}
_FREE: Final = "SELECT 1 FROM session WHERE id = %s FOR UPDATE SKIP LOCKED"
_TIDY: Final = (
    "DELETE FROM command WHERE at < now() - interval '30 days'",
    "DELETE FROM warden_report WHERE at < now() - interval '30 days'",
    """DELETE FROM worker WHERE alive_until < now() - interval '1 day'
       AND NOT EXISTS (SELECT 1 FROM survivor WHERE worker = worker.id)""",
)


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
        self._quiet_until = self._looked_at + phases.LEASE_S
        self._again_at: dict[tuple[str, str, int], float] = {}
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
            found = lost.look(cur, self._place, None if self._host is None else self._host.id)
        now = time.monotonic()  # after the answers: the time they took is part of a gap
        # Asked before anything takes its time: what the host has by then is not what it had forgotten.
        forgotten = [each for each in found.own if not self._holds(each)]
        ahead = found.clock_s - now
        jumped = abs(ahead - self._ahead) > JUMP_S
        if now - self._looked_at > phases.LEASE_S or jumped:
            self._quiet_until = now + phases.LEASE_S
        self._looked_at, self._ahead = now, ahead
        quiet = now < self._quiet_until
        if not jumped:
            self._each(self._fence, found.overdue)
        self._each(self._bury, found.gone_turns)
        if not quiet:
            buried = {each.turn for each in found.gone_turns}
            self._each(self._expire, [each for each in found.lost_turns if each.turn not in buried])
        self._each(self._abandon, forgotten)
        if self._host is not None:
            self._host.take()
        # Background that is in both is due only once. While a worker may live, its survivors are its own to tell of.
        background = found.gone_background if quiet else [*found.gone_background, *found.lost_background]
        self._each_left(self._tell_ended, background, now)
        self._each_left(self._tell_survivors_ended, [] if quiet else found.survivors, now)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S
            self._tidy()
        if now >= self._sort_at:
            self._sort_at = now + SORT_S
            search.tidy()
        stored.refresh()  # every process masks the keys that were entered in one of them

    def _holds(self, turn: LostTurn) -> bool:
        """Whether the host knows of a turn that the database says it runs."""
        return self._host is not None and self._host.holds(turn.turn, turn.loop)

    def _each(self, end: Callable[[LostTurn], None], turns: list[LostTurn]) -> None:
        """End each; delegates come before the turns above them, which end after them (G3)."""
        for turn in sorted(turns, key=lambda each: each.depth, reverse=True):
            _guarded(end, turn)

    def _each_left(self, tell: Callable[[LeftProcesses], None], left: list[LeftProcesses], now: float) -> None:
        """Look after each, but not at every look: what cannot be killed costs time every time."""
        for each in left:
            key = each.turn, each.call, each.seq  # what ran on has none
            if now >= self._again_at.get(key, 0.0):
                self._again_at[key] = now + AGAIN_S
                _guarded(tell, each)

    def _abandon(self, turn: LostTurn) -> None:
        """End a turn that its own living worker has lost: its claim's answer or its end never got through."""
        if self._step(turn) is None:  # it has ended since: nothing of it is anybody's to kill
            return
        self._end(turn, self._evidence(turn, dead=True), by="worker")

    def _fence(self, turn: LostTurn) -> None:
        """A marked turn whose worker has not settled in time is ended for it (E9)."""
        self._end(turn, self._evidence(turn, dead=False), by="fence")

    def _expire(self, turn: LostTurn) -> None:
        """End a turn whose worker's lease is over, once its processes are proven dead or the wait for proof is over."""
        evidence = self._evidence(turn, dead=True)
        if evidence.proven or turn.expired_s > PROOF_S:
            self._end(turn, evidence, by="sweep")

    def _bury(self, turn: LostTurn) -> None:
        """End a turn whose worker's process has ended, whatever is left of its lease."""
        self._end(turn, self._evidence(turn, dead=True), by="sweep", dead=True)

    def _tell_ended(self, left: LeftProcesses) -> None:
        """Background processes die with their worker (J6): said once it is proven, or the wait for proof is over."""
        evidence = self._evidence(left, dead=True)
        if evidence.proven or left.expired_s > PROOF_S:
            found = evidence.of(left.call).processes
            command = BackgroundEnded(
                left.turn, left.loop, left.call, found["ended"], found["surviving"], not evidence.proven,
                why="worker_lost",
            )  # fmt: skip
            reports.background_ended(left.session, command)

    def _tell_survivors_ended(self, left: LeftProcesses) -> None:
        """The later end of what outlived its kill, where no worker lives to tell of it (E7). Looks and does not wait.

        One without marks may be below a namespace's first process, which has none any more either when it is dying: so
        all that are named are looked for.
        """
        surviving = kill_marked(left.worker, left.turn, left.call, for_s=0).surviving
        with db.cursor("read") as cur:
            named = read.payload(cur, left.session, left.seq)["processes"]["surviving"]
        if not surviving and not any(map(is_there, named)):
            ended = [{**each, "command": each["command"] if isinstance(each["command"], str) else ""} for each in named]
            reports.survivors_ended(left.session, left.loop, left.turn, left.call, ended)

    def _evidence(self, of: LostTurn | LeftProcesses, *, dead: bool) -> Evidence:
        """What the warden has reported, and what can be seen from here of a worker that is `dead`."""
        evidence = Evidence()
        here = dead and of.place == self._place
        if here:  # whatever of it runs can be seen from here: look for oneself
            found = kill_marked(of.worker, of.turn).to_json()
            evidence.ended, evidence.surviving = found["ended"], found["surviving"]
            evidence.proven = True
        with db.cursor("read") as cur:
            rows = cur.execute(_REPORTS_OF[type(of)], asdict(of)).fetchall()
        for call, processes, output in rows:
            evidence.proven = True
            if call:
                left = [each for each in processes["surviving"] if not here or is_there(each)]
                gone = [each for each in processes["surviving"] if each not in left]
                listed = {"ended": [*processes["ended"], *gone], "surviving": left, "background": []}
                evidence.settlements[call] = Settlement("lost", output, processes=listed)
        return evidence

    def _end(
        self, turn: LostTurn, evidence: Evidence, *, by: Literal["worker", "fence", "sweep"], dead: bool = False
    ) -> None:
        started, committed = self._step(turn) or ([], False)
        command = EndTurn(
            turn.turn,
            turn.epoch,
            by,
            cause="worker_lost",
            settlements={call: evidence.of(call) for call in started},
            cut_off={} if committed else self._cut_off(turn),
            phase="tool" if started else turn.phase,
            acknowledged_ms=turn.acknowledged_ms,
            # Since the worker's last sign of life; a worker that lost a turn and lives finds that at once.
            settled_ms=0 if by == "worker" else int(min(max(phases.LEASE_S + turn.expired_s, 0), 3600) * 1000),
            unknown=bool(started) and not evidence.proven,
            request=new_id(),
        )
        try:
            if by == "worker":  # in its name, so that it meets what its worker may have said of it itself (A4)
                answer = reports.report(turn.session, command, turn.worker)
            else:
                check = _recheck(turn.worker, proven=dead or by == "fence")
                answer = reports.end_turn(turn.session, command, check)
            if answer.get("outcome") != "waiting":
                _log.warning("turn %s was ended by the %s", turn.turn, by)
        except Refused as refused:
            if refused.code != "stale":
                raise

    def _step(self, of: LostTurn) -> tuple[list[str], bool] | None:
        """The step's started calls, less those that wait for a delegate, and whether it is committed.

        What streamed of a committed reply was not cut off. None: the turn is over.
        """
        state = read.snapshot(of.session)["state"]
        turn = state["loops"].get(of.loop, {}).get("turn")
        if turn is None or turn["id"] != of.turn:
            return None
        started = [
            call["call"] for call in turn["calls"] or () if call["status"] == "started" and call["child"] is None
        ]
        return started, turn["calls"] is not None

    def _cut_off(self, turn: LostTurn) -> dict[str, str]:
        """What people had seen of the uncommitted step, up to the last saved piece (C3)."""
        pieces = [
            piece
            for piece in stream.read_turn(turn.turn)
            if piece.step == turn.step and piece.kind in ("text", "reasoning")
        ]
        latest = max((piece.attempt for piece in pieces), default=0)
        return {piece.kind: piece.text for piece in pieces if piece.attempt == latest and piece.text}

    def _tidy(self) -> None:
        for statement in _TIDY:
            with db.cursor("read") as cur:
                cur.execute(statement)
        stream.drop_old(STREAM_DAYS)
        files.tidy()


def _guarded(end: Callable[[T], None], of: T) -> None:
    """What cannot be ended at this look keeps nobody from the others and is tried again at a later one (J3)."""
    try:
        if _free(of.session):
            end(of)
    except (Refused, psycopg.Error) as error:
        _log.warning("what is lost of turn %s was not ended at this look: %s", of.turn, error)
    except Exception:  # noqa: BLE001 (one turn's fault must not keep the others running)
        _log.exception("what is lost of turn %s could not be ended", of.turn)


def _free(session: str) -> bool:
    """Whether nobody holds the session's lock: one that is stuck must not cost the others a wait."""
    with db.cursor("stop") as cur:
        return cur.execute(_FREE, (session,)).fetchone() is not None


def _once(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The processes by their pid, the first of each."""
    return list({each["pid"]: each for each in reversed(processes)}.values())[::-1]


def _recheck(worker: str, *, proven: bool) -> Callable[[Cursor[Row]], None]:
    """Checked under the session's lock: a worker that came back in time keeps its turn (J2).

    `proven`: that it cannot, or that it had its time.
    """

    def check(cur: Cursor[Row]) -> None:
        if not proven and lost.lives(cur, worker):
            raise Refused("stale", "The worker is alive.")

    return check
