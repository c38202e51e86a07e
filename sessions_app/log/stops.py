"""Stops as people think of them: all that one request ended is one, whichever agents' turns and processes that was.

A stop's turns have its request in common; what it ended in the background has the command of that request as its cause
(E13). Kills that no stop asked for stand for themselves. All of it is read from the log and its projection.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, LiteralString

from psycopg import Cursor, sql

from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Event
from sessions_app.log import db, listing, read
from sessions_app.log.db import Row
from sessions_app.log.frames import Audience, instant
from sessions_app.log.search import escaped
from sessions_app.people.principals import Principal
from sessions_app.people.roles import require

_TURN_STOP: Final = "coalesce(i.request, i.id)::text"
# That somebody wants something in the background ended, and that it ended unasked with its worker.
_KILLS: Final = """(SELECT e.session_id, e.seq, e.at, e.type, e.turn, e.actor::jsonb AS actor,
    CASE WHEN position('"why":"worker_shutdown"'::bytea IN e.facts) > 0 THEN 'worker_shutdown'
         WHEN position('"why":"worker_lost"'::bytea IN e.facts) > 0 THEN 'worker_lost' END AS why,
    CASE WHEN e.type = 'KillRequested' THEN coalesce(
        (SELECT min(i.request::text) FROM interruption i JOIN event t ON t.session_id = i.session_id AND t.seq = i.seq
         WHERE i.session_id = e.session_id AND i.request IS NOT NULL AND t.cause = e.cause),
        e.session_id || ':' || e.cause) ELSE e.session_id || ':' || e.seq END AS stop
    FROM event e WHERE e.type IN ('KillRequested', 'ProcessesEnded'))"""
_TELLING: Final = ["ToolStarted", "ToolSettled", "KillRequested", "ProcessesEnded"]
_FOUND: Final = sql.SQL("""
SELECT stop, max(at) FROM (
    SELECT {turn_stop} AS stop, i.at FROM interruption i {mine} WHERE {turns}
    UNION ALL SELECT i.stop, i.at FROM {kills} i {mine} WHERE (i.type = 'KillRequested' OR i.why IS NOT NULL) AND {ends}
) found GROUP BY stop HAVING {after} ORDER BY 2 DESC, 1 DESC LIMIT %s""")

Stop = dict[str, Any]
"""`turns`: the interruptions of one request, the main agent's first; `kills`: what it ended in the background."""


def stops(
    principal: Principal,
    *,
    session: str | None = None,
    person: str | None = None,
    cause: str | None = None,
    reason: str | None = None,
    q: str | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> dict[str, Any]:
    """The stops of the sessions the caller may read, the newest first: `{items, next}`.

    Filters are those of the interruptions; a stop of which anything fits is there as a whole.
    """
    turns: list[sql.Composable] = []
    ends: list[sql.Composable] = []
    values: tuple[list[Any], list[Any]] = ([], [])

    def narrow(of_turns: LiteralString, of_kills: LiteralString, *given: Any) -> None:
        for where, held, condition in zip((turns, ends), values, (of_turns, of_kills), strict=True):
            where.append(sql.SQL(condition))
            held.extend(given[: condition.count("%s")])

    def both(condition: LiteralString, *given: Any) -> None:
        narrow(condition, condition, *given)

    _readable(principal, session, both)
    if person:
        both(listing.BY, person)
    if cause:
        kind = {"token": "agent"}.get(cause, cause)
        narrow("i.cause = %s", "%s IN (i.why, CASE WHEN i.why IS NULL THEN i.actor->>'kind' END)", cause)
        values[1][-1] = kind
    if reason:
        narrow("i.reason ILIKE %s", "false", f"%{escaped(reason)}%")
    if q:
        like = f"%{escaped(q)}%"
        narrow(
            "(i.actor->>'name' ILIKE %s OR s.title ILIKE %s OR i.reason ILIKE %s)",
            "(i.actor->>'name' ILIKE %s OR s.title ILIKE %s)",
            *[like] * 3,
        )
    if start is not None:
        both("i.at >= %s", start)
    if end is not None:
        both("i.at < %s", end)
    query = _FOUND.format(
        turn_stop=sql.SQL(_TURN_STOP), mine=sql.SQL(listing.MINE), kills=sql.SQL(_KILLS),
        turns=sql.SQL(" AND ").join(turns), ends=sql.SQL(" AND ").join(ends),
        after=sql.SQL("(max(at), stop) < (%s::timestamptz, %s)" if cursor else "true"),
    )  # fmt: skip
    size = min(limit, listing.PAGE_MAX)
    given = [principal.person, *values[0], principal.person, *values[1], *(_position(cursor) if cursor else ())]
    with db.cursor("read") as cur:
        found = cur.execute(query, [*given, size + 1]).fetchall()
        named = [str(row[0]) for row in found[:size]]
        whole = _whole(cur, principal, named, session)
    last = f"{instant(found[size - 1][1])}~{named[-1]}" if len(found) > size else None
    return {"items": [whole[each] for each in named if each in whole], "next": last}


def stop_of(principal: Principal, item: Mapping[str, Any]) -> Stop:
    """The stop that one interruption was a part of, as far as the caller may read it."""
    name = item["request"] or item["id"]
    with db.cursor("read") as cur:
        whole = _whole(cur, principal, [name], None)
    return whole.get(name) or {"turns": [dict(item)], "kills": []}


def _readable(principal: Principal, session: str | None, narrow: Any) -> None:
    """Sessions of one's own; an administrator may read any that is named."""
    if session is None:
        narrow("m.role IS NOT NULL")
        return
    with db.cursor("read") as cur:
        require(cur, principal, session, "read")
    narrow("i.session_id = %s", session)


def _position(cursor: str) -> tuple[str, str]:
    """Where a page ended; `invalid` for a cursor that no page gave."""
    at, _, stop = cursor.partition("~")
    try:
        datetime.fromisoformat(at)
    except ValueError:
        raise Refused("invalid", "This cursor is not one of ours.", field="cursor") from None
    return at, stop


def _whole(cur: Cursor[Row], principal: Principal, named: list[str], session: str | None) -> dict[str, Stop]:
    """These stops with all that the caller may read of them."""
    found: dict[str, Stop] = {name: {"turns": [], "kills": []} for name in named}
    may: sql.Composable = sql.SQL("(m.role IS NOT NULL OR %s)")
    about: list[Any] = [principal.person, named, principal.is_admin]
    mine = sql.SQL(listing.MINE)
    if session is not None:
        may, about = sql.SQL("{} AND i.session_id = %s").format(may), [*about, session]
    rows = cur.execute(
        sql.SQL("SELECT {} FROM interruption i {} WHERE {} = ANY(%s) AND {} ORDER BY i.at DESC, i.seq DESC").format(
            sql.SQL(listing.ITEM), sql.SQL(listing.MINE_NAMED), sql.SQL(_TURN_STOP), may
        ),
        about,
    ).fetchall()
    for row in rows:
        item = listing.item(row)
        found[item["request"] or item["id"]]["turns"].append(item)
    kills = cur.execute(
        sql.SQL(
            "SELECT i.stop, i.session_id::text, s.title, m.role, i.seq, i.turn FROM {} i {} "
            "WHERE i.stop = ANY(%s) AND {} AND (i.type = 'KillRequested' OR i.why IS NOT NULL) ORDER BY i.at, i.seq"
        ).format(sql.SQL(_KILLS), mine, may),
        about,
    ).fetchall()
    told = _told(cur, {(row[1], str(row[5])) for row in kills})
    for stop, of_session, title, role, seq, _ in kills:
        audience: Audience = "observer" if role == "observer" else "member"
        found[stop]["kills"].append({"title": title, **_kill(of_session, seq, told, audience)})
    for stop in found.values():  # delegates end before their parents: whoever is above stands first
        stop["turns"].sort(key=lambda item: item["task"] is not None)
    return {name: stop for name, stop in found.items() if stop["turns"] or stop["kills"]}


Told = dict[str, list[Event]]


def _at(event: Event) -> str:
    return instant(datetime.fromtimestamp(event.at_ms / 1000, UTC))


def _told(cur: Cursor[Row], turns: Iterable[tuple[str, str]]) -> Told:
    """The events that say what these kills were about, by session and in order."""
    told: Told = {}
    for session, turn in turns:
        rows = cur.execute(
            f"SELECT {read.COLUMNS} FROM event WHERE session_id = %s AND turn = %s AND type = ANY(%s) ORDER BY seq",
            (session, turn, _TELLING),
        ).fetchall()
        told.setdefault(session, []).extend(read.as_event(read.stored(session, row)) for row in rows)
    return told


def _kill(session: str, seq: int, told: Told, audience: Audience) -> dict[str, Any]:
    """One kill: who wanted what ended, when, and what came of it.

    `ended_at` is None while that is not known; `surviving` is what outlived it.
    """
    events = told[session]
    asked = next(event for event in events if event.seq == seq)
    same = [e for e in events if e.turn == asked.turn and e.data.get("call") == asked.data["call"]]
    started = next((e for e in reversed(same) if e.type == "ToolStarted" and e.seq < seq), None)
    settled = next((e for e in reversed(same) if e.type == "ToolSettled" and e.seq < seq), None)
    after = [e for e in same if e.type == "ProcessesEnded" and e.seq >= seq]
    surviving = after[-1].data["processes"]["surviving"] if after else []
    left = (settled.data["processes"].get("background") or []) if settled is not None else []
    arguments = started.data.get("arguments") if started is not None else None
    return {
        "session": session, "turn": asked.turn, "call": asked.data["call"], "seq": seq, "at": _at(asked),
        "actor": listing.actor_for(audience, dict(asked.actor.json())), "why": asked.data.get("why"),
        "command": arguments.get("command") if isinstance(arguments, dict) else None,
        "processes": after[-1].data["processes"]["ended"] if after and after[-1].data["processes"]["ended"] else left,
        "ended_at": _at(after[-1]) if after and not surviving else None,
        "ms": max(0, after[-1].at_ms - asked.at_ms) if after else None,
        "surviving": surviving, "unknown": bool(after and after[-1].data["processes"].get("unknown")),
    }  # fmt: skip
