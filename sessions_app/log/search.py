"""Finding sessions by words of their messages: what people wrote and what agents answered.

The index is one of the log's own rows (`event_words`, of trigrams), so there is nothing to keep in step with the log:
an erased text is found no more, and nothing of it has to be rebuilt. Words of fewer than three letters have no trigram;
alone they are looked for in titles only. Every kind of text that is searched is one that observers see, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import psycopg
from psycopg import sql

from sessions_app.engine.errors import Refused
from sessions_app.log import db
from sessions_app.log.frames import instant
from sessions_app.log.payload import whole
from sessions_app.people.principals import Principal

SHORTEST: Final = 3
MOST_WORDS: Final = 8
LIMIT_MS: Final = 4000
"""How long a search may take: one for a word that most of a long log holds is ended, and another word asked for."""
_BEFORE: Final = 40
_AFTER: Final = 120
# As in the index: what is not written so is searched without it.
_TYPES: Final = "('InputQueued', 'InputChanged', 'SteerQueued', 'StepPlanned', 'StepDone')"
_HITS: Final = f"""SELECT DISTINCT ON (e.session_id) e.session_id, e.seq FROM event e
    WHERE e.type IN {_TYPES} AND e.session_id IN (SELECT m.session_id FROM member m WHERE m.person_id = %s) AND """
_ORDER: Final = " ORDER BY e.session_id, e.seq DESC"
_HOLDS: Final = sql.SQL("message_words(e.texts) ILIKE %s")
_EVENTS: Final = """SELECT e.session_id, e.seq, e.type, e.turn, e.at, e.actor, e.facts, e.texts FROM event e
    JOIN unnest(%s::uuid[], %s::bigint[]) AS q(session, seq) ON e.session_id = q.session AND e.seq = q.seq"""


@dataclass(frozen=True, slots=True)
class Hit:
    """The newest message of a session that holds the words."""

    session: str
    seq: int


def words_of(q: str) -> list[str]:
    """What is looked for: each word of it, wherever it stands."""
    return list(dict.fromkeys(q.split()))[:MOST_WORDS]


def escaped(words: str) -> str:
    """Words for ILIKE, taken literally; PostgreSQL text cannot hold a NUL."""
    return words.replace("\0", "\ufffd").replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def patterns(q: str) -> list[str]:
    """The words as patterns for ILIKE."""
    return [f"%{escaped(word)}%" for word in words_of(q)]


def newest_hits(principal: Principal, q: str) -> dict[str, Hit]:
    """Of each of the caller's sessions the newest message with all the words, by session.

    Refused `invalid` where that would take too long.
    """
    if not any(len(word) >= SHORTEST for word in words_of(q)):
        return {}
    held = sql.SQL(" AND ").join([_HOLDS] * len(words_of(q)))
    query = sql.SQL(_HITS) + held + sql.SQL(_ORDER)
    try:
        with db.cursor("read") as cur:
            cur.execute("SELECT set_config('statement_timeout', %s, true)", (str(LIMIT_MS),))
            found = cur.execute(query, [principal.person, *patterns(q)]).fetchall()
    except psycopg.errors.QueryCanceled as error:
        detail = "So many messages hold these words that looking through them takes too long. Add another word."
        raise Refused("invalid", detail, field="q") from error
    return {str(session): Hit(str(session), seq) for session, seq in found}


def tidy() -> None:
    """Sort what was appended of late into the index: an append must not, and until then every search reads it whole."""
    with db.cursor("read") as cur:
        cur.execute("SELECT gin_clean_pending_list('event_words'::regclass)")


def excerpts(hits: Iterable[Hit], q: str) -> dict[str, dict[str, Any]]:
    """By session: `{seq, turn, at, by, text, marks}`, the words in their place; `marks` are pairs of code points.

    `by` is the actor's name, null for the agent's own words.
    """
    wanted = list(hits)
    if not wanted:
        return {}
    with db.cursor("read") as cur:
        rows = cur.execute(_EVENTS, ([hit.session for hit in wanted], [hit.seq for hit in wanted])).fetchall()
    found = {}
    for session, seq, type_, turn, at, actor, facts, texts in rows:
        text = whole(bytes(facts), None if texts is None else bytes(texts)).get("text")
        if not isinstance(text, str):
            continue  # it was erased in this very moment
        shown, marks = excerpt(text, words_of(q))
        by = None if type_ in ("StepPlanned", "StepDone") else orjson.loads(actor)["name"]
        found[str(session)] = {
            "seq": seq, "turn": None if turn is None else str(turn), "at": instant(at), "by": by, "text": shown,
            "marks": marks,
        }  # fmt: skip
    return found


def excerpt(text: str, words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """One line around the first word that stands in `text`, and where in it all of them stand."""
    line = " ".join(text.split())
    places = [at for word in words if (at := _find(line, word, 0)) >= 0]
    start = max(0, min(places, default=0) - _BEFORE)
    end = min(len(line), start + _BEFORE + _AFTER)
    if start:
        start = line.find(" ", start, start + _BEFORE // 2) + 1 or start
    shown = ("\u2026" if start else "") + line[start:end] + ("\u2026" if end < len(line) else "")
    return shown, _marks(shown, words)


def _marks(line: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words stand, those that overlap as one."""
    spans: list[tuple[int, int]] = []
    for word in words:
        at = _find(line, word, 0)
        while at >= 0:
            spans.append((at, at + len(word)))
            at = _find(line, word, at + len(word))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _find(line: str, word: str, start: int) -> int:
    """Where a word stands in any case; lower-casing each character for itself keeps their number."""
    return _lower(line).find(_lower(word), start)


def _lower(text: str) -> str:
    return "".join(one if len(one.lower()) != 1 else one.lower() for one in text)
