"""Sessions: making, finding, reading, changing, closing."""

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.queries import SessionsQuery, only
from sessions_app.api.reading import snapshot_for
from sessions_app.api.signed_in import command_id, who
from sessions_app.log import listing

router = Router(tags=["sessions"])


@router.post("/sessions", response={201: replies.Created})
def create_session(request: HttpRequest, body: requests.NewSession | None = None) -> HttpResponse:
    """A new session; the caller owns it."""
    body = body or requests.NewSession()
    made = control.create_session(
        who(request),
        command_id(request),
        title=body.title,
        model=body.model,
        instructions=body.instructions,
        workspace=body.workspace,
        mode=body.mode,
        agent=body.agent,
    )
    return answer(made, 201)


@router.get("/sessions", response={200: replies.SessionList})
def sessions(request: HttpRequest, query: Query[SessionsQuery]) -> HttpResponse:
    """The sessions in the caller's list, pinned first, then the last active; a `hit` is what was found in a message."""
    only(request, SessionsQuery)
    q = (query.q or "").strip() or None
    found = listing.list_sessions(who(request), query.state, q, query.cursor, query.limit, query.person)
    return answer(found)


@router.get("/sessions/{session}", response={200: replies.SessionReply})
def one_session(request: HttpRequest, session: Id) -> HttpResponse:
    """One session with its members and its `head`, the seq of its newest event."""
    return answer(listing.session_view(who(request), session))


@router.get("/sessions/{session}/state", response={200: replies.Snapshot})
def state(request: HttpRequest, session: Id) -> HttpResponse:
    """The snapshot to start from: the state after event `seq`. Subscribe after it (L1)."""
    return answer(snapshot_for(who(request), session))


@router.patch("/sessions/{session}", response={200: replies.Reply})
def change_session(request: HttpRequest, session: Id, body: requests.SessionChange) -> HttpResponse:
    """Change title or settings, pin or archive in the caller's own list; what is absent stays."""
    receipt = control.change_session(
        who(request),
        session,
        command_id(request),
        title=body.title,
        settings=body.settings,
        pinned=body.pinned,
        archived=body.archived,
    )
    return answer(receipt)


@router.post("/sessions/{session}/close", response={200: replies.Reply})
def close(request: HttpRequest, session: Id, body: requests.Nothing | None = None) -> HttpResponse:
    """Close a session for good: what runs is stopped first (K1)."""
    return answer(control.close(who(request), session, command_id(request)))
