"""The turns of a session at a glance, so that a page of any length can be jumped about in."""

from typing import Any, Final

import orjson
from psycopg import Cursor

from sessions_app.log import db
from sessions_app.log.db import Row
from sessions_app.log.frames import instant
from sessions_app.log.payload import facts_only

_STARTS: Final = """SELECT turn, seq, at FROM event WHERE session_id = %(session)s AND loop = %(loop)s
    AND type = 'TurnStarted' ORDER BY seq OFFSET %(skip)s LIMIT %(limit)s"""
_ENDS: Final = """SELECT turn, type, seq, actor, facts FROM event WHERE session_id = %(session)s AND loop = %(loop)s
    AND seq > %(first)s AND type IN ('TurnDone', 'TurnFailed', 'TurnInterrupted') ORDER BY seq LIMIT %(limit)s"""
_ONE: Final = """SELECT type, seq, at, actor, facts FROM event WHERE session_id = %s AND turn = %s
    AND type IN ('TurnStarted', 'TurnDone', 'TurnFailed', 'TurnInterrupted') ORDER BY seq"""
_PRIMARY: Final = """SELECT value ->> 'id', (value ->> 'turns')::bigint FROM session, jsonb_each(state -> 'loops')
    WHERE session.id = %(session)s AND value ->> 'parent' IS NULL"""


def turns(session: str, before: int | None, limit: int, turn: str | None = None) -> dict[str, Any]:
    """`{items, next}`: up to `limit` turns of the primary loop numbered below `before`, newest first.

    Turns are numbered from 1 without gaps, so a number says how many rows to pass over. With `turn`: that one alone, of
    any loop.
    """
    with db.cursor("read") as cur:
        if turn is not None:
            return _one(cur, session, turn)
        primary = cur.execute(_PRIMARY, {"session": session}).fetchone()
        if primary is None:
            return {"items": [], "next": None}
        loop, count = primary
        below = count if before is None else min(before - 1, count)
        skip = max(0, below - limit)
        wanted = {"session": session, "loop": loop, "skip": skip, "limit": below - skip}
        starts = cur.execute(_STARTS, wanted).fetchall()
        first = starts[0][1] if starts else 0
        ends = {row[0]: row[1:] for row in cur.execute(_ENDS, {**wanted, "first": first}).fetchall()}
    items = [_item(index, turn, seq, at, ends.get(turn)) for index, (turn, seq, at) in enumerate(starts, skip + 1)]
    return {"items": items[::-1], "next": skip + 1 if skip else None}


def _one(cur: Cursor[Row], session: str, turn: str) -> dict[str, Any]:
    found = cur.execute(_ONE, (session, turn)).fetchall()
    if not found or found[0][0] != "TurnStarted":
        return {"items": [], "next": None}
    _, seq, at, _, facts = found[0]
    end = next(((kind, ended, actor, data) for kind, ended, _, actor, data in found[1:]), None)
    return {"items": [_item(facts_only(bytes(facts))["index"], turn, seq, at, end)], "next": None}


def _item(index: int, turn: Any, seq: int, at: Any, end: tuple[Any, ...] | None) -> dict[str, Any]:
    kind, ended, actor, facts = end or (None, None, None, None)
    cause = facts_only(bytes(facts)).get("cause") if kind == "TurnInterrupted" else None
    by = {key: orjson.loads(actor)[key] for key in ("kind", "id", "name")} if cause is not None else None
    return {
        "turn": str(turn), "index": index, "seq": seq, "at": instant(at), "end": kind,
        "ended_seq": ended, "cause": cause, "by": by,
    }  # fmt: skip
