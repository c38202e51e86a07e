"""Checking the log and its caches: the chain link by link, and every cached column against a fresh fold (A2, A3)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import Cursor, sql
from psycopg.types.json import Jsonb

from sessions_app.engine.fold import evolve
from sessions_app.engine.state import FOLD, State, to_json
from sessions_app.log import db, read
from sessions_app.log.append import GENESIS, header, link
from sessions_app.log.db import Row
from sessions_app.log.frames import Stored
from sessions_app.log.payload import digest
from sessions_app.log.projections import session_columns

_ROWS: Final = sql.SQL(
    """SELECT {}, facts_digest, texts_digest, link, erases FROM event
       WHERE session_id = %s AND seq > %s ORDER BY seq LIMIT %s"""
).format(sql.SQL(read.COLUMNS))
_CACHED: Final = "SELECT head, chain, state, fold, word, runnable, settings, title FROM session WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Fault:
    """One difference: in which session, at which event (None: in the cache), and what it is."""

    session: str
    seq: int | None
    what: str


@dataclass(slots=True)
class Folded:
    """A session's log, read from the beginning: its faults, where it ends, the state it makes, which events have lost
    their texts (`erased`) and of which a `ContentErased` says so (`named`)."""

    faults: list[Fault]
    head: int = 0
    chain: bytes = GENESIS
    state: State = field(default_factory=State)
    title: str = ""
    erased: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)


def sessions() -> list[str]:
    """Every session, oldest first."""
    with db.cursor("read") as cur:
        return [str(row[0]) for row in cur.execute("SELECT id FROM session ORDER BY created_at").fetchall()]


def verify(session: str | None = None) -> Iterator[Fault]:
    """Faults of one session or all: a changed, missing, reordered or inserted row, named; a cache that differs."""
    for each in [session] if session is not None else sessions():
        with db.cursor("read") as cur:
            cur.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            folded = _read(cur, each)
            yield from folded.faults
            yield from _cache_faults(cur, each, folded)


def rebuild(session: str | None = None) -> Iterator[Fault]:
    """Write the cached columns anew from the log, under each session's lock, and yield what was different."""
    for each in [session] if session is not None else sessions():
        with db.cursor("read") as cur:
            cur.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (each,))
            folded = _read(cur, each)
            differences = list(_cache_faults(cur, each, folded))
            word, runnable = session_columns(folded.state)
            cur.execute(
                """UPDATE session SET head = %s, chain = %s, state = %s, fold = %s, word = %s, runnable = %s,
                   settings = %s, title = %s WHERE id = %s""",
                (folded.head, folded.chain, Jsonb(to_json(folded.state)), FOLD, word, runnable,
                 Jsonb(dict(folded.state.settings)), folded.title, each),
            )  # fmt: skip
        yield from differences


def _read(cur: Cursor[Row], session: str) -> Folded:
    folded = Folded([])
    while True:
        page = cur.execute(_ROWS, (session, folded.head, read.PAGE_MAX)).fetchall()
        for row in page:
            _step(folded, read.stored(session, row[:10]), *row[10:])
        if len(page) < read.PAGE_MAX:
            break
    unnamed = folded.erased - folded.named
    folded.faults += [
        Fault(session, seq, "its texts are gone, and no ContentErased says why") for seq in sorted(unnamed)
    ]
    return folded


def _step(
    folded: Folded, event: Stored, facts_digest: bytes, texts_digest: bytes, stored_link: bytes, erases: int | None
) -> None:
    def fault(what: str) -> None:
        folded.faults.append(Fault(event.session, event.seq, what))

    if event.seq != folded.head + 1:
        fault(f"event {folded.head + 1} is missing")
    if digest(event.facts) != facts_digest:
        fault("its facts were changed")
    if event.texts is None:
        folded.erased.add(event.seq)
    elif digest(event.texts) != texts_digest:
        fault("its texts were changed")
    if link(folded.chain, header(event, erases), facts_digest, texts_digest) != stored_link:
        fault("it does not follow from the event before it: changed, moved or inserted")
    folded.chain, folded.head = stored_link, event.seq
    if erases is not None:
        folded.named.add(erases)
    try:
        folded.state = evolve(folded.state, read.as_event(event, texts=False))
        folded.title = _title(event, folded.title)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        fault(f"it does not fit the state before it: {error!r}")


def _title(event: Stored, before: str) -> str:
    """The session's title after an event, as the session's row has it."""
    if event.type not in ("SessionCreated", "SessionChanged"):
        return before
    title = read.as_event(event).data.get("title")
    return title if isinstance(title, str) else before if title is None else "erased"


def _cache_faults(cur: Cursor[Row], session: str, folded: Folded) -> Iterator[Fault]:
    row = cur.execute(_CACHED, (session,)).fetchone()
    if row is None:
        yield Fault(session, None, "there is no such session")
        return
    word, runnable = session_columns(folded.state)
    fresh = {
        "head": folded.head, "chain": folded.chain, "state": to_json(folded.state), "fold": FOLD, "word": word,
        "runnable": runnable, "settings": dict(folded.state.settings), "title": folded.title,
    }  # fmt: skip
    cached = dict(zip(fresh, row, strict=True))
    if cached["head"] > folded.head:
        yield Fault(session, folded.head + 1, f"it is missing, with all events up to {cached['head']}")
    for name, value in fresh.items():
        if _plain(cached[name]) != _plain(value):
            yield Fault(session, None, f"the cached column `{name}` differs from the fold of the log")


def _plain(value: Any) -> Any:
    """Tuples and lists compare equal: JSON knows only one of them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
