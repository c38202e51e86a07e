"""The stop, its reason afterwards, and the end of a session. None of them waits for the outcome (see `waiting`)."""

from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from psycopg import Cursor

from sessions_app.control.permitted import known_id, noted, run
from sessions_app.control.transact import fingerprint, first_receipt, keep_receipt, persistently
from sessions_app.control.verbs import told_if_taken
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.engine.state import QueueChoice
from sessions_app.ids import derived_id, new_id
from sessions_app.log import db
from sessions_app.log.db import Row
from sessions_app.people.principals import Principal
from sessions_app.people.roles import CAN, require

# Whatever runs or waits was made durable together with the word; an idle session may have background processes (E13).
_STOPPABLE: Final = """
SELECT s.id::text, s.settings ? 'stop_queue'
FROM session s LEFT JOIN member m ON m.session_id = s.id AND m.person_id = %(person)s
WHERE CASE WHEN %(named)s::uuid[] IS NULL
      THEN s.word IN ('waiting', 'running', 'approval', 'stopping')
           OR EXISTS (SELECT 1 FROM background_process b WHERE b.session = s.id)
      ELSE s.id = ANY(%(named)s::uuid[]) END
  AND (m.role = ANY(%(roles)s) OR (m.role IS NULL AND %(admin)s))
  AND (%(all)s OR s.created_by_id = %(person)s)
ORDER BY s.active_at DESC
"""
REASON_AGE: Final = timedelta(days=1)
"""How long after a stop its reason can be given."""
_INTERRUPTION: Final = """SELECT session_id, loop, request, actor ->> 'id', at > now() - %s::interval
    FROM interruption WHERE id = %s"""


def interrupt(
    principal: Principal,
    session: str,
    command: str,
    *,
    loop: str | None = None,
    turn: str | None = None,
    reason: str | None = None,
    queue: QueueChoice | None = None,
    then: dict[str, Any] | None = None,
    keep_background: bool = False,
    not_after: datetime | None = None,
    request: str | None = None,
) -> dict[str, Any]:
    """Stop (E): `{accepted, joined, turns, note, input?, seq?}` as soon as it is durable.

    `too_late` past `not_after`. That instant is no part of the command's content: it bounds one delivery of it.
    `request` is the id of a request that is about further sessions, too.
    """
    after = _then(then)
    until = None if not_after is None else round(not_after.timestamp() * 1000)
    order = commands.Interrupt(request or new_id(), loop, turn, reason, queue, after, until, keep_background)
    content = [loop, turn, reason, queue, then, *([True] if keep_background else [])]
    also = () if after is None else ("submit",)
    waits = after is not None and after.text is None
    told = told_if_taken(session, "input", after.input) if after is not None and waits else nullcontext()
    return run(principal, session, command, "interrupt", order, content, purpose="stop", also=also, told=told).receipt


def kill_processes(
    principal: Principal, session: str, command: str, call: str, *, turn: str | None = None
) -> dict[str, Any]:
    """End what a call left running in the background (E13): `{call, joined, seq?}`. `turn` tells equal ids apart."""
    order = commands.KillProcesses(call, turn)
    return run(principal, session, command, "interrupt", order, ["kill", call, turn], purpose="stop").receipt


Scope = Literal["mine", "all"]
Asked = tuple[str, dict[str, Any] | Refused]
"""A session, and the receipt of its stop or why it was refused."""


def stoppable(principal: Principal, scope: Scope) -> list[str]:
    """The sessions that a stop of many would be about at this moment (E1), the last active first."""
    with db.cursor("read") as cur:
        return [session for session, _ in _stoppable(cur, principal, scope, None)]


def interrupt_many(
    principal: Principal,
    command: str,
    scope: Scope,
    *,
    sessions: list[str] | None = None,
    reason: str | None = None,
    queue: QueueChoice | None = None,
    otherwise: QueueChoice | None = None,
    not_after: datetime | None = None,
) -> list[Asked]:
    """Stop what runs in every session the caller created (`mine`) or may stop (`all`), each in its own transaction.

    `sessions`: those among them only, also where nothing runs any more. `otherwise` is the `queue` of the sessions that
    have no rule of their own for what waits. A repetition is about the sessions of the first, whatever has become
    active since (A4).
    """
    digest = fingerprint(["interrupt many", scope, reason, queue, sessions, otherwise])

    def once(cur: Cursor[Row]) -> list[list[Any]]:
        first = first_receipt(cur, principal.key, command, digest)
        if first is None:
            first = {"stops": [list(each) for each in _stoppable(cur, principal, scope, sessions)]}
            keep_receipt(cur, principal.key, command, digest, first)
        return list(first["stops"])

    asked: list[Asked] = []
    request = derived_id(principal.key, command)
    for session, ruled in persistently("stop", command, once):
        chosen = queue or (None if ruled else otherwise)
        part = derived_id(command, session)
        try:
            receipt = interrupt(
                principal, session, part, reason=reason, queue=chosen, not_after=not_after, request=request
            )
        except Refused as refusal:
            asked.append((session, refusal))
        else:
            asked.append((session, receipt))
    return asked


def _stoppable(cur: Cursor[Row], principal: Principal, scope: Scope, named: list[str] | None) -> list[tuple[str, bool]]:
    """(session, whether it has a rule of its own for what waits)."""
    roles = [role for role, verbs in CAN.items() if "interrupt" in verbs]
    about = {"person": principal.person, "roles": roles, "admin": principal.is_admin, "all": scope == "all"}
    return [(str(row[0]), row[1]) for row in cur.execute(_STOPPABLE, {**about, "named": named}).fetchall()]


def _then(then: dict[str, Any] | None) -> commands.Then | None:
    if then is None:
        return None
    if then.keys() not in ({"text"}, {"text", "files"}, {"input"}):
        raise Refused("invalid", "`then` is either a `text`, with its `files`, or an `input`.", field="then")
    if "input" in then:
        return commands.Then(then["input"])
    return commands.Then(new_id(), then["text"], then.get("files", ()))


def close(principal: Principal, session: str, command: str) -> dict[str, Any]:
    """Close the session for good (K1): `{closed, seq?}`, false while something is still being stopped."""
    return run(principal, session, command, "close", commands.Close(new_id()), [], purpose="stop").receipt


def give_reason(principal: Principal, interruption: str, command: str, reason: str) -> dict[str, Any]:
    """Say within a day why one stopped a turn; its author only (B6): `{id, seq}`."""
    interruption = known_id(interruption, "not_found", "There is no such interruption.")
    with db.cursor("read") as cur:
        row = cur.execute(_INTERRUPTION, (REASON_AGE, interruption)).fetchone()
        if row is None:
            raise Refused("not_found", "There is no such interruption.")
        require(cur, principal, str(row[0]), "read")
    session, loop, request, author, fresh = str(row[0]), str(row[1]), row[2], row[3], row[4]
    with noted(principal, session, command, "reason"):
        if request is None or author != principal.actor.id:
            raise Refused("not_allowed", "Only who asked for the stop can give its reason.")
        if not fresh:
            raise Refused("not_allowed", "A reason can be given within a day.")
    order = commands.GiveReason(interruption, str(request), loop, reason)
    return run(principal, session, command, "interrupt", order, [interruption, reason]).receipt
