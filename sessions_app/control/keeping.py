"""What owners do with a session itself: its title and settings, who may see it, and what it has to forget."""

from collections.abc import Callable
from typing import Any, Final

from psycopg import Cursor

from sessions_app.control.permitted import Extra, known_id, noted, run
from sessions_app.control.transact import fingerprint, first_receipt, keep_receipt, persistently
from sessions_app.engine import commands
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.engine.text import clean
from sessions_app.log import bell, db, files
from sessions_app.log.append import Appended, Locked
from sessions_app.log.db import Row
from sessions_app.people.members import find_person
from sessions_app.people.principals import Principal
from sessions_app.people.roles import require

_PLACE: Final = """INSERT INTO list_place AS old (session_id, person_id, pinned, archived)
    VALUES (%(session)s, %(person)s, coalesce(%(pin)s, false), coalesce(%(file)s, false))
    ON CONFLICT (session_id, person_id) DO UPDATE SET pinned = coalesce(%(pin)s, old.pinned),
        archived = coalesce(%(file)s, old.archived)"""
_FORGET: Final = """UPDATE event SET texts = NULL WHERE session_id = %s AND seq = %s AND octet_length(texts) > 0
    RETURNING type, turn, facts"""
_FORGET_TITLE: Final = """UPDATE session SET title = 'erased' WHERE id = %(session)s AND NOT EXISTS (
    SELECT 1 FROM event WHERE session_id = %(session)s AND seq > %(seq)s AND type = 'SessionChanged'
    AND position('"title":' IN facts) > 0)"""


def change_session(
    principal: Principal,
    session: str,
    command: str,
    *,
    title: str | None = None,
    settings: dict[str, Any] | None = None,
    pinned: bool | None = None,
    archived: bool | None = None,
) -> dict[str, Any]:
    """Change title or settings (an owner's, events), pin or archive (everybody's own, for their own list only)."""
    content = [title, settings, pinned, archived]

    def place(cur: Cursor[Row]) -> None:
        if pinned is not None or archived is not None:
            cur.execute(_PLACE, {"session": session, "person": principal.person, "pin": pinned, "file": archived})

    if title is not None or settings is not None:
        order = commands.ChangeSession(title, settings)
        extra: Extra = lambda cur, locked, appended: place(cur)  # noqa: E731
        receipt = run(principal, session, command, "change", order, content, extra=extra).receipt
    else:
        receipt = _place(principal, session, command, content, place)
    bell.ring_list(session)
    return receipt


def _place(
    principal: Principal, session: str, command: str, content: list[Any], place: Callable[[Cursor[Row]], None]
) -> dict[str, Any]:
    """Where one's own list has a session is no history of the session, and whoever may read it may say it."""
    session = known_id(session, "session_not_found", NO_SESSION)
    digest = fingerprint([session, "place", content])

    def once(cur: Cursor[Row]) -> dict[str, Any]:
        if require(cur, principal, session, "read") == "admin":
            raise Refused("not_allowed", "Only members have a session in their list.")
        first = first_receipt(cur, principal.key, command, digest)
        if first is None:
            place(cur)
            first = {}
            keep_receipt(cur, principal.key, command, digest, first)
        return first

    with noted(principal, session, command, "change"):
        return persistently("write", command, once)


def set_member(principal: Principal, session: str, command: str, *, person: str, role: str | None) -> dict[str, Any]:
    """Give a person (name or id) a role, or none; the last owner stays: `{person, role, name, seq}`."""
    with noted(principal, session, command, "members"), db.cursor("read") as cur:
        require(cur, principal, session, "members")  # before anybody learns who has an account
        if role not in (None, "owner", "observer"):
            raise Refused("invalid", "A member is an owner or an observer.", field="role")
        known = find_person(cur, clean(person)[0])
        if known is None:
            raise Refused("not_found", f"Nobody here is called {clean(person)[0]}.")

    def keep_an_owner(cur: Cursor[Row], locked: Locked, appended: Appended) -> None:
        row = cur.execute("SELECT 1 FROM member WHERE session_id = %s AND role = 'owner'", (session,)).fetchone()
        if row is None:
            raise Refused("invalid", "A session needs an owner.")

    order = commands.SetMember(str(known.person), role)
    outcome = run(principal, session, command, "members", order, [str(known.person), role], extra=keep_an_owner)
    return {**outcome.receipt, "name": known.name}


def erase(principal: Principal, session: str, command: str, seq: int, reason: str) -> dict[str, Any]:
    """Forget the texts of one event, and the files it names, for good; who did it and why stays (A3): `{seq}`."""

    def forget(cur: Cursor[Row], locked: Locked, appended: Appended) -> None:
        row = cur.execute(_FORGET, (session, seq)).fetchone()
        if row is None:
            raise Refused("not_found", "There is no such event, it holds no text, or it was erased.", seq=seq)
        files.forget(cur, session, bytes(row[2]))
        _forget_copies(cur, session, seq, row[0], row[1])

    order = commands.Erase(seq, reason)
    return run(principal, session, command, "erase", order, [seq, reason], extra=forget).receipt


def _forget_copies(cur: Cursor[Row], session: str, seq: int, type_: str, turn: str | None) -> None:
    """What the log's projections and the live path hold of an erased event's texts."""
    cur.execute("DELETE FROM stream_text WHERE turn = %s", (turn,))
    cur.execute("UPDATE warden_report SET output = '' WHERE turn = %s", (turn,))
    if type_ in ("TurnInterrupted", "InterruptReasonGiven"):
        cur.execute("UPDATE interruption SET reason = NULL WHERE id = %s", (turn,))
    if type_ in ("SessionCreated", "SessionChanged"):
        cur.execute(_FORGET_TITLE, {"session": session, "seq": seq})
