"""Checking the log and its caches: the chain link by link, every cached column and table against a fold (A2, A3)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
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
from sessions_app.log.tables import Tables

_ROWS: Final = sql.SQL(
    """SELECT {}, facts_digest, texts_digest, link, erases FROM event
       WHERE session_id = %s AND seq > %s ORDER BY seq LIMIT %s"""
).format(sql.SQL(read.COLUMNS))
_COLUMNS: Final = (
    "head", "chain", "state", "fold", "word", "word_since", "active_at", "runnable", "settings", "title",
)  # fmt: skip
_CACHED: Final = sql.SQL("SELECT {} FROM session WHERE id = %s").format(
    sql.SQL(", ").join(map(sql.Identifier, _COLUMNS))
)
_CACHE: Final = sql.SQL("UPDATE session SET ({}) = ROW ({}) WHERE id = %(session)s").format(
    sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)), sql.SQL(", ").join(map(sql.Placeholder, _COLUMNS))
)
ERASED_TITLE: Final = "erased"
"""What a session is called whose title was erased (A3)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One difference: in which session, at which event (None: in the cache), and what it is."""

    session: str
    seq: int | None
    what: str


@dataclass(slots=True)
class Folded:
    """A session's log, read from the beginning: its faults, where it ends, and the state it makes.

    `titled` is the event that gave the title, `active_at` the newest one's time and `word_since` that of the newest
    which changed the word; `erased` are the events that have lost their texts, `named` those of which a
    `ContentErased` says so.
    """

    faults: list[Fault] = field(default_factory=list)
    head: int = 0
    chain: bytes = GENESIS
    state: State = field(default_factory=State)
    word_since: datetime | None = None
    active_at: datetime | None = None
    title: str = ""
    titled: int = 0
    tables: Tables = field(default_factory=Tables)
    erased: set[int] = field(default_factory=set)
    named: set[int] = field(default_factory=set)

    def columns(self) -> dict[str, Any]:
        """What a session's row has of it, by column."""
        word, runnable = session_columns(self.state)
        return {
            "head": self.head, "chain": self.chain, "state": to_json(self.state), "fold": FOLD, "word": word,
            "word_since": self.word_since, "active_at": self.active_at, "runnable": runnable,
            "settings": dict(self.state.settings), "title": self.title,
        }  # fmt: skip


def sessions() -> list[str]:
    """Every session, oldest first."""
    with db.cursor("read") as cur:
        return [str(row[0]) for row in cur.execute("SELECT id FROM session ORDER BY created_at").fetchall()]


def verify(session: str | None = None) -> Iterator[Fault]:
    """Faults of one session or all: a changed, missing, reordered or inserted row, named; a cache that differs."""
    for each in [session] if session is not None else sessions():
        folded = Folded()
        with db.cursor("read") as cur:
            cur.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            _read(cur, each, folded)
            cached = _cached(cur, each)
            tables = _table_faults(cur, each, folded)
        yield from _log_faults(each, folded, cached)
        yield from _cache_faults(each, folded, cached)
        yield from tables


def outdated() -> list[str]:
    """The sessions whose cached state another version's fold wrote; they take no command until `rebuild`."""
    with db.cursor("read") as cur:
        return [str(row[0]) for row in cur.execute("SELECT id FROM session WHERE fold <> %s", (FOLD,)).fetchall()]


def rebuild(session: str | None = None) -> Iterator[Fault]:
    """Write the cached columns anew from the log, and yield what was different.

    A log that is damaged itself is left alone, and so are its caches: they are what shows the damage. A long log is
    folded without the session's lock, which is then held for what came meanwhile (A8).
    """
    for each in [session] if session is not None else sessions():
        folded = Folded()
        with db.cursor("read") as cur:
            _read(cur, each, folded)
        with db.cursor("write") as cur:
            cur.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (each,))
            _read(cur, each, folded)
            cached = _cached(cur, each)
            damage = list(_log_faults(each, folded, cached))
            tables = _table_faults(cur, each, folded)
            if not damage:
                _write(cur, each, folded)
            if tables and not damage:
                folded.tables.write(cur, each)
        yield from damage
        yield from _cache_faults(each, folded, cached)
        yield from tables


def _write(cur: Cursor[Row], session: str, folded: Folded) -> None:
    columns = folded.columns()
    columns |= {name: Jsonb(columns[name]) for name in ("state", "settings")}
    cur.execute(_CACHE, {**columns, "session": session})


def _read(cur: Cursor[Row], session: str, folded: Folded) -> None:
    """Read on, from where it is to the log's end."""
    while True:
        page = cur.execute(_ROWS, (session, folded.head, read.PAGE_MAX)).fetchall()
        for row in page:
            _step(folded, read.stored(session, row[:10]), *row[10:])
        if len(page) < read.PAGE_MAX:
            return


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
        if erases == folded.titled:
            folded.title = ERASED_TITLE
        folded.tables.erase(erases)
    try:
        _follow(event, folded)
        _title(event, folded)
        folded.tables.step(event, folded.state)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        fault(f"it does not fit the state before it: {error!r}")


def _follow(event: Stored, folded: Folded) -> None:
    """Take one event into the state, and its time into the columns that are times."""
    before, _ = session_columns(folded.state)
    folded.state = evolve(folded.state, read.as_event(event, texts=False))
    word, _ = session_columns(folded.state)
    folded.active_at = event.at
    if folded.word_since is None or word != before:
        folded.word_since = event.at


def _title(event: Stored, folded: Folded) -> None:
    """Follow the session's title as the session's row has it."""
    if event.type in ("SessionCreated", "SessionChanged"):
        title = read.as_event(event).data.get("title")
        if title is not None:
            folded.title, folded.titled = title if isinstance(title, str) else ERASED_TITLE, event.seq


def _cached(cur: Cursor[Row], session: str) -> dict[str, Any] | None:
    row = cur.execute(_CACHED, (session,)).fetchone()
    return None if row is None else dict(zip(_COLUMNS, row, strict=True))


def _log_faults(session: str, folded: Folded, cached: dict[str, Any] | None) -> Iterator[Fault]:
    """What is wrong with the log itself: link by link, texts that are gone without a word, and a missing end."""
    yield from folded.faults
    for seq in sorted(folded.erased - folded.named):
        yield Fault(session, seq, "its texts are gone, and no ContentErased says why")
    if cached is not None and cached["head"] > folded.head and bytes(cached["chain"]) != folded.chain:
        yield Fault(session, folded.head + 1, f"it is missing, with all events up to {cached['head']}")


def _cache_faults(session: str, folded: Folded, cached: dict[str, Any] | None) -> Iterator[Fault]:
    if cached is None:
        yield Fault(session, None, "there is no such session")
        return
    for name, value in folded.columns().items():
        if _plain(cached[name]) != _plain(value):
            yield Fault(session, None, f"the cached column `{name}` differs from the fold of the log")


def _table_faults(cur: Cursor[Row], session: str, folded: Folded) -> list[Fault]:
    return [Fault(session, None, what) for what in folded.tables.differences(cur, session)]


def _plain(value: Any) -> Any:
    """Tuples and lists compare equal: JSON knows only one of them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
