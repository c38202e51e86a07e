"""Inputs: what people and programs ask for next (B)."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.signed_in import command_id, who

router = Router(tags=["inputs"])


@router.post("/sessions/{session}/inputs", response={202: replies.InputReceipt})
def submit(request: HttpRequest, session: Id, body: requests.NewInput) -> HttpResponse:
    """Queue an input. The receipt means admitted, not answered (B1)."""
    receipt = control.submit(
        who(request),
        session,
        command_id(request),
        text=body.text,
        loop=body.loop,
        delivery=body.delivery,
        files=body.files,
    )
    return answer(receipt, 202)


@router.patch("/sessions/{session}/inputs/{input_id}", response={200: replies.Reply})
def edit_input(request: HttpRequest, session: Id, input_id: Id, body: requests.InputChange) -> HttpResponse:
    """Edit, move or promote a waiting input, until it is taken (B4)."""
    receipt = control.edit_input(
        who(request),
        session,
        command_id(request),
        input_id,
        text=body.text,
        position=body.position,
        promote=body.promote,
    )
    return answer(receipt)


@router.delete("/sessions/{session}/inputs/{input_id}", response={200: replies.Retracted})
def retract_input(request: HttpRequest, session: Id, input_id: Id) -> HttpResponse:
    """Take a waiting input back; `retracted` is false when it is cancelled already (B4)."""
    return answer(control.retract_input(who(request), session, command_id(request), input_id))


@router.post("/sessions/{session}/inputs/{input_id}/retry", response={200: replies.InputReceipt})
def retry_input(request: HttpRequest, session: Id, input_id: Id) -> HttpResponse:
    """Try a message again whose turn failed before anything was committed, ahead of what waits (B9)."""
    return answer(control.retry_input(who(request), session, command_id(request), input_id))


@router.post("/sessions/{session}/release", response={200: replies.Reply})
def release(request: HttpRequest, session: Id, body: requests.Release | None = None) -> HttpResponse:
    """Release what a stop set aside: let it run, or give it back to its authors."""
    body = body or requests.Release()
    receipt = control.release(
        who(request), session, command_id(request), inputs=body.inputs, steers=body.steers, to=body.to
    )
    return answer(receipt)
