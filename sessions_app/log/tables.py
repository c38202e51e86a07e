"""What `verify` and `rebuild` know of the tables that are folds of the log: `member`, `interruption`,
`background_process`, `survivor`, and in `file` which event named each first."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Cursor, sql

from sessions_app.engine.state import State
from sessions_app.log import read
from sessions_app.log.db import Row
from sessions_app.log.frames import Stored
from sessions_app.log.projections import INTERRUPTION_COLUMNS, insert_interruption, interruption_row, survivor

_BACKGROUND = "SELECT turn, call, loop, worker, kill_at IS NOT NULL FROM background_process WHERE session = %s"
_SURVIVORS = "SELECT turn::text, call, loop::text, worker::text, seq FROM survivor WHERE session = %s"
_NAMING = ("InputQueued", "InputCancelled", "SteerQueued", "SteerWithdrawn")
_MEMBERS = "SELECT person_id::text, role FROM member WHERE session_id = %s"
_INTERRUPTIONS = sql.SQL("SELECT {} FROM interruption WHERE session_id = %s").format(
    sql.SQL(", ").join(map(sql.Identifier, INTERRUPTION_COLUMNS))
)


@dataclass(slots=True)
class Tables:
    """What the tables should hold of one session. `reasons` says of which turn's reason an event has the words.

    By turn and call: `background` is the loop, the worker, and whether somebody wants it ended; `survivors` the loop,
    the worker, and the settlement that names them. `files` are the events that named each file first, but for those
    that are erased (`gone`).
    """

    members: dict[str, str] = field(default_factory=dict)
    interruptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    background: dict[tuple[str, str], tuple[str, str, bool]] = field(default_factory=dict)
    survivors: dict[tuple[str, str], tuple[str, str, int]] = field(default_factory=dict)
    started: dict[tuple[str, str], datetime] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    naming: dict[int, list[str]] = field(default_factory=dict)

    def step(self, stored: Stored, state: State) -> None:
        """Take in an event; `state` is the one after it."""
        if stored.type in ("ToolSettled", "KillRequested", "ProcessesEnded", "LoopClosed"):
            self._step_background(stored, state)
        if stored.type in ("ToolSettled", "ProcessesEnded"):
            self._step_survivors(stored, state)
        if stored.type in _NAMING:
            self._step_files(stored)
        if stored.type not in ("MemberChanged", "TurnInterrupted", "InterruptReasonGiven"):
            return
        event = read.as_event(stored)
        if event.type == "MemberChanged":
            self.members.pop(event.data["person"], None)
            if event.data["role"] is not None:
                self.members[event.data["person"]] = event.data["role"]
            return
        turn = self.reasons[event.seq] = (
            event.data["turn"] if event.type == "InterruptReasonGiven" else event.turn or ""
        )
        if event.type == "TurnInterrupted":
            index = state.loops[event.loop or ""].turns
            self.interruptions[turn] = interruption_row(stored.session, event, stored.at, index)
            if stored.texts is None:
                self.interruptions[turn]["cut_off"] = None  # nobody knows any more how long it was
        reason = event.data.get("reason")
        self.interruptions[turn]["reason"] = reason if isinstance(reason, str) else None

    def _step_files(self, stored: Stored) -> None:
        ids = [each["id"] for each in read.as_event(stored, texts=False).data.get("files") or ()]
        self.naming |= {stored.seq: ids} if ids else {}
        for id in ids if stored.type.endswith("Queued") else ():
            if id not in self.gone:
                self.files.setdefault(id, stored.seq)

    def _step_background(self, stored: Stored, state: State) -> None:
        listed = [(loop.id, each) for loop in state.loops.values() for each in loop.background]
        for _, each in listed:
            self.started.setdefault((each.turn, each.call), stored.at)
        self.background = {
            (each.turn, each.call): (loop, each.worker, each.killer is not None) for loop, each in listed
        }

    def _step_survivors(self, stored: Stored, state: State) -> None:
        event = read.as_event(stored, texts=False)
        key = (event.turn or "", event.data["call"])
        if event.type == "ToolSettled":
            worker = survivor(state, event)
            if worker is not None:
                self.survivors.setdefault(key, (event.loop or "", worker, event.seq))
        elif not event.data["processes"]["surviving"] and not event.data.get("background"):
            self.survivors.pop(key, None)

    def erase(self, seq: int) -> None:
        """The texts of an event were erased, and the files it names."""
        for id in self.naming.get(seq, ()):
            self.files.pop(id, None)
            self.gone.add(id)
        if seq in self.reasons:
            self.interruptions[self.reasons[seq]]["reason"] = None

    def differences(self, cur: Cursor[Row], session: str) -> Iterator[str]:
        """What the tables have that the log has not, or the other way round."""
        if dict(cur.execute(_MEMBERS, (session,)).fetchall()) != self.members:
            yield "the table `member` differs from the fold of the log"
        if self._background_there(cur, session) != self.background:
            yield "the table `background_process` differs from the fold of the log"
        if self._survivors_there(cur, session) != self.survivors:
            yield "the table `survivor` differs from the fold of the log"
        if self._files_there(cur, session) != self.files:
            yield "the table `file` differs from the fold of the log"
        there = self._there(cur, session)
        for turn in sorted({*there, *self.interruptions}):
            if there.get(turn) != self._known(turn, there):
                yield f"the table `interruption` differs from the fold of the log at turn {turn}"

    def write(self, cur: Cursor[Row], session: str) -> None:
        """Write all of them anew."""
        there = self._there(cur, session)
        cur.execute("DELETE FROM member WHERE session_id = %s", (session,))
        cur.executemany(
            "INSERT INTO member (session_id, person_id, role) VALUES (%s, %s, %s)",
            [(session, person, role) for person, role in self.members.items()],
        )
        cur.execute("DELETE FROM interruption WHERE session_id = %s", (session,))
        for turn in self.interruptions:
            row = self._known(turn, there) or {}
            insert_interruption(cur, {**row, "cut_off": row["cut_off"] or 0})

        for id, seq in self.files.items():
            cur.execute("UPDATE file SET seq = %s WHERE session_id = %s AND id = %s", (seq, session, id))
        cur.execute("DELETE FROM background_process WHERE session = %s", (session,))
        cur.executemany(
            """INSERT INTO background_process (session, loop, turn, call, worker, started_at, kill_at)
               VALUES (%s, %s, %s, %s, %s, %s, CASE WHEN %s THEN now() END)""",
            [
                (session, loop, turn, call, worker, self.started[turn, call], killed)
                for (turn, call), (loop, worker, killed) in self.background.items()
            ],
        )
        cur.execute("DELETE FROM survivor WHERE session = %s", (session,))
        cur.executemany(
            "INSERT INTO survivor (session, loop, turn, call, worker, seq) VALUES (%s, %s, %s, %s, %s, %s)",
            [(session, loop, *key, worker, seq) for key, (loop, worker, seq) in self.survivors.items()],
        )

    @staticmethod
    def _files_there(cur: Cursor[Row], session: str) -> dict[str, int]:
        rows = cur.execute("SELECT id, seq FROM file WHERE session_id = %s AND seq IS NOT NULL", (session,)).fetchall()
        return {str(id): seq for id, seq in rows}

    @staticmethod
    def _background_there(cur: Cursor[Row], session: str) -> dict[tuple[str, str], tuple[str, str, bool]]:
        rows = cur.execute(_BACKGROUND, (session,)).fetchall()
        return {(str(turn), call): (str(loop), str(worker), killed) for turn, call, loop, worker, killed in rows}

    @staticmethod
    def _survivors_there(cur: Cursor[Row], session: str) -> dict[tuple[str, str], tuple[str, str, int]]:
        rows = cur.execute(_SURVIVORS, (session,)).fetchall()
        return {(turn, call): (loop, worker, seq) for turn, call, loop, worker, seq in rows}

    def _known(self, turn: str, there: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        """A turn's row; only the table itself still knows how long an erased text was."""
        row = self.interruptions.get(turn)
        if row is None or row["cut_off"] is not None:
            return row
        return {**row, "cut_off": there[turn]["cut_off"] if turn in there else None}

    @staticmethod
    def _there(cur: Cursor[Row], session: str) -> dict[str, dict[str, Any]]:
        rows = cur.execute(_INTERRUPTIONS, (session,)).fetchall()
        plain = [[str(value) if isinstance(value, UUID) else value for value in row] for row in rows]
        return {row[0]: dict(zip(INTERRUPTION_COLUMNS, row, strict=True)) for row in plain}
