"""Steers: the soft interrupt (D)."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.signed_in import command_id, who

router = Router(tags=["steers"])


@router.post("/sessions/{session}/steers", response={202: replies.SteerReceipt})
def steer(request: HttpRequest, session: Id, body: requests.NewSteer) -> HttpResponse:
    """Steer the running turn; the receipt says where it will land (D9)."""
    receipt = control.steer(
        who(request),
        session,
        command_id(request),
        text=body.text,
        urgent=body.urgent,
        loop=body.loop,
        turn=body.turn,
        files=body.files,
    )
    return answer(receipt, 202)


@router.patch("/sessions/{session}/steers/{steer_id}", response={200: replies.Reply})
def edit_steer(request: HttpRequest, session: Id, steer_id: Id, body: requests.SteerChange) -> HttpResponse:
    """Change a pending steer's text, or turn it into an input (D8)."""
    receipt = control.edit_steer(
        who(request), session, command_id(request), steer_id, text=body.text, as_input=body.as_input
    )
    return answer(receipt)


@router.delete("/sessions/{session}/steers/{steer_id}", response={200: replies.Reply})
def withdraw_steer(request: HttpRequest, session: Id, steer_id: Id) -> HttpResponse:
    """Take a pending steer back (D8)."""
    return answer(control.withdraw_steer(who(request), session, command_id(request), steer_id))
