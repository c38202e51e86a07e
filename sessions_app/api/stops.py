"""Stop. The mark is durable before anybody waits; waiting happens in the request's own thread and holds no connection.

Who waits where: under ASGI Django runs every request in a thread of its own (asgiref's ThreadSensitiveContext), so a
stop is marked at once however many others wait for their outcome. A waiting one gives its database connections back
first. A client that goes away changes nothing.
"""

from typing import Final

from django.db import connections
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.queries import StoppableQuery, only
from sessions_app.api.signed_in import command_id, who
from sessions_app.log import listing

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

    All are marked before any is waited for. An item whose stop was refused, or has not ended in time, has a `code`.
    """
    body = body or requests.InterruptMany()
    asked = control.interrupt_many(
        who(request),
        command_id(request),
        body.scope,
        sessions=body.sessions,
        reason=body.reason,
        queue=body.queue,
        otherwise=body.otherwise,
        not_after=body.not_after,
    )
    give_back_connections()
    return answer({"sessions": control.wait_many(asked, MANY_WAIT_S if body.wait is None else body.wait)})


@router.get("/interrupt", response={200: replies.Stoppable})
def stoppable(request: HttpRequest, query: Query[StoppableQuery]) -> HttpResponse:
    """The sessions that a stop of `mine` or `all` would be about at this moment, and who started them."""
    only(request, StoppableQuery)
    return answer({"sessions": listing.named(control.stoppable(who(request), query.scope))})
