"""Tables that are folds of the log, for queries: session columns, interruptions, members, the running turns' rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql
from psycopg.types.json import Jsonb

from sessions_app.engine.decide.gates import open_gates
from sessions_app.engine.stops import of_turn
from sessions_app.log import files

if TYPE_CHECKING:
    from psycopg import Cursor

    from sessions_app.engine.events import Event
    from sessions_app.engine.state import State, Turn
    from sessions_app.log.db import Row
    from sessions_app.log.frames import Stored

Rule = Callable[["Cursor[Row]", "State", "Event", "Stored"], None]


def session_columns(state: State) -> tuple[str, bool]:
    """(word, runnable): the session's state in one word, and whether a worker may claim something of it (B2)."""
    if state.status == "closed":
        return "closed", False
    if state.status == "closing":
        return "closing", False
    turns = [loop.turn for loop in state.loops.values() if loop.turn is not None]
    if turns and state.runnable() and all(map(_rests, turns)):
        return "waiting", True
    if any(turn.mark is not None for turn in turns):
        return "stopping", state.runnable()
    if any(open_gates(turn) for turn in turns):
        return "approval", state.runnable()
    if turns:
        return "running", state.runnable()
    return ("waiting" if state.runnable() else "idle"), state.runnable()


def _rests(turn: Turn) -> bool:
    """Whether a turn does nothing until a worker takes it, or a delegate of it, up (B2)."""
    return turn.mark is None and not open_gates(turn) and (turn.given_back() or bool(turn.delegated()))


def project(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    """Bring the projections up to one event; `state` is the one after it."""
    rule = _RULES.get(event.type)
    if rule is not None:
        rule(cur, state, event, row)


def _changed(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    if event.data.get("title") is not None:
        cur.execute("UPDATE session SET title = %s WHERE id = %s", (event.data["title"], row.session))
    if event.data.get("settings") is not None:
        settings = Jsonb(dict(state.settings))
        cur.execute("UPDATE session SET settings = %s WHERE id = %s", (settings, row.session))


def _member(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    person, role = event.data["person"], event.data["role"]
    if role is None:
        cur.execute("DELETE FROM member WHERE session_id = %s AND person_id = %s", (row.session, person))
        return
    cur.execute(
        """INSERT INTO member (session_id, person_id, role) VALUES (%s, %s, %s)
           ON CONFLICT (session_id, person_id) DO UPDATE SET role = excluded.role""",
        (row.session, person, role),
    )


def _back_in_lists(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    """An archived session comes back to everybody's list when somebody writes in it, or an agent asks."""
    cur.execute("UPDATE list_place SET archived = false WHERE session_id = %s AND archived", (row.session,))


def _queued(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _back_in_lists(cur, state, event, row)
    if event.data.get("files"):
        files.name_first(cur, row.session, event.seq, (each["id"] for each in event.data["files"]))


def _turn_started(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    cur.execute(
        """INSERT INTO running_turn (turn, session, loop, worker, epoch, step, attempt, phase, since, call, depth)
           VALUES (%s, %s, %s, %s, %s, 1, 1, 'model', %s, '', %s)""",
        (event.turn, row.session, event.loop, event.data["worker"], event.data["epoch"], row.at, _depth(state, event)),
    )


def _handed_over(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    cur.execute("DELETE FROM running_turn WHERE turn = %s", (event.turn,))


def _resumed(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    turn = state.loops[event.loop or ""].turn
    cur.execute(
        """INSERT INTO running_turn (turn, session, loop, worker, epoch, step, attempt, phase, since, call, depth)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, '', %s)""",
        (event.turn, row.session, event.loop, event.data["worker"], event.data["epoch"], event.step,
         1 if turn is None else turn.attempt, _resting(state, event), _waits_since(turn) or row.at,
         _depth(state, event)),
    )  # fmt: skip


def _depth(state: State, event: Event) -> int:
    return len(state.ancestors(state.loops[event.loop or ""]))


def _waits_since(turn: Turn | None) -> datetime | None:
    """Since when it has waited for an answer or delegates, which no hand-over starts anew."""
    return None if turn is None or turn.asked_ms is None else datetime.fromtimestamp(turn.asked_ms / 1000, UTC)


def _resting(state: State, event: Event) -> str:
    """What a turn with no running call of its own is doing: it waits for an answer, for delegates, or thinks."""
    loop = state.loops.get(event.loop or "")
    turn = None if loop is None else loop.turn
    if turn is None:
        return "model"
    return "gate" if open_gates(turn) else "delegate" if turn.delegated() else "model"


def _phase(cur: Cursor[Row], event: Event, row: Stored, phase: str, step: int, call: str) -> None:
    cur.execute(
        """UPDATE running_turn SET phase = %s, since = %s, step = %s, call = %s, attempt = 1, next_at = NULL
           WHERE turn = %s""",
        (phase, row.at, step, call, event.turn),
    )


def _tool_started(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _phase(cur, event, row, "tool", event.step or 1, event.data["call"])


def _loop_closed(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    parent = state.loops[event.loop or ""].parent
    if parent is not None:  # what runs on in its background is its parent's (E13)
        cur.execute("UPDATE background_process SET loop = %s WHERE loop = %s", (parent, event.loop))


def _loop_started(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    parent = state.loops.get(event.data["parent"] or "")
    if parent is not None and parent.turn is not None:  # its call waits for this delegate (G1)
        cur.execute("UPDATE running_turn SET phase = 'delegate', since = %s WHERE turn = %s", (row.at, parent.turn.id))


def _thinking(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _phase(cur, event, row, _resting(state, event), event.step or 1, "")


def _tool_settled(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _thinking(cur, state, event, row)
    loop = state.loops.get(event.loop or "")
    for each in () if loop is None or not event.data["processes"]["background"] else loop.background:
        if each.seq == event.seq:
            cur.execute(
                """INSERT INTO background_process (session, loop, turn, call, worker, started_at)
                   VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
                (row.session, event.loop, event.turn, each.call, each.worker, row.at),
            )
    left = survivor(state, event)
    if left is not None:
        cur.execute(
            """INSERT INTO survivor (session, loop, turn, call, worker, seq)
               VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            (row.session, event.loop, event.turn, event.data["call"], left, event.seq),
        )


def survivor(state: State, settled: Event) -> str | None:
    """The worker whose processes outlived the kill that a settlement tells of (E7); None where none did."""
    turn = state.loops[settled.loop or ""].turn
    return turn.worker if turn is not None and turn.worker and settled.data["processes"]["surviving"] else None


def _kill_requested(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    cur.execute(
        "UPDATE background_process SET kill_at = %s WHERE turn = %s AND call = %s AND kill_at IS NULL",
        (row.at, event.turn, event.data["call"]),
    )


def _processes_ended(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    if not event.data["processes"]["surviving"]:
        table = sql.Identifier("background_process" if event.data.get("background") else "survivor")
        delete = sql.SQL("DELETE FROM {} WHERE turn = %s AND call = %s").format(table)
        cur.execute(delete, (event.turn, event.data["call"]))


def _gate_opened(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _back_in_lists(cur, state, event, row)
    _phase(cur, event, row, "gate", event.step or 1, event.data["call"])


def _next_step(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _phase(cur, event, row, "model", (event.step or 0) + 1, "")


def _marked(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    turns = event.data["turns"]
    if turns:
        cur.execute(
            """INSERT INTO turn_mark (turn, session, worker, request, marked_at)
               SELECT turn, session, worker, %s, %s FROM running_turn WHERE turn = ANY(%s)""",
            (event.data["request"], row.at, turns),
        )


def _ended(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    cur.execute("DELETE FROM running_turn WHERE turn = %s", (event.turn,))
    cur.execute("DELETE FROM turn_mark WHERE turn = %s", (event.turn,))


def _interrupted(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    _ended(cur, state, event, row)
    insert_interruption(cur, interruption_row(row.session, event, row.at, state.loops[event.loop or ""].turns))


_NUMBERS: Final = (
    "ended_by", "acknowledged_ms", "settled_ms", "steps_kept", "cut_off", "ended", "surviving", "unknown", "kept",
    "held", "cancelled",
)  # fmt: skip
INTERRUPTION_COLUMNS: Final = (
    "id", "session_id", "loop", "seq", "turn_index", "at", "request", "actor", "cause", "reason", "phase", *_NUMBERS,
)  # fmt: skip


def interruption_row(session: str, event: Event, at: datetime, index: int) -> dict[str, Any]:
    """One row of the interruptions table from its terminal; `index` is the turn's number."""
    data: dict[str, Any] = event.data
    numbers = of_turn(data)
    return {
        "id": event.turn,
        "session_id": session,
        "loop": event.loop,
        "seq": event.seq,
        "turn_index": index,
        "at": at,
        "request": data.get("request"),
        "actor": event.actor.json(),
        "cause": data["cause"],
        "reason": data.get("reason"),
        "phase": data["phase"],
        **{name: numbers[name] for name in _NUMBERS},
    }


_INSERT_INTERRUPTION: Final = sql.SQL("INSERT INTO interruption ({}) VALUES ({})").format(
    sql.SQL(", ").join(map(sql.Identifier, INTERRUPTION_COLUMNS)),
    sql.SQL(", ").join(map(sql.Placeholder, INTERRUPTION_COLUMNS)),
)


def insert_interruption(cur: Cursor[Row], row: dict[str, Any]) -> None:
    """Add a row that `interruption_row` made."""
    cur.execute(_INSERT_INTERRUPTION, {**row, "actor": Jsonb(row["actor"])})


def _reason_given(cur: Cursor[Row], state: State, event: Event, row: Stored) -> None:
    cur.execute("UPDATE interruption SET reason = %s WHERE id = %s", (event.data["reason"], event.data["turn"]))


_RULES: Final[dict[str, Rule]] = {
    "SessionCreated": _changed,
    "SessionChanged": _changed,
    "MemberChanged": _member,
    "InputQueued": _queued,
    "SteerQueued": _queued,
    "LoopStarted": _loop_started,
    "LoopClosed": _loop_closed,
    "TurnStarted": _turn_started,
    "TurnHandedOver": _handed_over,
    "TurnResumed": _resumed,
    "GateOpened": _gate_opened,
    "GateResolved": _thinking,
    "GateClosed": _thinking,
    "ToolStarted": _tool_started,
    "ToolSettled": _tool_settled,
    "KillRequested": _kill_requested,
    "ProcessesEnded": _processes_ended,
    "StepDone": _next_step,
    "OutputSuperseded": _next_step,
    "InterruptRequested": _marked,
    "TurnDone": _ended,
    "TurnFailed": _ended,
    "TurnInterrupted": _interrupted,
    "InterruptReasonGiven": _reason_given,
}
