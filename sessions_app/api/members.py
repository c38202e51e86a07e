"""Who belongs to a session, and as what."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.reading import role_in
from sessions_app.api.signed_in import command_id, who
from sessions_app.engine.errors import Refused
from sessions_app.log import db
from sessions_app.people.members import members_of

router = Router(tags=["members"])


@router.get("/sessions/{session}/members", response={200: replies.MemberList})
def members(request: HttpRequest, session: Id) -> HttpResponse:
    """The members of a session, owners first. An observer may not know them."""
    if role_in(who(request), session) == "observer":
        raise Refused("not_allowed", "You watch this session: its members are not shown to you.", role="observer")
    with db.cursor("read") as cur:
        return answer({"items": [member.json() for member in members_of(cur, session)], "next": None})


@router.post("/sessions/{session}/members", response={200: replies.Reply})
def set_member(request: HttpRequest, session: Id, body: requests.NewMember) -> HttpResponse:
    """Give a person (by name or id) a role in this session."""
    return answer(control.set_member(who(request), session, command_id(request), person=body.person, role=body.role))


@router.delete("/sessions/{session}/members/{person}", response={200: replies.Reply})
def remove_member(request: HttpRequest, session: Id, person: str) -> HttpResponse:
    """Take a person's role away."""
    return answer(control.set_member(who(request), session, command_id(request), person=person, role=None))
