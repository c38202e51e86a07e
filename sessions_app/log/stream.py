"""Stream text: what a running step has streamed so far, saved beside the log and outside the session's lock (L2).

It serves late joiners, watchers whose bell is silent, and the review of what a stop cut off (C3). Offsets count Unicode
code points, so whatever is replaced here is replaced one for one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sessions_app.log import db

LIVE_CHARS: Final = 1024 * 1024
"""How much of one stream is live, in code points; the event that ends it has the rest, within its own limits."""
LIVE_NOTE: Final = "\n… the live view ends here; the whole text comes with the result …\n"

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

Key = tuple[str, int, str, str]
"""Turn, step, kind and call: one stream, whatever its attempt."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One stream, all of its text so far. `kind` is text, reasoning or tool; a tool's has a `call`."""

    session: str
    loop: str
    turn: str
    step: int
    attempt: int
    kind: str
    text: str
    call: str = ""

    @property
    def key(self) -> Key:
        return self.turn, self.step, self.kind, self.call


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a running stream is saved, in bytes of UTF-8."""

    session: str
    key: Key
    attempt: int
    octets: int


def clip(text: str) -> str:
    """The live part of a stream: all of it up to `LIVE_CHARS`, then a note instead of more."""
    return text if len(text) <= LIVE_CHARS else text[:LIVE_CHARS] + LIVE_NOTE


_SAVE: Final = """
INSERT INTO stream_text AS old (session, loop, turn, step, attempt, kind, call, text, saved_at)
SELECT *, now()
FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::int[], %s::int[], %s::text[], %s::text[], %s::text[])
ON CONFLICT (turn, step, attempt, kind, call) DO UPDATE SET text = excluded.text, saved_at = excluded.saved_at
WHERE octet_length(old.text) < octet_length(excluded.text)
"""


def save(pieces: Sequence[Piece]) -> None:
    """Save all these streams in one statement; a piece that is older than what is saved changes nothing.

    Sorted, so that two writers never wait for each other in a circle.
    """
    newest = {(piece.key, piece.attempt): piece for piece in pieces}
    if not newest:
        return
    rows = [
        (p.session, p.loop, p.turn, p.step, p.attempt, p.kind, p.call, _UNSTORABLE.sub("\ufffd", clip(p.text)))
        for _, p in sorted(newest.items(), key=lambda item: item[0])
    ]
    with db.cursor("read") as cur:
        cur.execute(_SAVE, [list(column) for column in zip(*rows, strict=True)])


_READ: Final = """
SELECT session::text, loop::text, turn::text, step, attempt, kind, text, call FROM stream_text
WHERE session = %s ORDER BY turn, step, attempt, kind, call
"""
_READ_TURN: Final = """
SELECT session::text, loop::text, turn::text, step, attempt, kind, text, call FROM stream_text
WHERE turn = %s ORDER BY step, attempt, kind, call
"""
_READ_RUNNING: Final = """
SELECT s.session::text, s.loop::text, s.turn::text, s.step, s.attempt, s.kind, s.text, s.call
FROM running_turn r JOIN stream_text s ON s.turn = r.turn AND s.step = r.step
WHERE r.session = %s ORDER BY s.turn, s.attempt, s.kind, s.call
"""
_SIZES: Final = """
SELECT s.session::text, s.turn::text, s.step, s.kind, s.call, s.attempt, octet_length(s.text)
FROM running_turn r JOIN stream_text s ON s.turn = r.turn AND s.step = r.step
WHERE r.session = ANY(%s::uuid[])
"""
_DROP: Final = "DELETE FROM stream_text WHERE saved_at < now() - make_interval(days => %s)"


def read(session: str) -> list[Piece]:
    """Every stream of a session that is still kept, in the order of steps and attempts."""
    return _pieces(_READ, session)


def read_turn(turn: str) -> list[Piece]:
    """Every stream of one turn that is still kept: what had streamed by when its worker was lost (C3)."""
    return _pieces(_READ_TURN, turn)


def read_running(session: str) -> list[Piece]:
    """The streams of the steps that run at this moment in a session."""
    return _pieces(_READ_RUNNING, session)


def sizes(sessions: Sequence[str]) -> list[Size]:
    """How much is saved of the streams that run at this moment in these sessions, without reading the texts."""
    with db.cursor("read") as cur:
        rows = cur.execute(_SIZES, [list(sessions)]).fetchall()
    return [
        Size(session, (turn, step, kind, call), attempt, octets)
        for session, turn, step, kind, call, attempt, octets in rows
    ]


def _pieces(query: str, key: str) -> list[Piece]:
    with db.cursor("read") as cur:
        rows = cur.execute(query, [key]).fetchall()
    return [Piece(*row) for row in rows]


def drop_old(days: int) -> int:
    """Delete what was last saved more than `days` days ago; how many streams that was."""
    with db.cursor("read") as cur:
        return cur.execute(_DROP, [days]).rowcount


def newest_attempts(pieces: Sequence[Piece]) -> list[Piece]:
    """Of each stream only its highest attempt: a higher one starts again (L2)."""
    newest: dict[Key, Piece] = {}
    for piece in pieces:
        if piece.key not in newest or newest[piece.key].attempt < piece.attempt:
            newest[piece.key] = piece
    return list(newest.values())
