"""Stops as people think of them: all that one request ended is one, whichever agents' turns and processes that was.

A stop's turns have its request in common; what it ended in the background has the command of that request as its cause
(E13). Kills that no stop asked for stand for themselves. All of it is read from the log and its projection, a page at a
time: first what stands on the page, then all of each.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson
from psycopg import Cursor, sql
from psycopg.types.json import Jsonb

from sessions_app.engine import stops as counting
from sessions_app.engine.actors import CAUSES
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Event
from sessions_app.engine.instants import read_instant
from sessions_app.engine.stops import Numbers
from sessions_app.log import db, listing, read
from sessions_app.log.db import Row
from sessions_app.log.frames import Audience, instant
from sessions_app.log.payload import facts_only
from sessions_app.log.search import escaped
from sessions_app.people.principals import Principal
from sessions_app.people.roles import require

_MINE: Final = "SELECT session_id FROM member WHERE person_id = %s"
# That somebody wants something in the background ended, or that it ended unasked with its worker: as `event_kills` has
# it.
_KILL: Final = """(e.type = 'KillRequested'
    OR e.type = 'ProcessesEnded' AND position('"why":"worker_'::bytea IN e.facts) > 0)"""
# What the same command caused, found by `event_stops`. People choose their commands' ids, unique for each of them only
# (A4).
_SAME: Final = """o.session_id = e.session_id AND o.cause = e.cause AND o.actor::jsonb->>'id' = e.actor::jsonb->>'id'
    AND o.type IN ('KillRequested', 'TurnInterrupted', 'InterruptRequested', 'SessionChanged')"""
# Of each command whose kills are in no stop the last one.
_LOOSE: Final = f"""(SELECT e.session_id, e.seq, e.at, e.actor::jsonb AS actor, CASE
        WHEN position('"why":"worker_shutdown"'::bytea IN e.facts) > 0 THEN 'worker_shutdown'
        WHEN position('"why":"worker_lost"'::bytea IN e.facts) > 0 THEN 'worker_lost'
        WHEN EXISTS (SELECT FROM event o WHERE {_SAME} AND o.type = 'SessionChanged') THEN 'closing'
        WHEN EXISTS (SELECT FROM event o WHERE {_SAME} AND o.type = 'InterruptRequested'
            AND position('"cause":"parent"'::bytea IN o.facts) > 0) THEN 'parent'
        ELSE %(causes)s::jsonb->>(e.actor::jsonb->>'kind') END AS cause
    FROM event e WHERE {_KILL} AND (e.type = 'ProcessesEnded' OR NOT EXISTS (SELECT FROM event o WHERE {_SAME}
        AND (o.type = 'TurnInterrupted' OR o.type = 'KillRequested' AND o.seq > e.seq))))"""
# A stop stands where the last of its turns stands that fit.
_PAGE: Final = """
(SELECT o.at, o.session_id::text, o.seq, o.stop::text FROM (
    SELECT i.at, i.session_id, i.seq, i.request, coalesce(i.request, i.id) AS stop
    FROM interruption i {mine} WHERE {turns}) o
 WHERE {after} AND (o.request IS NULL OR NOT EXISTS (SELECT FROM interruption i {mine}
    WHERE i.request = o.request AND (i.at, i.session_id, i.seq) > (o.at, o.session_id, o.seq) AND {turns}))
 ORDER BY o.at DESC, o.session_id DESC, o.seq DESC LIMIT %(most)s)
UNION ALL
(SELECT o.at, o.session_id::text, o.seq, NULL FROM (
    SELECT i.at, i.session_id, i.seq FROM {loose} i {mine} WHERE {kills}) o
 WHERE {after} ORDER BY o.at DESC, o.session_id DESC, o.seq DESC LIMIT %(most)s)
ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT %(most)s"""
_AFTER: Final = "(o.at, o.session_id, o.seq) < (%(at)s::timestamptz, %(at_session)s::uuid, %(at_seq)s::bigint)"
# The approvals that each closed stand in its terminal alone.
_TURNS: Final = f"""SELECT {listing.ITEM}, t.facts FROM interruption i {listing.MINE_NAMED}
    JOIN event t ON t.session_id = i.session_id AND t.seq = i.seq
    WHERE (i.request = ANY(%(stops)s::uuid[]) OR i.id = ANY(%(stops)s::uuid[])) AND (m.role IS NOT NULL OR %(admin)s)
    AND (%(session)s::uuid IS NULL OR i.session_id = %(session)s::uuid) ORDER BY i.at DESC, i.seq DESC"""
# What the commands of these turns and kills ended in the background.
_KILLS: Final = """SELECT i.session_id::text, i.seq, e.seq, e.turn::text, e.facts, s.title, m.role
    FROM unnest(%(sessions)s::uuid[], %(seqs)s::bigint[]) i(session_id, seq)
    JOIN event o ON o.session_id = i.session_id AND o.seq = i.seq
    JOIN LATERAL (
        SELECT e.seq, e.at, e.turn, e.facts FROM event e WHERE e.session_id = o.session_id AND e.cause = o.cause
            AND e.type = 'KillRequested' AND e.actor::jsonb->>'id' = o.actor::jsonb->>'id'
        UNION ALL SELECT o.seq, o.at, o.turn, o.facts WHERE o.type = 'ProcessesEnded'
    ) e ON true {mine} ORDER BY e.at, e.seq""".replace("{mine}", listing.MINE)
_TELLING: Final = ["ToolStarted", "ToolSettled", "KillRequested", "ProcessesEnded"]
# What a call has put out, perhaps a lot, is in its settlement's texts.
_TOLD: Final = """SELECT k.session_id::text, e.seq, e.type, e.at, e.loop, e.turn, e.step, e.actor, e.cause, e.facts,
        CASE WHEN e.type <> 'ToolSettled' THEN e.texts END
    FROM unnest(%s::uuid[], %s::uuid[], %s::bytea[]) k(session_id, turn, call)
    JOIN event e ON e.session_id = k.session_id AND e.turn = k.turn AND e.type = ANY(%s)
        AND position(k.call IN e.facts) > 0 ORDER BY k.session_id, e.seq"""

Stop = dict[str, Any]
"""`turns`: the interruptions of one request, the main agent's first, each with its `gates`; `kills`: what it ended in
the background; `numbers`: those of the whole. Turns and kills have theirs, too."""
Place = tuple[str, int]
"""An event's session and number."""


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

    Filters are those of the interruptions; a stop of which a turn fits is there as a whole.
    """
    turns: list[LiteralString] = []
    kills: list[LiteralString] = []
    size = min(limit, listing.PAGE_MAX)
    given: dict[str, Any] = {"me": principal.person, "causes": Jsonb(dict(CAUSES)), "most": size + 1}

    def narrow(of_turns: LiteralString, of_kills: LiteralString | None = None, **values: Any) -> None:
        turns.append(of_turns)
        kills.append(of_turns if of_kills is None else of_kills)
        given.update(values)

    with db.cursor("read") as cur:
        if session is None:  # the server chooses by their number: by time through everybody's, or by session
            mine = [row[0] for row in cur.execute(_MINE, (principal.person,)).fetchall()]
            narrow("m.role IS NOT NULL AND i.session_id = ANY(%(mine)s::uuid[])", mine=mine)
        else:  # an administrator may read any that is named
            require(cur, principal, session, "read")
            narrow("i.session_id = %(session)s::uuid", session=session)
    if person:
        narrow(listing.BY, person=_storable(person))
    if cause:
        narrow("i.cause = %(cause)s", cause=_storable(cause))
    if reason:
        narrow("i.reason ILIKE %(reason)s", "false", reason=f"%{escaped(reason)}%")
    if q:
        narrow(
            "(i.actor->>'name' ILIKE %(q)s OR s.title ILIKE %(q)s OR i.reason ILIKE %(q)s)",
            "(i.actor->>'name' ILIKE %(q)s OR s.title ILIKE %(q)s)",
            q=f"%{escaped(q)}%",
        )
    if start is not None:
        narrow("i.at >= %(start)s", start=start)
    if end is not None:
        narrow("i.at < %(end)s", end=end)
    if cursor:
        given["at"], given["at_session"], given["at_seq"] = _position(cursor)
    query = sql.SQL(_PAGE).format(
        mine=sql.SQL(listing.MINE), loose=sql.SQL(_LOOSE), turns=sql.SQL(" AND ".join(turns)),
        kills=sql.SQL(" AND ".join(kills)), after=sql.SQL(_AFTER if cursor else "true"),
    )  # fmt: skip
    with db.cursor("read") as cur:
        rows = cur.execute(query, given, prepare=False).fetchall()
        found = [(stop or f"{of_session}:{seq}", (of_session, seq)) for _, of_session, seq, stop in rows[:size]]
        loose = {place: name for (name, place), row in zip(found, rows, strict=False) if row[3] is None}
        whole = _whole(cur, principal, [row[3] for row in rows[:size] if row[3] is not None], loose, session)
    last = f"{instant(rows[size - 1][0])}~{rows[size - 1][1]}~{rows[size - 1][2]}" if len(rows) > size else None
    return {"items": [whole[name] for name, _ in found if name in whole], "next": last}


def stop_of(principal: Principal, item: Mapping[str, Any]) -> Stop:
    """The stop that one interruption was a part of, as far as the caller may read it."""
    name = item["request"] or item["id"]
    with db.cursor("read") as cur:
        whole = _whole(cur, principal, [name], {}, None)
    if name not in whole:  # they have just lost their place in the session
        raise Refused("not_found", "There is no such interruption, or it is not yours.")
    return whole[name]


def with_stops(principal: Principal, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Interruptions, each with the numbers of the `stop` that it was a part of, whatever else is listed."""
    names = list(dict.fromkeys(item["request"] or item["id"] for item in items))
    with db.cursor("read") as cur:
        whole = _whole(cur, principal, names, {}, None)
    found = ((item, whole.get(item["request"] or item["id"])) for item in items)
    return [{**item, "stop": dict(stop["numbers"])} for item, stop in found if stop is not None]


def _storable(words: str) -> str:
    """PostgreSQL text cannot hold a NUL."""
    return words.replace("\0", "\ufffd")


def _position(cursor: str) -> tuple[str, str, int]:
    """Where a page ended; `invalid` for a cursor that no page gave."""
    at, _, place = cursor.partition("~")
    session, _, seq = place.partition("~")
    try:
        read_instant(at)
        number = int(seq)
        if not 0 < number < 2**63:
            raise ValueError(seq)
        return at, str(UUID(session)), number
    except ValueError:
        raise Refused("invalid", "This cursor is not one of ours.", field="cursor") from None


def _whole(
    cur: Cursor[Row], principal: Principal, named: Sequence[str], loose: Mapping[Place, str], session: str | None
) -> dict[str, Stop]:
    """These stops with all that the caller may read of them, and by their names those of kills that are in no stop."""
    found: dict[str, Stop] = {name: {"turns": [], "kills": []} for name in (*named, *loose.values())}
    places = dict(loose)
    given = {"me": principal.person, "stops": list(named), "admin": principal.is_admin, "session": session}
    for row in cur.execute(_TURNS, given).fetchall() if named else ():
        item = listing.item(row[:-1])
        item["gates"] = facts_only(bytes(row[-1])).get("gates", [])
        item["numbers"] = _numbers(item)
        name = item["request"] or item["id"]
        found[name]["turns"].append(item)
        if item["request"] is not None:
            places[item["session"], item["seq"]] = name
    _add_kills(cur, principal, places, found)
    for stop in found.values():  # delegates end before their parents: whoever is above stands first
        stop["turns"].sort(key=lambda item: item["task"] is not None)
        stop["numbers"] = counting.together(each["numbers"] for each in (*stop["turns"], *stop["kills"]))
    return {name: stop for name, stop in found.items() if stop["turns"] or stop["kills"]}


def _numbers(item: Mapping[str, Any]) -> Numbers:
    """One turn's, from its row."""
    return Numbers(
        agents=1, approvals=len(item["gates"]), ending=0, acknowledged_ms=item["acknowledged_ms"],
        settled_ms=item["settled_ms"], steps_kept=item["steps_kept"], cut_off=item["cut_off"], ended=item["ended"],
        surviving=item["surviving"], unknown=item["unknown"], held=item["held"], kept=item["kept"],
        cancelled=item["cancelled"], ended_by=item["ended_by"],
    )  # fmt: skip


def _add_kills(cur: Cursor[Row], principal: Principal, places: Mapping[Place, str], found: Mapping[str, Stop]) -> None:
    """What the commands of these events ended in the background, each once: a stop's turns have their command in
    common."""
    if not places:
        return
    sessions, seqs = zip(*places, strict=True)
    given = {"me": principal.person, "sessions": list(sessions), "seqs": list(seqs)}
    kills = {(row[0], row[2]): row for row in cur.execute(_KILLS, given).fetchall()}
    calls = {place: (row[3], facts_only(bytes(row[4]))["call"]) for place, row in kills.items()}
    told = _told(cur, {(place[0], *call) for place, call in calls.items()})
    for place, row in kills.items():
        audience: Audience = "observer" if row[6] == "observer" else "member"
        kill = _kill(place, told[place[0], *calls[place]], audience)
        found[places[row[0], row[1]]]["kills"].append({"title": row[5], **kill})


Call = tuple[str, str, str]
"""A call's session and turn, and its id there."""


def _told(cur: Cursor[Row], calls: set[Call]) -> dict[Call, list[Event]]:
    """The events that say what these calls started, left running and what became of it, in order."""
    told: dict[Call, list[Event]] = {call: [] for call in calls}
    if not calls:
        return told
    sessions, turns, ids = zip(*calls, strict=True)
    written = [orjson.dumps({"call": each})[1:-1] for each in ids]  # as the log has it
    for session, *row in cur.execute(_TOLD, (list(sessions), list(turns), written, _TELLING)).fetchall():
        event = read.as_event(read.stored(session, row))
        told.get((session, event.turn or "", event.data["call"]), []).append(event)
    return told


def _at(event: Event) -> str:
    return instant(datetime.fromtimestamp(event.at_ms / 1000, UTC))


def _kill(place: Place, events: list[Event], audience: Audience) -> dict[str, Any]:
    """One kill: who wanted what ended, when, and what came of it.

    `ended_at` is None while that is not known; `surviving` is what outlived it.
    """
    session, seq = place
    asked = next(event for event in events if event.seq == seq)
    started = next((e for e in reversed(events) if e.type == "ToolStarted" and e.seq < seq), None)
    settled = next((e for e in reversed(events) if e.type == "ToolSettled" and e.seq < seq), None)
    after = [e for e in events if e.type == "ProcessesEnded" and e.seq >= seq]
    surviving = after[-1].data["processes"]["surviving"] if after else []
    left = (settled.data["processes"].get("background") or []) if settled is not None else []
    arguments = started.data.get("arguments") if started is not None else None
    ms = max(0, after[-1].at_ms - asked.at_ms) if after else None
    return {
        "session": session, "loop": asked.loop, "turn": asked.turn, "call": asked.data["call"], "seq": seq,
        "at": _at(asked),
        "numbers": counting.of_background(left, after[-1].data["processes"] if after else None, ms or 0),
        "actor": listing.actor_for(audience, dict(asked.actor.json())), "why": asked.data.get("why"),
        "cause": asked.data.get("why") or CAUSES[asked.actor.kind],
        "command": arguments.get("command") if isinstance(arguments, dict) else None,
        "processes": after[-1].data["processes"]["ended"] if after and after[-1].data["processes"]["ended"] else left,
        "ended_at": _at(after[-1]) if after and not surviving else None,
        "ms": ms,
        "surviving": surviving, "unknown": bool(after and after[-1].data["processes"].get("unknown")),
    }  # fmt: skip
