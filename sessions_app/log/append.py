"""The one writer of events: gapless numbers, the chain, the cached state and the projections, under the session's lock.

Whoever calls `lock` holds the row until their transaction ends; what they append commits with it, so commit order is
`seq` order (A1).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from psycopg import Cursor
from psycopg.types.json import Jsonb

from sessions_app.engine.actors import Actor
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.engine.events import Draft, Event
from sessions_app.engine.fold import evolve
from sessions_app.engine.state import FOLD, State, from_json, to_encode
from sessions_app.engine.text import clean_json
from sessions_app.log import outbox, payload
from sessions_app.log.db import Row
from sessions_app.log.frames import Stored, instant, milliseconds
from sessions_app.log.projections import project, session_columns

GENESIS = hashlib.sha256(b"steerweb log 1").digest()
"""The link before the first event of every session."""
# The clock is read outside the part that waits for the lock: an event's time is never one from before the wait.
LOCK = """WITH locked AS MATERIALIZED (SELECT id, head, chain, state, fold FROM session WHERE id = %s FOR UPDATE)
    SELECT locked.*, clock_timestamp() FROM locked"""
INSERT = """INSERT INTO event (session_id, seq, type, at, loop, turn, step, actor, cause,
    facts, texts, facts_digest, texts_digest, link, erases)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""


@dataclass(slots=True)
class Locked:
    """A session's row while its lock is held. `at` is the database's time of this transaction's events (A7)."""

    session: str
    head: int
    chain: bytes
    state: State
    at: datetime

    @property
    def now_ms(self) -> int:
        return milliseconds(self.at)


@dataclass(frozen=True, slots=True)
class Appended:
    """What a transaction wrote, for the bell."""

    session: str
    events: tuple[Event, ...]
    rows: tuple[Stored, ...]


def lock(cur: Cursor[Row], session: str) -> Locked:
    """Take the session's lock; `session_not_found`."""
    return taken(cur.execute(LOCK, (session,)))


def taken(cur: Cursor[Row]) -> Locked:
    """The row that the `LOCK` which this cursor executed has locked; `session_not_found`."""
    row = cur.fetchone()
    if row is None:
        raise Refused("session_not_found", NO_SESSION)
    id, head, chain, state, fold_version, at = row
    if fold_version != FOLD:
        raise Refused("unavailable", "This session's cache is of another version: run `steerweb rebuild`.")
    return Locked(str(id), head, bytes(chain), from_json(state), at)


def header(event: Stored, erases: int | None) -> bytes:
    """What the chain hashes of an event beside its digests: every column people read, in a fixed spelling."""
    return orjson.dumps([
        event.session, event.seq, event.type, instant(event.at), event.loop, event.turn, event.step, event.actor,
        event.cause, erases,
    ])  # fmt: skip


def link(previous: bytes, head: bytes, facts_digest: bytes, texts_digest: bytes) -> bytes:
    """One link of the chain (A3)."""
    return hashlib.sha256(previous + head + facts_digest + texts_digest).digest()


def number(locked: Locked, drafts: Iterable[Draft], actor: Actor, cause: str | None) -> list[tuple[Event, Stored]]:
    """Drafts as numbered events and as rows; the payloads cleaned of what cannot be stored (A6)."""
    result = []
    for seq, draft in enumerate(drafts, locked.head + 1):
        who = draft.actor or actor
        why = draft.cause if draft.cause is not None else cause
        data = payload.cleaned(draft.type, draft.data)
        parts = payload.encode(draft.type, data)
        event = Event(seq, locked.now_ms, draft.type, data, draft.loop, draft.turn, draft.step, who, why)
        actor_json = orjson.dumps(clean_json(who.json())[0]).decode()
        row = Stored(
            locked.session, seq, draft.type, locked.at, draft.loop, draft.turn, draft.step, actor_json, why,
            parts.facts, parts.texts,
        )  # fmt: skip
        result.append((event, row))
    return result


def append(cur: Cursor[Row], locked: Locked, drafts: Sequence[Draft], actor: Actor, cause: str | None) -> Appended:
    """Append events and bring everything cached up to them; `locked` is then as after them (A2)."""
    numbered = number(locked, drafts, actor, cause)
    rows: list[tuple[Any, ...]] = []
    states: list[State] = []
    word, runnable = session_columns(locked.state)
    changed = False
    for event, row in numbered:
        facts_digest, texts_digest = payload.Payload(row.facts, row.texts).digests()
        erases = event.data["seq"] if event.type == "ContentErased" else None
        locked.chain = link(locked.chain, header(row, erases), facts_digest, texts_digest)
        locked.state = evolve(locked.state, event)
        states.append(locked.state)
        before, (word, runnable) = word, session_columns(locked.state)
        changed = changed or word != before
        locked.head = event.seq
        rows.append((
            row.session, row.seq, row.type, row.at, row.loop, row.turn, row.step, row.actor, row.cause,
            row.facts, row.texts, facts_digest, texts_digest, locked.chain, erases,
        ))  # fmt: skip
    appended = Appended(locked.session, tuple(e for e, _ in numbered), tuple(r for _, r in numbered))
    if not rows:
        return appended
    cur.executemany(INSERT, rows)
    cur.execute(
        """UPDATE session SET head = %s, chain = %s, state = %s, fold = %s, runnable = %s, active_at = %s,
           word_since = CASE WHEN %s THEN %s ELSE word_since END, word = %s WHERE id = %s""",
        (locked.head, locked.chain, Jsonb(to_encode(locked.state)), FOLD, runnable, locked.at, changed, locked.at, word,
         locked.session),
    )  # fmt: skip
    for (event, row), state in zip(numbered, states, strict=True):
        project(cur, state, event, row)
    outbox.note(cur, locked.session, appended.events, states)
    return appended
