"""Lock, decide, append, commit, ring: the one way anything changes (A1), for people and workers alike.

Who wins a race is decided by who takes the session's row lock first; everything read for the decision is read under it.
The command table makes a repeated command answer with its first receipt (A4), also when the first try's commit went
through but its answer was lost on a broken connection, which is why a lost connection is simply tried again.
"""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
import psycopg
from psycopg import Cursor
from psycopg.types.json import Jsonb

from sessions_app.control import offers
from sessions_app.engine import commands
from sessions_app.engine.actors import Actor
from sessions_app.engine.decide import Context, Decision, Phase, decide
from sessions_app.engine.errors import Refused
from sessions_app.engine.text import clean_json
from sessions_app.log import bell, db, files, payload, read
from sessions_app.log.append import LOCK, Appended, Locked, append, taken
from sessions_app.log.db import Purpose, Row

STOP_CHANNEL: Final = "steerweb_stop"
RECEIPT: Final = "SELECT digest, receipt FROM command WHERE principal = %s AND id = %s"
T = TypeVar("T")
_TRIES: Final = 5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """A command on its way: by whom, under which id, and how to check in the transaction that they may.

    `key` and `id` are the command table's key; `content` is what must be equal when the id comes again. `allow` is
    asked under the lock, also of a repeated command, and returns the actor that the events shall name (A5), or raises
    `Refused`; `recheck` is asked under the lock of a command that is no repetition. `then` is decided on what `command`
    has made of the state, in the same transaction: both are carried out, or neither is.
    """

    session: str
    command: commands.Command
    key: str
    id: str
    content: Any
    allow: Callable[[Cursor[Row]], Actor]
    purpose: Purpose = "write"
    recheck: Callable[[Cursor[Row]], None] | None = None
    then: commands.Command | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an order: its receipt and what was appended; None for a repetition."""

    receipt: dict[str, Any]
    appended: Appended | None


def execute(order: Order, extra: Callable[[Cursor[Row], Locked, Appended], None] | None = None) -> Outcome:
    """Carry an order out. `extra` writes more in the same transaction. Raises `Refused`."""
    digest = fingerprint([order.session, type(order.command).__name__, order.content])
    outcome = persistently(order.purpose, order.id, lambda cur: _once(cur, order, digest, extra))
    if outcome.appended is not None:
        bell.ring(outcome.appended)
        offers.offer_on_commit(outcome.appended)
    return outcome


def fingerprint(content: Any) -> bytes:
    """What two uses of one command id are compared by (A4)."""
    return hashlib.sha256(orjson.dumps(clean_json(content)[0], option=orjson.OPT_SORT_KEYS)).digest()


def persistently(purpose: Purpose, id: str, work: Callable[[Cursor[Row]], T]) -> T:
    """Do `work` in a transaction, and again where the database went away or two uses of one command id met (A4).

    Refused `unavailable` when that does not help. `work` is to find out itself that an earlier try went through.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            with db.cursor(purpose, together=True) as cur:
                return work(cur)
        except psycopg.errors.DiskFull as error:
            detail = "The server's disk is full: nothing can be written."
            raise Refused("unavailable", detail, retry_after=10) from error
        except (*db.LOST, psycopg.errors.UniqueViolation) as error:
            _log.warning("command %s, try %d: %s", id, attempt, error)
            if attempt == _TRIES:
                raise Refused("unavailable", "The database does not answer.", retry_after=2) from error
            time.sleep(0.05 * 2**attempt)
    raise AssertionError("unreachable")


def _once(
    cur: Cursor[Row],
    order: Order,
    digest: bytes,
    extra: Callable[[Cursor[Row], Locked, Appended], None] | None,
) -> Outcome:
    with cur.connection.cursor() as row, cur.connection.cursor() as receipts:
        # Sent now and answered with what `allow` asks, in one trip; the server looks in this order, under the lock.
        row.execute(LOCK, (order.session,))
        receipts.execute(RECEIPT, (order.key, order.id))
        actor = order.allow(cur)
        locked = taken(row)
        first = known_receipt(receipts, order.id, digest)
    if first is not None:
        return Outcome(first, None)
    if order.recheck is not None:
        order.recheck(cur)
    decision, appended = _carried_out(cur, locked, actor, order.command, order.id)
    if order.then is not None:
        second, more = _carried_out(cur, locked, actor, order.then, order.id)
        changed = bool(appended.events or more.events)
        audited = None if changed else decision.audit or second.audit
        decision = Decision((*decision.events, *second.events), {**decision.receipt, **second.receipt}, audited)
        appended = Appended(locked.session, (*appended.events, *more.events), (*appended.rows, *more.rows))
    receipt = _receipt(decision, appended)
    if extra is not None:
        extra(cur, locked, appended)
    if decision.audit is not None:
        audit(cur, order.session, actor, type(order.command).__name__, decision.audit, {"id": order.id})
    _notify_marks(cur, locked, appended)
    # A claim that found nothing, and an end that waits for its delegates, are to be decided again.
    if receipt.get("claimed") is not False and receipt.get("outcome") != "waiting":
        keep_receipt(cur, order.key, order.id, digest, receipt)
    return Outcome(receipt, appended)


def _carried_out(
    cur: Cursor[Row], locked: Locked, actor: Actor, command: commands.Command, id: str
) -> tuple[Decision, Appended]:
    decision = decide(locked.state, command, _context(cur, locked, actor, id))
    return decision, append(cur, locked, decision.events, actor, id)


def first_receipt(cur: Cursor[Row], key: str, id: str, digest: bytes) -> dict[str, Any] | None:
    """The receipt of the same command, sent before; `command_id_reused` where the content was another (A4)."""
    return known_receipt(cur.execute(RECEIPT, (key, id)), id, digest)


def known_receipt(cur: Cursor[Row], id: str, digest: bytes) -> dict[str, Any] | None:
    """`first_receipt`, of a cursor that has executed `RECEIPT`."""
    row = cur.fetchone()
    if row is None:
        return None
    if bytes(row[0]) != digest:
        raise Refused("command_id_reused", "This command id was used for something else.", id=id)
    receipt: dict[str, Any] = row[1]
    return receipt


def keep_receipt(cur: Cursor[Row], key: str, id: str, digest: bytes, receipt: dict[str, Any]) -> None:
    """Remember a command's receipt, in the transaction that carries it out (A4).

    A receipt holds no text that anybody wrote: nothing here is ever erased (A3).
    """
    cur.execute(
        "INSERT INTO command (principal, id, digest, receipt) VALUES (%s, %s, %s, %s)",
        (key, id, digest, Jsonb(receipt)),
    )


def _context(cur: Cursor[Row], locked: Locked, actor: Actor, cause: str) -> Context:
    phases: dict[str, Phase] = {}
    if any(loop.turn is not None for loop in locked.state.loops.values()):
        found = cur.execute(
            "SELECT turn, phase, extract(epoch FROM clock_timestamp() - since) FROM running_turn WHERE session = %s",
            (locked.session,),
        )
        phases = {str(turn): Phase(phase, int(since * 1000)) for turn, phase, since in found.fetchall()}
    return Context(
        actor,
        locked.now_ms,
        phases,
        lambda seq: read.payload(cur, locked.session, seq),
        lambda seq: read.returned(cur, locked.session, seq),
        locked.head,
        cause,
        lambda seq: files.carried(cur, locked.session, seq),
        lambda ids: files.find(cur, locked.session, ids),
        payload.stored,
    )


def _receipt(decision: Decision, appended: Appended) -> dict[str, Any]:
    if not appended.events or "claimed" in decision.receipt or "marked" in decision.receipt:
        return decision.receipt
    return {**decision.receipt, "seq": appended.events[0].seq}


def _notify_marks(cur: Cursor[Row], locked: Locked, appended: Appended) -> None:
    """The stop's own bell: with the commit, to every warden, whatever Redis does (E2, E11, E13)."""
    for event in appended.events:
        message: dict[str, Any] = {}
        if event.type == "InterruptRequested" and event.data["turns"]:
            message = {"session": locked.session, "request": event.data["request"], "turns": event.data["turns"]}
        elif event.type == "KillRequested":
            message = {"session": locked.session, "calls": [[event.turn, event.data["call"]]]}
        if message:
            cur.execute("SELECT pg_notify(%s, %s)", (STOP_CHANNEL, orjson.dumps(message).decode()))


def audit(
    cur: Cursor[Row], session: str | None, actor: Actor, attempt: str, outcome: str, data: dict[str, Any]
) -> None:
    """Write down an attempt that changed nothing (A9)."""
    cur.execute(
        "INSERT INTO audit (session, actor, attempt, outcome, data) VALUES (%s, %s, %s, %s, %s)",
        (session, Jsonb(actor.json()), attempt, outcome, Jsonb(data)),
    )
