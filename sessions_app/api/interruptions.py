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
from sessions_app.log import listing, stops
from sessions_app.people.principals import Principal

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


def _listed(principal: Principal, page: dict[str, Any]) -> HttpResponse:
    return answer({**page, "items": stops.with_stops(principal, page["items"])})


def _stops(page: dict[str, Any]) -> HttpResponse:
    return answer({**page, "items": [_stop(each) for each in page["items"]]})


def _stop(stop: stops.Stop) -> dict[str, Any]:
    """A stop's numbers, with the turns and the background processes that it ended."""
    first = (stop["turns"] or stop["kills"])[0]
    reason = next((turn["reason"] for turn in stop["turns"] if turn["reason"]), None)
    return {
        "request": first.get("request"), "actor": first["actor"], "cause": first["cause"], "reason": reason,
        **stop["numbers"], "turns": stop["turns"], "background": stop["kills"],
    }  # fmt: skip


@router.get("/interruptions", response={200: replies.InterruptionList})
def interruptions(request: HttpRequest, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The interruptions of every session the caller may read, the newest first."""
    only(request, InterruptionsQuery)
    return _listed(who(request), listing.interruptions(who(request), **_filters(query)))


@router.get("/sessions/{session}/interruptions", response={200: replies.InterruptionList})
def session_interruptions(request: HttpRequest, session: Id, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The interruptions of one session, the newest first."""
    only(request, InterruptionsQuery)
    return _listed(who(request), listing.interruptions(who(request), session=session, **_filters(query)))


@router.get("/stops", response={200: replies.StopList})
def all_stops(request: HttpRequest, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The stops of every session the caller may read, the newest first: each whole, whatever turns it ended."""
    only(request, InterruptionsQuery)
    return _stops(stops.stops(who(request), **_filters(query)))


@router.get("/sessions/{session}/stops", response={200: replies.StopList})
def session_stops(request: HttpRequest, session: Id, query: Query[InterruptionsQuery]) -> HttpResponse:
    """The stops of one session, the newest first."""
    only(request, InterruptionsQuery)
    return _stops(stops.stops(who(request), session=session, **_filters(query)))


@router.get("/interruptions/{interruption}", response={200: replies.InterruptionItem})
def one_interruption(request: HttpRequest, interruption: Id) -> HttpResponse:
    """One interruption, by its turn's id, with the data of its terminal event."""
    found = listing.interruption(who(request), interruption)
    return answer({**found, "stop": stops.stop_of(who(request), found)["numbers"]})


@router.patch("/interruptions/{interruption}", response={200: replies.Reply})
def give_reason(request: HttpRequest, interruption: Id, body: requests.GivenReason) -> HttpResponse:
    """Say afterwards why one stopped it: its author, within a day."""
    return answer(control.give_reason(who(request), interruption, command_id(request), body.reason))
