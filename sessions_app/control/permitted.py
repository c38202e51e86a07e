"""A person's command: the permission is looked up in its own transaction, and a refusal leaves an audit row (A9)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final
from uuid import UUID

from psycopg import Cursor

from sessions_app.control.transact import Order, Outcome, audit, execute
from sessions_app.engine import commands
from sessions_app.engine.actors import Actor
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.log import db
from sessions_app.log.append import Appended, Locked
from sessions_app.log.db import Purpose, Row
from sessions_app.people.principals import Principal, for_admin
from sessions_app.people.roles import require

Extra = Callable[[Cursor[Row], Locked, Appended], None]
_UNKNOWN: Final = ("unavailable", "unauthenticated", "session_not_found")
_AS_IT_IS: Final = nullcontext()
_log = logging.getLogger(__name__)


class Unchanged(Exception):
    """What was asked for is so already: nothing to refuse, and an attempt that changed nothing (A9)."""


def run(
    principal: Principal,
    session: str,
    id: str,
    verb: str,
    command: commands.Command,
    content: Any,
    *,
    purpose: Purpose = "write",
    extra: Extra | None = None,
    also: tuple[str, ...] = (),
    told: AbstractContextManager[None] = _AS_IT_IS,
    then: commands.Command | None = None,
) -> Outcome:
    """Carry out a command of somebody who may `verb` in the session. `content` is what a repetition must equal (A4).

    `also` are further verbs that it takes: a stop that sends something is a submit too. `then` is a second command that
    goes with the first or not at all. `told` words what is refused: the audit row says what the sender is told.
    """
    session = known_id(session, "session_not_found", NO_SESSION)
    with noted(principal, session, id, verb, purpose), told, told_if_forgotten(session):
        allow = _allow(principal, session, (verb, *also))
        return execute(Order(session, command, principal.key, id, content, allow, purpose, then=then), extra)


def _allow(principal: Principal, session: str, verbs: tuple[str, ...]) -> Callable[[Cursor[Row]], Actor]:
    """The permission check; an administrator among strangers acts as one (A5)."""

    def check(cur: Cursor[Row]) -> Actor:
        roles = [require(cur, principal, session, verb) for verb in verbs]
        return for_admin(principal).actor if "admin" in roles else principal.actor

    return check


@contextmanager
def told_if_forgotten(session: str) -> Iterator[None]:
    """`loop_not_found` stays so for what never was; it becomes `loop_closed` for a delegate that is forgotten (G3)."""
    try:
        yield
    except Refused as refused:
        loop = refused.data.get("loop") if refused.code == "loop_not_found" else None
        if not isinstance(loop, str) or not _started_once(session, loop):
            raise
        raise Refused("loop_closed", "This agent has ended.", loop=loop) from None


def _started_once(session: str, loop: str) -> bool:
    try:
        known = known_id(loop, "loop_not_found", "")
    except Refused:
        return False
    query = "SELECT 1 FROM event WHERE session_id = %s AND type = 'LoopStarted' AND loop = %s"
    with db.cursor("read") as cur:
        return cur.execute(query, (session, known)).fetchone() is not None


@contextmanager
def noted(principal: Principal, session: str, id: str, verb: str, purpose: Purpose = "write") -> Iterator[None]:
    """What is refused inside, or was so already, becomes an audit row (A9).

    It is written apart: a refusal has rolled everything back.
    """
    try:
        yield
    except Unchanged:
        _note(principal, session, id, verb, purpose, "unchanged")
        raise
    except Refused as refused:
        _note(principal, session, id, verb, purpose, refused.code)
        raise


def _note(principal: Principal, session: str, id: str, verb: str, purpose: Purpose, outcome: str) -> None:
    if outcome in _UNKNOWN:  # nobody of this session, or nowhere to write to
        _log.info("refused %s by %s: %s", verb, principal.actor.name, outcome)
        return
    try:
        with db.cursor(purpose) as cur:
            audit(cur, session, principal.actor, verb, outcome, {"id": id})
    except (Refused, *db.LOST):
        _log.warning("the audit row of a refused %s was not written", verb)


def known_id(value: str | None, code: str, detail: str) -> str:
    """The id in the contract's spelling; refused before the database is asked where it cannot be one."""
    try:
        return str(UUID(value or ""))
    except (ValueError, AttributeError, TypeError):
        raise Refused(code, detail) from None
