"""What people are to be told of an event (Web Push): rows beside the log, written in the event's own transaction.

The log is the truth and a push is a hint: whether a row is worth sending is decided when it is sent (`push.deciding`).
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from psycopg import Cursor

from sessions_app.engine.decide.budgets import near
from sessions_app.engine.events import Event
from sessions_app.engine.fold import DAY_MS
from sessions_app.engine.state import State
from sessions_app.log.db import Row

Kind = Literal["approval", "answered", "ended", "failed", "stopped", "budget", "silent"]
TELLING: Final = frozenset(
    {"GateOpened", "GateResolved", "GateClosed", "TurnDone", "TurnFailed", "TurnInterrupted", "StepDone"}
)
"""The events that may have to be told."""
_STOPPED: Final = ("person", "token", "admin", "closing")
# Whom: the devices of members that want to hear of this session; by default of those that they created themselves.
WANTED: Final = """member m
    JOIN device d ON d.person_id = m.person_id JOIN push_subscription p ON p.device_id = d.id
    LEFT JOIN push_choice c ON c.session_id = m.session_id AND c.person_id = m.person_id
    LEFT JOIN push_settings x ON x.person_id = m.person_id
    WHERE m.session_id = s.id
    AND coalesce(c.level, CASE WHEN s.created_by_id = m.person_id THEN 'all' ELSE 'nothing' END) <> 'nothing'"""
_NOTE: Final = f"""INSERT INTO push_outbox (subscription, session, seq, kind, about)
    SELECT p.id, s.id, n.seq, n.kind, n.about
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS n(seq, kind, about) JOIN session s ON s.id = %s, {WANTED}
    ON CONFLICT DO NOTHING"""


def note(cur: Cursor[Row], session: str, events: Sequence[Event], states: Sequence[State]) -> None:
    """Write down who is to be told what of these events; `states` are those after each."""
    found = [each for event, state in zip(events, states, strict=True) for each in _news(event, state)]
    if found:
        seqs, kinds, abouts = zip(*found, strict=True)
        cur.execute(_NOTE, (list(seqs), list(kinds), list(abouts), session))


def _news(event: Event, state: State) -> Iterator[tuple[int, Kind, str]]:
    loop = state.loops.get(event.loop or "")
    if event.type not in TELLING or loop is None:
        return
    turn = event.turn or ""
    if event.type == "GateOpened":
        yield event.seq, "approval", event.data["gate"]
    elif event.type in ("GateResolved", "GateClosed"):
        yield event.seq, "answered", event.data["gate"]
    elif event.type == "StepDone":
        day = f"day {event.at_ms // DAY_MS}"
        for which in near(state, loop, event.at_ms):
            yield event.seq, "budget", f"{day if which == 'day_cost' else turn} {which}"
    elif loop.parent is not None:
        return  # the end of a delegate is its parent's to tell
    elif event.type == "TurnDone":
        yield event.seq, "ended", turn
    elif event.type == "TurnFailed" or event.data["cause"] not in _STOPPED:
        yield event.seq, "failed", turn
    else:
        yield event.seq, "stopped", turn
