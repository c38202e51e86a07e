"""The log itself: pages of events, its long texts in parts, and forgetting the texts of one event."""

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer, page_of_bytes
from sessions_app.api.fields import Id, Seq
from sessions_app.api.queries import EventsQuery, TextQuery, TurnsQuery, only
from sessions_app.api.reading import audience_of, role_in
from sessions_app.api.signed_in import command_id, who
from sessions_app.log import outline, read

router = Router(tags=["events"])


@router.get("/sessions/{session}/events", response={200: replies.EventPage})
def events(request: HttpRequest, session: Id, query: Query[EventsQuery]) -> HttpResponse:
    """A page of the log, byte for byte what the socket sends.

    What a role may not see has empty data, so no seq is missing (L4). Events of the session itself pass any `loop`.
    """
    only(request, EventsQuery)
    audience = audience_of(who(request), session)
    types = [name for part in query.types for name in part.split(",") if name]
    return page_of_bytes(
        *read.page(session, query.after or 0, query.before, query.limit, types, query.loop, query.order, audience)
    )


@router.get("/sessions/{session}/turns", response={200: replies.TurnPage})
def turns(request: HttpRequest, session: Id, query: Query[TurnsQuery]) -> HttpResponse:
    """The turns of the session's own agent, newest first: where each begins in the log, and how it ended."""
    only(request, TurnsQuery)
    role_in(who(request), session)
    return answer(outline.turns(session, query.before, query.limit, query.turn))


@router.get("/sessions/{session}/texts/{ref}", response={200: replies.TextPart})
def text(request: HttpRequest, session: Id, ref: str, query: Query[TextQuery]) -> HttpResponse:
    """A part of a long text that an event names as `{"ref", "size"}`; whoever may read the session may read it.

    Read on from `offset` plus what came, until that is `total`.
    """
    only(request, TextQuery)
    role_in(who(request), session)
    return answer(read.long_text(session, ref, query.offset, query.length))


@router.post("/sessions/{session}/events/{seq}/erase", response={200: replies.Reply})
def erase(request: HttpRequest, session: Id, seq: Seq, body: requests.GivenReason) -> HttpResponse:
    """Forget the texts of one event: they read `{"erased": true}` from now on, and the chain still verifies (A3)."""
    return answer(control.erase(who(request), session, command_id(request), seq=seq, reason=body.reason))
