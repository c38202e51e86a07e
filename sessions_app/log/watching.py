"""What a web process asks about the sessions it watches: short queries behind the bell (L5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sessions_app.log import db
from sessions_app.log.frames import instant

_OPENING: Final = "SELECT head, state FROM session WHERE id = %s"
# Transactions do not become visible in the order of their times; five seconds are far more than one may take (A8).
_CHANGED: Final = """
SELECT id::text, head, active_at FROM session WHERE active_at > %s::timestamptz - interval '5 seconds'
"""
_NEWEST: Final = "SELECT coalesce(max(active_at), now()) FROM session"
_NOW: Final = "SELECT clock_timestamp()"
_READERS: Final = "SELECT session_id::text, person_id::text FROM member WHERE session_id = ANY(%s::uuid[])"

_OF_PERSON: Final = """
SELECT s.id::text FROM member m JOIN session s ON s.id = m.session_id WHERE m.person_id = %s
ORDER BY s.active_at DESC LIMIT %s
"""
_ROWS: Final = """
SELECT s.id::text, title, word, word_since, model, head,
    jsonb_array_length(jsonb_path_query_array(state, '$.loops.*.*[*] ? (@.held == true)')),
    jsonb_path_query_first(state, '$.requests.*.actor.name') #>> '{}', r.phase, r.since,
    nullif((state->'spent'->>'cost')::float, 0)
FROM session s LEFT JOIN LATERAL (
    SELECT phase, since FROM running_turn WHERE session = s.id ORDER BY since LIMIT 1
) r ON true
WHERE s.id = ANY(%s::uuid[])
"""


@dataclass(frozen=True, slots=True)
class Changed:
    """A session that changed of late, by the database's clock."""

    session: str
    head: int
    active_at: datetime


def opening(session: str) -> tuple[int, dict[str, Any]] | None:
    """A session's newest seq and the state of its fold there; None when there is no such session."""
    with db.cursor("read") as cur:
        row = cur.execute(_OPENING, [session]).fetchone()
    return None if row is None else (row[0], row[1])


def now() -> datetime:
    """The time by the database's clock."""
    with db.cursor("read") as cur:
        row = cur.execute(_NOW).fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def newest_activity() -> datetime:
    """When anything last happened in any session, by the database's clock."""
    with db.cursor("read") as cur:
        row = cur.execute(_NEWEST).fetchone()
    assert row is not None
    at: datetime = row[0]
    return at


def changed_since(at: datetime) -> list[Changed]:
    """The sessions that changed since about then; some from shortly before it are among them."""
    with db.cursor("read") as cur:
        return [Changed(*row) for row in cur.execute(_CHANGED, [at]).fetchall()]


def readers(sessions: Sequence[str]) -> dict[str, set[str]]:
    """The members of each of these sessions, by person id."""
    found: dict[str, set[str]] = {session: set() for session in sessions}
    with db.cursor("read") as cur:
        for session, person in cur.execute(_READERS, [list(sessions)]).fetchall():
            found.setdefault(session, set()).add(person)
    return found


def sessions_of(person: str, limit: int) -> list[str]:
    """The sessions somebody is a member of, the last active first."""
    with db.cursor("read") as cur:
        return [row[0] for row in cur.execute(_OF_PERSON, [person, limit]).fetchall()]


def list_rows(sessions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the session list shows of each of these sessions.

    `held` counts the messages set aside; `phase` is what its turn is doing, since `since`; `asked_by` who stops it.
    """
    with db.cursor("read") as cur:
        rows = cur.execute(_ROWS, [list(sessions)]).fetchall()
    found = {}
    for session, title, word, since, model, head, held, asked_by, phase, phase_since, cost in rows:
        row = {"id": session, "title": title, "state": word, "model": model, "head": head, "held": held, "cost": cost}
        row["since"] = instant(phase_since if phase is not None and word in ("running", "approval") else since)
        found[session] = {**row, "phase": phase, "asked_by": asked_by}
    return found
