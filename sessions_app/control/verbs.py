"""What people do with inputs and steers.

All verbs of `control` raise `Refused`, return JSON-able receipts, and take the client's command id, which makes them
safe to repeat (A4).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

from sessions_app.control.permitted import Unchanged, known_id, run
from sessions_app.engine import commands
from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.ids import new_id
from sessions_app.log import db
from sessions_app.people.principals import Principal

Kind = Literal["input", "steer"]
_FATES: Final = {
    "input": ["InputQueued", "TurnStarted", "TurnFoldedInto", "InputCancelled"],
    "steer": ["SteerQueued", "SteerDelivered", "SteerWithdrawn"],
}
_FATE: Final = """SELECT type FROM event WHERE session_id = %s AND type = ANY(%s) AND position(%s IN facts) > 0
    ORDER BY seq DESC LIMIT 1"""
_OTHERS: Final = """SELECT 1 FROM session, jsonb_each(state -> 'loops') AS loop,
    jsonb_array_elements(loop.value -> 'steers') AS steer WHERE session.id = %s AND steer ->> 'id' = %s
    AND (steer -> 'author' ->> 'kind', steer -> 'author' ->> 'id') <> (%s, %s)"""


def submit(
    principal: Principal,
    session: str,
    command: str,
    *,
    text: str,
    loop: str | None = None,
    delivery: str = "queue",
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """Admit an input (B1): `{input, position, seq}`. `files` are ids of files uploaded before."""
    order = commands.Submit(new_id(), text, loop, delivery, files)
    content = [text, loop, delivery, *([list(files)] if files else [])]
    return run(principal, session, command, "submit", order, content).receipt


def edit_input(
    principal: Principal,
    session: str,
    command: str,
    input: str,
    *,
    text: str | None = None,
    position: int | None = None,
    promote: Literal["normal", "urgent"] | None = None,
) -> dict[str, Any]:
    """Change a waiting input, or promote it to a steer (B4): `{input, position or steer, seq}`."""
    order = commands.EditInput(input, text, position, promote, new_id())
    content, told = [input, text, position, promote], told_if_taken(session, "input", input)
    return run(principal, session, command, "edit", order, content, told=told).receipt


def retract_input(principal: Principal, session: str, command: str, input: str) -> dict[str, Any]:
    """Take a waiting input back: `{retracted}`, false for one that was cancelled already (B4)."""
    order, told = commands.RetractInput(input), told_if_taken(session, "input", input, wanted="InputCancelled")
    try:
        return run(principal, session, command, "retract", order, [input], told=told).receipt
    except Unchanged:
        return {"retracted": False}


def retry_input(principal: Principal, session: str, command: str, input: str) -> dict[str, Any]:
    """Try a message again whose turn failed before anything was committed (B9): `{input, position, seq}`."""
    return run(principal, session, command, "submit", commands.Retry(input, new_id()), ["retry", input]).receipt


def steer(
    principal: Principal,
    session: str,
    command: str,
    *,
    text: str,
    urgent: bool = False,
    loop: str | None = None,
    turn: str | None = None,
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """Accept a steer (D): `{steer, lands, seq}`. `files` are ids of files uploaded before."""
    order = commands.SendSteer(new_id(), text, urgent, loop, turn, files)
    content = [text, urgent, loop, turn, *([list(files)] if files else [])]
    return run(principal, session, command, "steer", order, content).receipt


def edit_steer(
    principal: Principal, session: str, command: str, steer: str, *, text: str | None = None, as_input: bool = False
) -> dict[str, Any]:
    """Change a pending steer's text, or make it a waiting input: `{steer, input?, position?, seq}`.

    Its words are changed by its sender; a message is made of it by its sender or an owner (D8).
    """
    order = commands.EditSteer(steer, text, as_input, new_id())
    also = _owner_of_others(principal, session, steer) if as_input else ()
    content, told = [steer, text, as_input], told_if_taken(session, "steer", steer)
    return run(principal, session, command, "edit", order, content, also=also, told=told).receipt


def withdraw_steer(principal: Principal, session: str, command: str, steer: str) -> dict[str, Any]:
    """Its sender, or an owner, takes a pending steer back (D8): `{steer, withdrawn, seq}`."""
    order, also = commands.WithdrawSteer(steer), _owner_of_others(principal, session, steer)
    told = told_if_taken(session, "steer", steer)
    return run(principal, session, command, "withdraw", order, [steer], also=also, told=told).receipt


def _owner_of_others(principal: Principal, session: str, steer: str) -> tuple[str, ...]:
    """The verb that it takes besides, where somebody else sent it: who did never changes, so it is read beforehand."""
    known = known_id(session, "session_not_found", NO_SESSION)
    try:
        named = known_id(steer, "steer_not_found", "")
    except Refused:
        return ()
    with db.cursor("read") as cur:
        found = cur.execute(_OTHERS, (known, named, principal.actor.kind, principal.actor.id)).fetchone()
    return () if found is None else ("withdraw_any",)


def release(
    principal: Principal,
    session: str,
    command: str,
    *,
    inputs: Sequence[str] | None = None,
    steers: Sequence[str] | None = None,
    to: Literal["run", "authors"] = "run",
) -> dict[str, Any]:
    """Let held inputs and steers go on, or give them back (E12): `{inputs, steers, seq?}`."""
    order = commands.Release(inputs, steers, to)
    return run(principal, session, command, "release", order, [inputs, steers, to]).receipt


@contextmanager
def told_if_taken(session: str, kind: Kind, id: str, *, wanted: str | None = None) -> Iterator[None]:
    """`not_found` stays so for what never was; it becomes `already_taken` for what waits no longer (B4).

    `Unchanged` where its last event is the one that was `wanted`.
    """
    try:
        yield
    except Refused as refused:
        last = fate(session, kind, id) if refused.code == f"{kind}_not_found" else None
        if last is None:
            raise
        if last == wanted:
            raise Unchanged from None
        detail = "It does not wait any more: it was taken or cancelled."
        raise Refused("already_taken", detail, kind=kind, id=id) from None


def fate(session: str, kind: Kind, id: str) -> str | None:
    """The last event about an input or steer that waits no longer; None when there never was one."""
    try:
        known = f'"{kind}":"{known_id(id, "not_found", "")}"'
    except Refused:
        return None
    with db.cursor("read") as cur:
        row = cur.execute(_FATE, (session, _FATES[kind], known.encode())).fetchone()
    return None if row is None else str(row[0])
