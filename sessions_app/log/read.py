"""Reading the log and what is folded from it. Nothing here takes a session's lock."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import orjson
from psycopg import Cursor, sql

from sessions_app.engine.actors import Actor, Device
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.engine.events import Data, Event
from sessions_app.log import db
from sessions_app.log.db import Row
from sessions_app.log.frames import Audience, Stored, event_frame, instant, milliseconds
from sessions_app.log.payload import facts_only, whole

COLUMNS: Final = "seq, type, at, loop, turn, step, actor, cause, facts, texts"
PAGE_MAX: Final = 1000
INLINE_BYTES: Final = 64 * 1024
"""A text that goes back to its author stands in the event up to this size, and is named by reference above it."""
_SEQ_DIGITS: Final = 19
_RETURNED: Final = """SELECT facts, CASE WHEN octet_length(texts) <= %(most)s THEN texts END, octet_length(texts)
    FROM event WHERE session_id = %(session)s AND seq = %(seq)s"""
PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of frames ends with the event that reaches this size."""
_PAGE: Final = sql.SQL("SELECT {columns} FROM event WHERE {where} ORDER BY seq {order} LIMIT %s")
_NAMED: Final = """SELECT seq, facts, texts FROM event WHERE session_id = %s AND seq = ANY(%s)
    AND position('"files":'::bytea IN facts) > 0"""
_SIZE: Final = "octet_length(facts) + coalesce(octet_length(texts), 0)"
_BOUNDED: Final = sql.SQL(
    f"""SELECT {{columns}} FROM (
        SELECT *, sum({_SIZE}) OVER (ORDER BY seq {{order}}) - ({_SIZE}) AS before FROM ({{page}}) page
    ) sized WHERE before < {{most}} ORDER BY seq {{order}}"""
)


def stored(session: str, row: Sequence[Any]) -> Stored:
    """A row of `COLUMNS` as a value."""
    seq, type_, at, loop, turn, step, actor, cause, facts, texts = row
    return Stored(
        session, seq, type_, at, _text(loop), _text(turn), step, actor, cause, bytes(facts),
        None if texts is None else bytes(texts),
    )  # fmt: skip


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def as_event(row: Stored, *, texts: bool = True) -> Event:
    """A stored row as the engine reads it; without its texts for a fold (A2)."""
    actor = orjson.loads(row.actor)
    device = actor["device"]
    who = Actor(actor["kind"], actor["id"], actor["name"], None if device is None else Device(**device))
    data = whole(row.facts, row.texts) if texts else facts_only(row.facts)
    return Event(row.seq, milliseconds(row.at), row.type, data, row.loop, row.turn, row.step, who, row.cause)


def rows(
    cur: Cursor[Row],
    session: str,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = PAGE_MAX,
    types: Iterable[str] = (),
    loop: str | None = None,
    order: Literal["asc", "desc"] = "asc",
    bounded: bool = False,
) -> list[Stored]:
    """A page of the log: `after < seq < before`, at most `limit`. Events of the session itself pass any `loop` (L4).

    `bounded`: it also ends at about `PAGE_BYTES`.
    """
    where, values = [sql.SQL("session_id = %s AND seq > %s")], [session, after]
    if before is not None:
        where.append(sql.SQL("seq < %s"))
        values.append(before)
    wanted = list(types)
    if wanted:
        where.append(sql.SQL("type = ANY(%s)"))
        values.append(wanted)
    if loop is not None:
        where.append(sql.SQL("(loop = %s OR loop IS NULL)"))
        values.append(loop)
    columns, direction = sql.SQL(COLUMNS), sql.SQL("DESC" if order == "desc" else "ASC")
    query = _PAGE.format(columns=columns, where=sql.SQL(" AND ").join(where), order=direction)
    if bounded:
        query = _BOUNDED.format(columns=columns, page=query, order=direction, most=sql.Literal(PAGE_BYTES))
    return [stored(session, row) for row in cur.execute(query, [*values, min(limit, PAGE_MAX)]).fetchall()]


def events(
    session: str,
    after: int = 0,
    before: int | None = None,
    limit: int = PAGE_MAX,
    types: Iterable[str] = (),
    loop: str | None = None,
    order: Literal["asc", "desc"] = "asc",
    audience: Audience = "member",
) -> list[bytes]:
    """A page of the log as frames, byte for byte what the socket sends that audience; it may end before `limit`."""
    return page(session, after, before, limit, types, loop, order, audience)[0]


def page(
    session: str,
    after: int = 0,
    before: int | None = None,
    limit: int = PAGE_MAX,
    types: Iterable[str] = (),
    loop: str | None = None,
    order: Literal["asc", "desc"] = "asc",
    audience: Audience = "member",
) -> tuple[list[bytes], int | None]:
    """The same, and the seq it ends with if there may be more."""
    with db.cursor("read") as cur:
        found = rows(
            cur, session, after=after, before=before, limit=limit, types=types, loop=loop, order=order, bounded=True
        )
    size = sum(len(row.facts) + len(row.texts or b"") for row in found)
    full = len(found) >= min(limit, PAGE_MAX) or size >= PAGE_BYTES
    return [event_frame(row, audience) for row in found], found[-1].seq if found and full else None


def engine_events(session: str, after: int = 0, loop: str | None = None) -> list[Event]:
    """Every event after `after`, for the transcript and the fold."""
    result: list[Event] = []
    with db.cursor("read") as cur:
        while True:
            page = rows(cur, session, after=after, loop=loop)
            result += [as_event(row) for row in page]
            if len(page) < PAGE_MAX:
                return result
            after = page[-1].seq


def payload(cur: Cursor[Row], session: str, seq: int) -> Data:
    """The whole payload of one event."""
    row = cur.execute("SELECT facts, texts FROM event WHERE session_id = %s AND seq = %s", (session, seq)).fetchone()
    if row is None:
        raise Refused("not_found", "There is no such event.")
    return whole(bytes(row[0]), None if row[1] is None else bytes(row[1]))


def returned(cur: Cursor[Row], session: str, seq: int) -> Any:
    """The text of an input or steer as it goes back to its author: itself, or `{ref, size}` where it is long.

    `size` is in bytes of its JSON; `long_text` reads what `ref` names.
    """
    row = cur.execute(_RETURNED, {"session": session, "seq": seq, "most": INLINE_BYTES}).fetchone()
    if row is None:
        raise Refused("not_found", "There is no such event.")
    facts, texts, size = row
    if size is not None and texts is None:
        return {"ref": f"{seq}.text", "size": size}
    return whole(bytes(facts), None if texts is None else bytes(texts))["text"]


def long_text(session: str, ref: str, offset: int, length: int) -> dict[str, Any]:
    """A part of a text that an event names by reference: `{text, offset, total}`, counted in code points."""
    seq = ref.removesuffix(".text")
    if not (ref.endswith(".text") and seq.isascii() and seq.isdigit() and len(seq) < _SEQ_DIGITS):
        raise Refused("not_found", "There is no such text.")
    with db.cursor("read") as cur:
        text = payload(cur, session, int(seq)).get("text")
    if not isinstance(text, str):
        raise Refused("not_found", "There is no such text, or it was erased.")
    return {"text": text[offset : offset + length], "offset": offset, "total": len(text)}


def heads(sessions: Iterable[str]) -> dict[str, int]:
    """The newest seq of each session: the slow poll behind the bell (L5)."""
    with db.cursor("read") as cur:
        found = cur.execute("SELECT id, head FROM session WHERE id = ANY(%s)", (list(sessions),)).fetchall()
    return {str(row[0]): row[1] for row in found}


def snapshot(session: str, audience: Audience = "member") -> dict[str, Any]:
    """`{seq, state, texts, files}`: where a fresh page starts (L1). Texts and files are those of what waits, by id.

    Observers get no device's name, as in events (L4).
    """
    with db.cursor("read") as cur:
        row = cur.execute("SELECT head, state FROM session WHERE id = %s", (session,)).fetchone()
        if row is None:
            raise Refused("session_not_found", NO_SESSION)
        entries = [entry for loop in row[1]["loops"].values() for entry in (*loop["inbox"], *loop["steers"])]
        waiting = {entry["text_seq"]: entry["id"] for entry in entries}
        queued = {entry["seq"]: entry["id"] for entry in entries}
        texts = cur.execute(
            "SELECT seq, facts, texts FROM event WHERE session_id = %s AND seq = ANY(%s)", (session, list(waiting))
        ).fetchall()
        named = cur.execute(_NAMED, (session, list(queued))).fetchall()
    if audience == "observer":
        acts = [*row[1]["requests"].values()]
        loops = row[1]["loops"].values()
        left = [each for loop in loops for each in (*loop["background"], *((loop["turn"] or {}).get("calls") or ()))]
        for act in (*acts, *(each["killer"] for each in left if each["killer"])):
            device = act["actor"]["device"]
            act["actor"]["device"] = None if device is None else {"kind": device["kind"]}
    return {
        "seq": row[0],
        "state": row[1],
        "texts": {
            waiting[seq]: whole(bytes(facts), None if part is None else bytes(part))["text"]
            for seq, facts, part in texts
        },
        "files": {
            queued[seq]: whole(bytes(facts), None if part is None else bytes(part))["files"]
            for seq, facts, part in named
        },
    }


def phases(session: str) -> list[dict[str, Any]]:
    """What workers are doing this moment in a session, as `hello.live.phases` says it."""
    with db.cursor("read") as cur:
        found = cur.execute(
            """SELECT r.loop, r.turn, r.phase, r.since, r.attempt, r.next_at, r.worker, r.step, r.call, w.draining
               FROM running_turn r LEFT JOIN worker w ON w.id = r.worker WHERE r.session = %s""",
            (session,),
        ).fetchall()
    result = []
    for loop, turn, phase, since, attempt, next_at, worker, step, call, leaving in found:
        item: dict[str, Any] = {"loop": str(loop), "turn": str(turn), "phase": phase, "since": instant(since)}
        item |= {"attempt": attempt, "step": step, "worker": str(worker)}
        if call:
            item["call"] = call
        if leaving:
            item["leaving"] = True
        if next_at is not None:
            item["next_at"] = instant(next_at)
        result.append(item)
    return result


def workspace_of(session: str) -> str:
    """The folder a session's agent works in."""
    with db.cursor("read") as cur:
        row = cur.execute("SELECT workspace FROM session WHERE id = %s", (session,)).fetchone()
    if row is None:
        raise Refused("session_not_found", NO_SESSION)
    return str(row[0])
