"""Waiting for a stop's outcome, outside every lock (E4)."""

import time
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from sessions_app.control.stopping import Asked
from sessions_app.engine.errors import Refused
from sessions_app.log import db

_LOOK_S: Final = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25)
# What it ends in the background, and what its turns' calls left there under it.
_RUNNING_ON: Final = """SELECT EXISTS (SELECT FROM background_process b
        JOIN unnest(%s::uuid[], %s::text[]) AS q(turn, call) USING (turn, call))
    OR EXISTS (SELECT FROM background_process WHERE turn = ANY(%s::uuid[]) AND kill_at IS NOT NULL)"""
_ENDS: Final = """SELECT position('"note":"held_processes"' IN facts) > 0 FROM event
    WHERE session_id = %s AND turn = ANY(%s) AND type IN ('TurnDone', 'TurnFailed', 'TurnInterrupted')"""


def stop_outcome(session: str, receipt: dict[str, Any]) -> dict[str, Any] | None:
    """`{stopped, joined, turns, note, input?, background?}`; None before all that the stop ends or joins has ended."""
    turns = receipt["turns"]
    note, held = receipt["note"], False
    if turns:
        with db.cursor("read") as cur:
            ends = cur.execute(_ENDS, (session, turns)).fetchall()
        if len(ends) < len(turns):
            return None
        held = any(end[0] for end in ends)
    if _running_on(turns, receipt.get("background", [])):
        return None
    outcome: dict[str, Any] = {
        "stopped": bool(turns) and not receipt["joined"] and note != "closing",
        "joined": receipt["joined"],
        "turns": turns,
        "note": "held_processes" if held and note is None else note,
    }
    return outcome | {name: receipt[name] for name in ("input", "background") if name in receipt}


def _running_on(turns: list[str], background: list[list[str]]) -> bool:
    """Whether something that the stop ends in the background has not ended yet (E13)."""
    if not turns and not background:
        return False
    named = ([turn for turn, _ in background], [call for _, call in background])
    with db.cursor("read") as cur:
        row = cur.execute(_RUNNING_ON, (*named, turns)).fetchone()
    return row is not None and bool(row[0])


def _look(session: str, receipt: dict[str, Any]) -> dict[str, Any] | None:
    """One look at the outcome; a database that is away for a moment is only a late answer, for the stop is durable."""
    try:
        return stop_outcome(session, receipt)
    except psycopg.OperationalError:
        return None
    except Refused as refused:
        if refused.code != "unavailable":
            raise
        return None


def wait_stopped(session: str, receipt: dict[str, Any], deadline_s: float) -> dict[str, Any]:
    """Block until the outcome, at most `deadline_s`; then `deadline`, which claims nothing: the stop goes on (E4)."""
    end = time.monotonic() + deadline_s
    for attempt in range(1_000_000):
        outcome = _look(session, receipt)
        if outcome is not None:
            return outcome
        left = end - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(_LOOK_S[min(attempt, len(_LOOK_S) - 1)], left))
    raise Refused("deadline", "The stop goes on; it had not ended in time.", turns=receipt["turns"])


def wait_many(asked: Sequence[Asked], deadline_s: float) -> list[dict[str, Any]]:
    """What came of the stops of many sessions within `deadline_s`: `{id, stopped, turns, ...}` each.

    An item whose stop was refused, or has not ended (`deadline`), has a `code`, `detail` and `data`: it never claims
    that something stopped (E4).
    """
    end = time.monotonic() + deadline_s
    return [_item(session, receipt, end) for session, receipt in asked]


def _item(session: str, asked: dict[str, Any] | Refused, end: float) -> dict[str, Any]:
    try:
        if isinstance(asked, Refused):
            raise asked
        return {"id": session, **wait_stopped(session, asked, max(0.0, end - time.monotonic()))}
    except Refused as refusal:
        turns = [] if isinstance(asked, Refused) else asked["turns"]
        told = {"code": refusal.code, "detail": refusal.detail, "data": refusal.data}
        return {"id": session, "stopped": False, "turns": turns, **told}
