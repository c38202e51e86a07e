"""The history of interruptions: who stopped what, when and why."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.queries import InterruptionsQuery, only
from sessions_app.api.signed_in import command_id, who
from sessions_app.log import listing

router = Router(tags=["interruptions"])


def _filters(query: InterruptionsQuery) -> dict[str, Any]:
    return {
        "person": query.person,
        "cause": query.cause,
        "reason": query.reason,
        "q": query.q,
        "start": query.start,
        "end": query.end,
        "cursor": query.cursor,
        "limit": query.limit,
    }


@router.get("/interruptions", response={200: replies.InterruptionList})
def interruptions(request: HttpRequest, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The interruptions of every session the caller may read, the newest first."""
    only(request, InterruptionsQuery)
    return answer(listing.interruptions(who(request), **_filters(query)))


@router.get("/sessions/{session}/interruptions", response={200: replies.InterruptionList})
def session_interruptions(request: HttpRequest, session: Id, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The interruptions of one session, the newest first."""
    only(request, InterruptionsQuery)
    return answer(listing.interruptions(who(request), session=session, **_filters(query)))


@router.get("/interruptions/{interruption}", response={200: replies.InterruptionItem})
def one_interruption(request: HttpRequest, interruption: Id) -> HttpResponse:
    """One interruption, by its turn's id, with the data of its terminal event."""
    return answer(listing.interruption(who(request), interruption))


@router.patch("/interruptions/{interruption}", response={200: replies.Reply})
def give_reason(request: HttpRequest, interruption: Id, body: requests.GivenReason) -> HttpResponse:
    """Say afterwards why one stopped it: its author, within a day."""
    return answer(control.give_reason(who(request), interruption, command_id(request), body.reason))
