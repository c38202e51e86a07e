"""From the outbox to the push services: each row is claimed once, judged by what is true now, sent, and noted.

A claim is a lease: whoever dies with a row in hand leaves it to the next look, and the device shows one notification a
session whatever comes twice. What a service cannot take is tried again a few times; then the log has it anyway.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Cursor

from sessions_app.engine.actors import Actor
from sessions_app.log import db
from sessions_app.log.db import Row
from sessions_app.log.frames import audience_of
from sessions_app.people.principals import Principal
from sessions_app.people.roles import Role, standings
from sessions_app.push.looking import looking
from sessions_app.push.quiet import quiet_until
from sessions_app.push.sending import Subscription, send
from sessions_app.push.wording import Payload, payload

AT_ONCE: Final = 4
LEASE_S: Final = 60
TRIES: Final = 5
BACKOFF_S: Final = 20.0
BACKOFF_MAX_S: Final = 900.0
LOOK_AGAIN_S: Final = 20.0
"""How long an approval waits while its reader looks at the session: they may go away without answering."""
UNDECIDED_S: Final = 60.0
ASKS: Final = frozenset({"approval", "answered", "failed"})
"""What the level `asks` wants."""

_CLAIM: Final = """UPDATE push_outbox SET due_at = clock_timestamp() + make_interval(secs => %s)
    WHERE id IN (SELECT id FROM push_outbox WHERE due_at <= clock_timestamp() ORDER BY due_at, id
                 LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id"""
_READ: Final = """SELECT o.id, o.session::text, o.seq, o.kind, o.about, o.at, o.attempts, clock_timestamp(),
        p.id, p.endpoint, p.p256dh, p.auth, d.id, d.person_id, s.title, s.state, s.settings, s.created_by_id, s.head,
        c.level, x.unwanted, x.quiet_from, x.quiet_to, x.zone
    FROM push_outbox o JOIN session s ON s.id = o.session
    LEFT JOIN push_subscription p ON p.id = o.subscription LEFT JOIN device d ON d.id = p.device_id
    LEFT JOIN push_choice c ON c.session_id = o.session AND c.person_id = d.person_id
    LEFT JOIN push_settings x ON x.person_id = d.person_id
    WHERE o.id = %s"""
_LATER_SHOWN: Final = """SELECT 1 FROM push_outbox WHERE subscription = %s AND session = %s AND seq > %s
    AND note = 'sent' AND kind <> 'answered' LIMIT 1"""
_ASKED: Final = """SELECT due_at IS NULL, note FROM push_outbox
    WHERE subscription = %s AND session = %s AND kind = 'approval' AND about = %s"""
_ACTOR: Final = "SELECT actor::jsonb ->> 'id' FROM event WHERE session_id = %s AND seq = %s"
_DONE: Final = "UPDATE push_outbox SET due_at = NULL, note = %s WHERE id = %s"
_LATER: Final = """UPDATE push_outbox
    SET due_at = clock_timestamp() + make_interval(secs => %s), attempts = %s, note = %s WHERE id = %s"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Item:
    """A row of the outbox with all that decides about it."""

    id: int
    session: str
    seq: int
    kind: str
    about: str
    at: datetime
    attempts: int
    now: datetime
    subscription: UUID | None
    endpoint: str
    p256dh: str
    auth: str
    device: UUID
    person: UUID
    title: str
    state: Mapping[str, Any]
    settings: Mapping[str, Any]
    created_by: UUID
    head: int
    level: str | None
    unwanted: list[str] | None
    quiet_from: Any
    quiet_to: Any
    zone: str | None

    def to(self) -> Subscription:
        return Subscription(str(self.subscription), self.endpoint, self.p256dh, self.auth)

    def wanted(self) -> bool:
        """Whether its reader wants to be told of it at all."""
        level = self.level or ("all" if self.created_by == self.person else "nothing")
        kind = "approval" if self.kind == "answered" else self.kind
        return (level == "all" or (level == "asks" and self.kind in ASKS)) and kind not in (self.unwanted or ())

    def open_gates(self) -> dict[str, int]:
        """The approvals that wait in its session, with the events that asked; what is being stopped asks nothing."""
        return {
            call["gate"]: call["seq"]
            for loop in self.state["loops"].values()
            if loop["turn"] is not None and loop["turn"]["mark"] is None
            for call in loop["turn"]["calls"] or ()
            if call["answer"] == "open"
        }


@dataclass(frozen=True, slots=True)
class Drop:
    """It is not sent, and why."""

    note: str


@dataclass(frozen=True, slots=True)
class Later:
    """It is looked at again."""

    s: float


def deliver_due(threads: Executor | None = None) -> int:
    """Send what is due, `AT_ONCE` at a time, until nothing is; how many rows that were."""
    total = 0
    while True:
        with db.cursor("write") as cur:
            ids = [row[0] for row in cur.execute(_CLAIM, (LEASE_S, AT_ONCE)).fetchall()]
        if not ids:
            return total
        for _ in map(_guarded, ids) if threads is None else threads.map(_guarded, ids):
            pass
        total += len(ids)


def _guarded(id: int) -> None:
    """One row; its fault costs no other, and its lease brings it back."""
    try:
        _deliver(id)
    except Exception:  # noqa: BLE001
        _log.exception("push %d failed", id)


def _deliver(id: int) -> None:
    with db.cursor("read") as cur:
        row = cur.execute(_READ, (id,)).fetchone()
        found = Drop("the session is gone") if row is None else _decide(cur, Item(*row))
    if isinstance(found, Drop):
        _note(_DONE, (found.note, id))
        return
    item = Item(*row)  # type: ignore[misc]  # there is one, or it would have been dropped
    if isinstance(found, Later):
        _note(_LATER, (found.s, item.attempts, "", id))
        return
    answer = send(item.to(), found, item.session)
    if answer.is_ == "gone":
        _note("DELETE FROM push_subscription WHERE id = %s AND endpoint = %s", (item.subscription, item.endpoint))
    if answer.is_ == "again" and item.attempts + 1 < TRIES:
        wait = max(answer.wait_s, min(BACKOFF_S * 2**item.attempts, BACKOFF_MAX_S))
        _note(_LATER, (wait, item.attempts + 1, answer.note, id))
        return
    if answer.is_ != "sent":
        _log.warning("push %d to %s was dropped: %s", id, item.endpoint.split("/")[2], answer.note)
    _note(_DONE, (answer.note or answer.is_, id))


def _note(statement: Any, values: tuple[Any, ...]) -> None:
    with db.cursor("write") as cur:
        cur.execute(statement, values)


def _decide(cur: Cursor[Row], item: Item) -> Payload | Drop | Later:
    """What is sent of a row now, if anything; the first reason against it counts."""
    if item.subscription is None:
        return Drop("the device is signed out")
    person = str(item.person)
    principal = Principal(Actor("person", person, ""), item.person, f"person:{person}", device=item.device)
    standing = standings(cur, [principal], item.session)[0]
    if not standing.signed_in or standing.role is None:
        return Drop("not signed in" if not standing.signed_in else "no member any more")
    if not item.wanted():
        return Drop("not wanted")
    if item.kind == "answered":
        return _withdraw(cur, item, standing.role)
    stale = _stale(cur, item)
    if stale:
        return Drop(stale)
    if person in looking(item.session):
        return Later(LOOK_AGAIN_S) if item.kind == "approval" else Drop("they look at it")
    until = quiet_until(item.now, item.quiet_from, item.quiet_to, item.zone or "UTC")
    if until is not None:
        return Later((until - item.now).total_seconds()) if item.kind == "approval" else Drop("quiet hours")
    return _payload(cur, item, standing.role)


def _stale(cur: Cursor[Row], item: Item) -> str:
    """Why it is no news any more; empty while it is."""
    if item.kind == "approval":
        return "" if item.about in item.open_gates() else "answered"
    turns = {loop["turn"]["id"] for loop in item.state["loops"].values() if loop["turn"] is not None}
    if item.kind == "budget" and not turns:
        return "it has ended"
    if item.kind == "silent" and (item.head != item.seq or not turns):
        return "something has happened"
    if cur.execute(_LATER_SHOWN, (item.subscription, item.session, item.seq)).fetchone() is not None:
        return "overtaken"
    if item.kind == "stopped":
        row = cur.execute(_ACTOR, (item.session, item.seq)).fetchone()
        return "their own stop" if row is not None and row[0] == str(item.person) else ""
    return ""


def _withdraw(cur: Cursor[Row], item: Item, role: Role) -> Payload | Drop | Later:
    """An approval that a device shows was answered: the next one that waits takes its place, or who answered what."""
    row = cur.execute(_ASKED, (item.subscription, item.session, item.about)).fetchone()
    if row is not None and not row[0] and item.now - item.at < timedelta(seconds=UNDECIDED_S):
        return Later(2.0)  # it may be on its way at this moment
    if row is None or row[1] != "sent":
        return Drop("it was not shown")
    waiting = item.open_gates()
    if not waiting:
        return _payload(cur, item, role)
    gate, seq = min(waiting.items(), key=lambda each: each[1])
    return {**_payload(cur, item, role, ("approval", gate, seq)), "seq": item.seq, "quietly": True}


def _payload(cur: Cursor[Row], item: Item, role: Role, of: tuple[str, str, int] | None = None) -> Payload:
    kind, about, seq = of or (item.kind, item.about, item.seq)
    return payload(
        cur,
        item.session,
        item.title,
        seq,
        kind,
        about,
        role=role,
        audience=audience_of(role),
        waiting=len(item.open_gates()),
        queue=None if "stop_queue" in item.settings else "hold",
    )
