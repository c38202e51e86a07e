"""The bytes of uploaded files, beside the log: it says who sent them with what, and can do without them (A3).

They lie in the database, not on a disk: every worker on every machine has them, a hand-over and a restart need nothing,
and erasing is one transaction. `seq` is the event that named a file first; a file that none names goes after a day.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from psycopg import Cursor

from sessions_app.log import db
from sessions_app.log.db import Row
from sessions_app.log.payload import facts_only, whole

_FIND: Final = "SELECT id, name, size, type FROM file WHERE session_id = %s AND id = ANY(%s::uuid[]) FOR UPDATE"
_CARRIED: Final = """SELECT facts, texts FROM event
    WHERE session_id = %s AND seq = %s AND position('"files":'::bytea IN facts) > 0"""
_ADD: Final = """INSERT INTO file (id, session_id, person_id, name, size, type, content)
    VALUES (%(id)s, %(session)s, %(person)s, %(name)s, %(size)s, %(type)s, %(content)s)"""
_TIDY: Final = "DELETE FROM file WHERE seq IS NULL AND at < now() - interval '1 day'"


def add(cur: Cursor[Row], row: dict[str, Any]) -> None:
    """Keep a file: `id`, `session`, `person`, `name`, `size`, `type` and `content`."""
    cur.execute(_ADD, row)


def stored(cur: Cursor[Row], session: str) -> tuple[int, int]:
    """How many files a session has, and their bytes."""
    row = cur.execute("SELECT count(*), coalesce(sum(size), 0) FROM file WHERE session_id = %s", (session,)).fetchone()
    return (0, 0) if row is None else (row[0], int(row[1]))


def find(cur: Cursor[Row], session: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Those of the session's files that are there, by id, as an event names them; `tidy` leaves them to the caller."""
    rows = cur.execute(_FIND, (session, list(ids))).fetchall()
    return {str(id): {"id": str(id), "name": name, "size": size, "type": type_} for id, name, size, type_ in rows}


def carried(cur: Cursor[Row], session: str, seq: int) -> list[dict[str, Any]]:
    """The files that the event `seq` names; the text of a message without any is not read, however long it is."""
    row = cur.execute(_CARRIED, (session, seq)).fetchone()
    if row is None:
        return []
    return list(whole(bytes(row[0]), None if row[1] is None else bytes(row[1])).get("files") or ())


def kept(session: str, ids: Iterable[str]) -> set[str]:
    """Which of these are there: an event may still name a file that was erased with another one."""
    with db.cursor("read") as cur:
        rows = cur.execute(
            "SELECT id FROM file WHERE session_id = %s AND id = ANY(%s::uuid[])", (session, list(ids))
        ).fetchall()
    return {str(id) for (id,) in rows}


def content(session: str, id: str) -> tuple[str, str, bytes] | None:
    """(name, type, bytes) of a file; None where it is not there, or was erased."""
    with db.cursor("read") as cur:
        row = cur.execute(
            "SELECT name, type, content FROM file WHERE session_id = %s AND id = %s", (session, id)
        ).fetchone()
    return None if row is None else (row[0], row[1], bytes(row[2]))


def forget(cur: Cursor[Row], session: str, facts: bytes) -> None:
    """An event is erased: what it names is gone with its name (A3), whatever other events name it."""
    ids = [each["id"] for each in facts_only(facts).get("files") or ()]
    if ids:
        cur.execute("DELETE FROM file WHERE session_id = %s AND id = ANY(%s::uuid[])", (session, ids))


def name_first(cur: Cursor[Row], session: str, seq: int, ids: Iterable[str]) -> None:
    """A message names these files, for the first time or again."""
    cur.execute(
        "UPDATE file SET seq = %s WHERE session_id = %s AND id = ANY(%s::uuid[]) AND seq IS NULL",
        (seq, session, list(ids)),
    )


def tidy() -> None:
    """Forget what was uploaded a day ago and no message has named."""
    with db.cursor("read") as cur:  # without the limits of `write`: it holds no session's lock
        cur.execute(_TIDY)
