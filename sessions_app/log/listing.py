"""Lists over sessions, for whoever may read them: the sessions themselves and their interruptions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson
from psycopg import sql

from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.engine.instants import read_instant
from sessions_app.log import db, search, watching
from sessions_app.log.frames import instant
from sessions_app.log.payload import facts_only, whole
from sessions_app.log.read import payload
from sessions_app.log.search import Hit, escaped
from sessions_app.people.members import members_of
from sessions_app.people.principals import Principal
from sessions_app.people.roles import CAN, require

PAGE_MAX: Final = 200
_SESSION: Final = (
    "s.id, s.title, s.word, s.word_since, s.active_at, s.created_at, s.created_by_id, s.workspace, s.model, "
    "s.head, s.settings, nullif((s.state->'spent'->>'cost')::float, 0), coalesce(p.pinned, false), "
    "coalesce(p.archived, false)"
)
ITEM: Final = (
    "i.id, i.request, i.session_id, i.loop, i.seq, i.turn_index, i.at, i.actor, i.cause, i.reason, i.phase, "
    "i.ended_by, i.acknowledged_ms, i.settled_ms, i.steps_kept, i.cut_off, i.ended, i.surviving, i.unknown, i.kept, "
    "i.held, i.cancelled, s.title, m.role, l.facts, l.task"
)
_PLACE: Final = "LEFT JOIN list_place p ON p.session_id = s.id AND p.person_id = %s"
_ONE: Final = sql.SQL("SELECT {} FROM session s {} WHERE s.id = %s").format(sql.SQL(_SESSION), sql.SQL(_PLACE))
ACTIVE: Final = ("waiting", "running", "approval", "stopping", "closing")
"""A session's words while something is under way in it, or about to be."""
_STARTERS: Final = """SELECT id, username FROM person WHERE id IN (
    SELECT s.created_by_id FROM session s JOIN member m ON m.session_id = s.id AND m.person_id = %s)
    ORDER BY lower(username)"""
RECENT: Final = 6
_RECENT: Final = (
    """SELECT model, workspace, id FROM session WHERE created_by_id = %s ORDER BY created_at DESC LIMIT 60"""
)
# Somebody, by name or id: in person or by a token of their own, revoked ones too. Their agents are others (A5).
BY: Final = """EXISTS (SELECT 1 FROM (SELECT %(person)s::text AS who) q WHERE i.actor->>'id' = q.who
    OR lower(i.actor->>'name') = lower(q.who) OR i.actor->>'id' IN (
        SELECT t.id::text FROM api_token t JOIN person p ON p.id = t.person_id
        WHERE NOT t.agent AND (p.id::text = q.who OR lower(p.username) = lower(q.who))))"""
# An administrator may read every session; everybody else those they are a member of.
MINE: Final = "JOIN session s ON s.id = i.session_id LEFT JOIN member m ON m.session_id = s.id AND m.person_id = %(me)s"
# A name needs no more of a task, which may be a whole document.
MINE_NAMED: Final = f"""{MINE} LEFT JOIN LATERAL (SELECT e.facts, left(message_words(e.texts), 200) AS task FROM event e
    WHERE e.session_id = i.session_id AND e.loop = i.loop AND e.type = 'LoopStarted') l ON true"""
"""The same with what the event says that tells whose turn it was."""


def _session(row: Sequence[Any]) -> dict[str, Any]:
    (
        id_, title, word, since, active_at, created_at, created_by, workspace, model, head, settings, cost, pinned,
        archived,
    ) = row  # fmt: skip
    return {
        "id": str(id_), "title": title, "state": word, "since": instant(since), "active_at": instant(active_at),
        "created_at": instant(created_at), "created_by": str(created_by), "workspace": workspace, "model": model,
        "pinned": pinned, "archived": archived, "head": head, "settings": settings, "cost": cost,
    }  # fmt: skip


def session_view(principal: Principal, session: str) -> dict[str, Any]:
    """One session with its members, its `head`, and what the caller may do in it; `session_not_found`."""
    with db.cursor("read") as cur:
        role = require(cur, principal, session, "read")
        row = cur.execute(_ONE, (principal.person, session)).fetchone()
        if row is None:
            raise Refused("session_not_found", NO_SESSION)
        members = [member.json() for member in members_of(cur, session)] if role != "observer" else []
    return {**_session(row), "members": members, "role": role, "can": sorted(CAN[role])}


def list_sessions(
    principal: Principal,
    state: str | None = None,
    q: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
    person: str | None = None,
) -> dict[str, Any]:
    """The caller's sessions, pinned first, then the last active: `{items, next}`.

    Archived ones are left out, unless something is under way in one and that `state` is asked for, or the state is
    `archived`, or there are words to look for. `q`: sessions with all these words in the title or in one message, whose
    newest such message is the item's `hit`. `person` (name or id): those that somebody started.
    """
    where: list[sql.Composable] = [sql.SQL("m.person_id = %s")]
    values: list[Any] = [principal.person, principal.person]

    def narrow(condition: LiteralString, *given: Any) -> None:
        where.append(sql.SQL(condition))
        values.extend(given)

    hits: dict[str, Hit] = {}
    if state == "archived":
        narrow("p.archived")
    elif state:
        narrow("s.word = %s", state)
    if not q and state not in (*ACTIVE, "archived"):
        narrow("p.archived IS NOT TRUE")
    if person:
        narrow(
            "s.created_by_id IN (SELECT id FROM person WHERE lower(username) = lower(%s) OR id::text = %s)",
            *[person] * 2,
        )
    if q:
        hits = search.newest_hits(principal, q)
        narrow("(s.title ILIKE ALL(%s) OR s.id = ANY(%s::uuid[]))", search.patterns(q), list(hits))
    if cursor:
        pinned, at, last = _position(cursor, 3)
        narrow(
            "(coalesce(p.pinned, false), s.active_at, s.id) < (%s::boolean, %s::timestamptz, %s::uuid)",
            pinned,
            at,
            last,
        )
    query = sql.SQL(
        "SELECT {columns}, m.role FROM session s JOIN member m ON m.session_id = s.id {place} WHERE {where} "
        "ORDER BY coalesce(p.pinned, false) DESC, s.active_at DESC, s.id DESC LIMIT %s"
    ).format(columns=sql.SQL(_SESSION), place=sql.SQL(_PLACE), where=sql.SQL(" AND ").join(where))
    size = min(limit, PAGE_MAX)
    with db.cursor("read") as cur:
        rows = cur.execute(query, [*values, size + 1]).fetchall()
    items = [{**_session(row[:-1]), "role": row[-1]} for row in rows[:size]]
    last_item = items[-1] if len(rows) > size else None
    following = None
    if last_item is not None:
        following = f"{last_item['pinned']}~{last_item['active_at']}~{last_item['id']}".lower()
    at_work = watching.list_rows([item["id"] for item in items])
    excerpts = search.excerpts([hits[item["id"]] for item in items if item["id"] in hits], q or "")
    for item in items:
        item |= at_work.get(item["id"], {})
        if item["id"] in excerpts:
            item["hit"] = excerpts[item["id"]]
    return {"items": items, "next": following}


def starters(principal: Principal) -> list[dict[str, str]]:
    """Who has started the sessions in the caller's list: `{id, name}`, by name."""
    with db.cursor("read") as cur:
        found = cur.execute(_STARTERS, (principal.person,)).fetchall()
    return [{"id": str(id_), "name": name} for id_, name in found]


def named(sessions: Sequence[str]) -> list[dict[str, Any]]:
    """These sessions as the list shows them, in their order, each with `started_by`, a name."""
    rows = watching.list_rows(sessions)
    with db.cursor("read") as cur:
        found = cur.execute(
            "SELECT id::text, username FROM person WHERE id = ANY(%s::uuid[])",
            ([row["created_by"] for row in rows.values()],),
        ).fetchall()
    names = dict(found)
    return [{**rows[each], "started_by": names.get(rows[each]["created_by"], "")} for each in sessions if each in rows]


def recent(principal: Principal) -> dict[str, list[str]]:
    """What the caller's newest sessions use: `{models, workspaces}`, the last used first; scratch folders are none."""
    with db.cursor("read") as cur:
        found = cur.execute(_RECENT, (principal.person,)).fetchall()
    models = dict.fromkeys(row[0] for row in found)
    places = dict.fromkeys(row[1] for row in found if not row[1].endswith(f"/workspaces/{row[2]}"))
    return {"models": list(models)[:RECENT], "workspaces": list(places)[:RECENT]}


def interruptions(
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
    """Interrupted turns of the sessions the caller may read, the newest first: `{items, next}`."""
    where: list[sql.Composable] = [sql.SQL("m.role IS NOT NULL")]
    given: dict[str, Any] = {"me": principal.person}

    def narrow(condition: LiteralString, **values: Any) -> None:
        where.append(sql.SQL(condition))
        given.update(values)

    if session is not None:
        with db.cursor("read") as cur:
            if require(cur, principal, session, "read") == "admin":
                where.clear()
        narrow("i.session_id = %(session)s", session=session)
    if person:
        narrow(BY, person=person)
    if cause:
        narrow("i.cause = %(cause)s", cause=cause)
    if reason:
        narrow("i.reason ILIKE %(reason)s", reason=f"%{escaped(reason)}%")
    if q:
        fits = "(i.reason ILIKE %(q)s OR i.actor->>'name' ILIKE %(q)s OR s.title ILIKE %(q)s)"
        narrow(fits, q=f"%{escaped(q)}%")
    if start is not None:
        narrow("i.at >= %(start)s", start=start)
    if end is not None:
        narrow("i.at < %(end)s", end=end)
    if cursor:
        at, last = _position(cursor, 2)
        narrow("(i.at, i.id) < (%(at)s::timestamptz, %(last)s::uuid)", at=at, last=last)
    query = sql.SQL(
        "SELECT {columns} FROM interruption i {mine} WHERE {where} ORDER BY i.at DESC, i.id DESC LIMIT %(most)s"
    )
    query_ = query.format(columns=sql.SQL(ITEM), mine=sql.SQL(MINE_NAMED), where=sql.SQL(" AND ").join(where))
    size = min(limit, PAGE_MAX)
    with db.cursor("read") as cur:
        rows = cur.execute(query_, {**given, "most": size + 1}).fetchall()
    items = [item(row) for row in rows[:size]]
    return {"items": items, "next": f"{items[-1]['at']}~{items[-1]['id']}" if len(rows) > size else None}


def interruption(principal: Principal, id: str) -> dict[str, Any]:
    """One interruption by its turn's id, with its terminal's data; `not_found` also for one of other people's."""
    with db.cursor("read") as cur:
        query = sql.SQL("SELECT {columns} FROM interruption i {mine} WHERE i.id = %(id)s").format(
            columns=sql.SQL(ITEM), mine=sql.SQL(MINE_NAMED)
        )
        row = cur.execute(query, {"me": principal.person, "id": id}).fetchone()
        if row is None:
            raise Refused("not_found", "There is no such interruption, or it is not yours.")
        found = item(row)
        try:
            require(cur, principal, found["session"], "read")
        except Refused as refused:
            if refused.code != "session_not_found":
                raise
            raise Refused("not_found", "There is no such interruption, or it is not yours.") from None
        return {**found, "data": payload(cur, found["session"], found["seq"])}


def item(row: Sequence[Any]) -> dict[str, Any]:
    """A row of `ITEM`. `task`: how that of the sub-agent starts whose turn it was; None for the main agent's."""
    names = [part.strip().partition(".")[2] for part in ITEM.split(",")]
    found = dict(zip(names, row, strict=True))
    role = found.pop("role")
    session = str(found.pop("session_id"))
    actor = actor_for(role, found["actor"])
    request = None if found["request"] is None else str(found["request"])
    turn, task = str(found["id"]), _task(found.pop("facts"), found["task"])
    return {
        **found, "id": turn, "turn": turn, "session": session, "loop": str(found["loop"]), "at": instant(found["at"]),
        "actor": actor, "request": request, "task": task,
    }  # fmt: skip


def _task(facts: Any, start: str | None) -> str | None:
    """The task in a `LoopStarted`; empty where it was erased."""
    return None if facts is None or facts_only(bytes(facts))["parent"] is None else start or ""


def actor_for(role: str | None, actor: dict[str, Any]) -> dict[str, Any]:
    """An actor as that role sees it: observers do not get a device's name (L4)."""
    if role != "observer" or actor["device"] is None:
        return actor
    return {**actor, "device": {"kind": actor["device"]["kind"]}}


def _position(cursor: str, parts: int) -> list[str]:
    """Where a page ended; `invalid` for a cursor that no page gave."""
    found = cursor.split("~")
    try:
        if len(found) != parts:
            raise ValueError(cursor)
        read_instant(found[-2])
        found[-1] = str(UUID(found[-1]))
        if parts == 3 and found[0] not in ("true", "false"):
            raise ValueError(cursor)
    except ValueError:
        raise Refused("invalid", "This cursor is not one of ours.", field="cursor") from None
    return found


def rules(principal: Principal, session: str) -> list[dict[str, Any]]:
    """A session's rules (H3): `{id, kind, tool, value, at, by}`, the oldest first; an erased value is null."""
    with db.cursor("read") as cur:
        role = require(cur, principal, session, "read")
        row = cur.execute("SELECT state FROM session WHERE id = %s", (session,)).fetchone()
        if row is None:
            raise Refused("session_not_found", NO_SESSION)
        made = {rule["seq"]: rule for rule in row[0]["rules"]}
        found = cur.execute(
            "SELECT seq, at, actor, facts, texts FROM event WHERE session_id = %s AND seq = ANY(%s) ORDER BY seq",
            (session, list(made)),
        ).fetchall()
    items = []
    for seq, at, actor, facts, texts in found:
        value = whole(bytes(facts), None if texts is None else bytes(texts))["rule"]["value"]
        items.append(
            {
                **{key: made[seq][key] for key in ("id", "kind", "tool")},
                "value": value if isinstance(value, str) else None,
                "at": instant(at),
                "by": actor_for(role, orjson.loads(actor)),
            }
        )
    return items
