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
_READERS: Final = "SELECT session_id::text, person_id::text, role FROM member WHERE session_id = ANY(%s::uuid[])"

_OF_PERSON: Final = """
SELECT s.id::text FROM member m JOIN session s ON s.id = m.session_id WHERE m.person_id = %s
ORDER BY s.active_at DESC LIMIT %s
"""
# Of several agents at work the one that tells most is shown: what waits for a person, then what does something itself.
# An approval waits since the event that asked for it, whatever worker has its turn by now (H1).
_ROWS: Final = """
SELECT s.id::text, title, word, word_since, active_at, created_by_id::text, model, head,
    jsonb_array_length(jsonb_path_query_array(state, '$.loops.*.*[*] ? (@.held == true)')),
    jsonb_array_length(jsonb_path_query_array(state, '$.loops.*.background[*]')),
    jsonb_array_length(jsonb_path_query_array(state, '$.loops.*.turn.id')),
    jsonb_path_query_first(state, '$.requests.*.actor.name') #>> '{}', r.phase, r.since,
    jsonb_path_query_first(state, '$.loops.*.turn.calls[*] ? (@.call == $call)', jsonb_build_object('call', r.call))
        ->> 'tool',
    nullif((state->'spent'->>'cost')::float, 0), g.asks, g.since
FROM session s LEFT JOIN LATERAL (
    SELECT phase, since, call FROM running_turn WHERE session = s.id
    ORDER BY phase = 'gate' DESC, phase = 'delegate', since LIMIT 1
) r ON true LEFT JOIN LATERAL (
    SELECT count(*) AS asks, min(e.at) AS since
    FROM jsonb_path_query(state, '$.loops.*.turn.calls[*] ? (@.answer == "open").seq') open
    JOIN event e ON e.session_id = s.id AND e.seq = open::bigint
) g ON word = 'approval'
WHERE s.id = ANY(%s::uuid[])
"""
_PLACES: Final = "SELECT session_id::text, person_id::text, pinned, archived FROM list_place WHERE session_id = ANY(%s)"


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


def readers(sessions: Sequence[str]) -> dict[str, dict[str, str]]:
    """The members of each of these sessions: their roles by person id."""
    found: dict[str, dict[str, str]] = {session: {} for session in sessions}
    with db.cursor("read") as cur:
        for session, person, role in cur.execute(_READERS, [list(sessions)]).fetchall():
            found.setdefault(session, {})[person] = role
    return found


def sessions_of(person: str, limit: int) -> list[str]:
    """The sessions somebody is a member of, the last active first."""
    with db.cursor("read") as cur:
        return [row[0] for row in cur.execute(_OF_PERSON, [person, limit]).fetchall()]


def places(sessions: Sequence[str]) -> dict[tuple[str, str], tuple[bool, bool]]:
    """(pinned, archived) by session and person, where somebody keeps one of these sessions apart in their list."""
    with db.cursor("read") as cur:
        found = cur.execute(_PLACES, [list(sessions)]).fetchall()
    return {(session, person): (pinned, archived) for session, person, pinned, archived in found}


def list_rows(sessions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the session list shows of each of these sessions.

    `held` counts the messages set aside, `background` the calls that left something running, `agents` those at work,
    `asks` the approvals that wait, the longest of them since `since`; else `phase` is what one agent
    is doing, with which `tool`, since `since`; `asked_by` who stops it.
    """
    with db.cursor("read") as cur:
        rows = cur.execute(_ROWS, [list(sessions)]).fetchall()
    found = {}
    for row in rows:
        (
            session, title, word, since, active_at, created_by, model, head, held, background, agents, asked_by, phase,
            phase_since, tool, cost, asks, asked,
        ) = row  # fmt: skip
        at_work = phase is not None and word in ("running", "approval")
        shown = asked or (phase_since if at_work else since)
        found[session] = {
            "id": session, "title": title, "state": word, "since": instant(shown),
            "active_at": instant(active_at), "created_by": created_by, "model": model, "head": head, "held": held,
            "background": background, "agents": agents, "asked_by": asked_by, "phase": phase, "tool": tool,
            "cost": cost, "asks": asks or 0,
        }  # fmt: skip
    return found
