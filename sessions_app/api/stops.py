"""Stop. The mark is durable before anybody waits; waiting happens in the request's own thread and holds no connection.

Who waits where: under ASGI Django runs every request in a thread of its own (asgiref's ThreadSensitiveContext), so a
stop is marked at once however many others wait for their outcome. A waiting one gives its database connections back
first. A client that goes away changes nothing.
"""

import time
from typing import Any, Final

from django.db import connections
from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id, derived_id
from sessions_app.api.signed_in import command_id, who
from sessions_app.engine.errors import Refused

router = Router(tags=["stop"])
MANY_WAIT_S: Final = 10.0


def give_back_connections() -> None:
    """Close this thread's connections of the ORM; a wait of seconds must not hold one."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


@router.post("/sessions/{session}/interrupt", response={200: replies.Stopped, 202: replies.StopAccepted})
def interrupt(request: HttpRequest, session: Id, body: requests.Interrupt | None = None) -> HttpResponse:
    """Stop what runs in a session, a loop or one turn (E). Past `wait` seconds: `deadline`, and the stop goes on."""
    body = body or requests.Interrupt()
    receipt = control.interrupt(
        who(request),
        session,
        command_id(request),
        loop=body.loop,
        turn=body.turn,
        reason=body.reason,
        queue=body.queue,
        then=body.then.chosen() if body.then else None,
        keep_background=body.keep_background,
        not_after=body.not_after,
    )
    if body.wait == 0:
        return answer(receipt, 202)
    give_back_connections()
    return answer(control.wait_stopped(session, receipt, body.wait))


@router.post("/sessions/{session}/processes/{call}/kill", response={200: replies.Killed})
def kill_processes(request: HttpRequest, session: Id, call: str, turn: Id | None = None) -> HttpResponse:
    """End what a call left running in the background (E13); `turn` where calls of several turns have its id."""
    return answer(control.kill_processes(who(request), session, command_id(request), call, turn=turn))


@router.post("/interrupt", response={200: replies.StoppedSessions})
def interrupt_many(request: HttpRequest, body: requests.InterruptMany | None = None) -> HttpResponse:
    """Stop every session the caller created, or every one the caller may stop; each is a transaction of its own (E1).

    All are marked before any is waited for. An item whose stop was refused, or has not ended within 10 s, has a `code`.
    """
    body = body or requests.InterruptMany()
    principal, command = who(request), command_id(request)
    asked: list[tuple[str, dict[str, Any] | Refused]] = []
    for session in control.stoppable(principal, command, body.scope, body.reason, body.queue):
        try:
            part = derived_id(command, session)
            receipt = control.interrupt(principal, session, part, reason=body.reason, queue=body.queue)
        except Refused as refusal:
            asked.append((session, refusal))
        else:
            asked.append((session, receipt))
    give_back_connections()
    end = time.monotonic() + MANY_WAIT_S
    return answer({"sessions": [_outcome(session, asked_for, end) for session, asked_for in asked]})


def _outcome(session: str, asked_for: dict[str, Any] | Refused, end: float) -> dict[str, Any]:
    """What came of one session's stop by `end` (monotonic); a deadline never claims that something stopped (E4)."""
    try:
        if isinstance(asked_for, Refused):
            raise asked_for
        return {"id": session, **control.wait_stopped(session, asked_for, max(0.0, end - time.monotonic()))}
    except Refused as refusal:
        turns = [] if isinstance(asked_for, Refused) else asked_for["turns"]
        return {"id": session, "stopped": False, "turns": turns, "code": refusal.code, "detail": refusal.detail}
