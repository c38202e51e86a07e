"""Approvals, the rules they make, and what an agent may do without asking (H, I)."""

from django.http import HttpRequest, HttpResponse
from ninja import Router

from sessions_app import control
from sessions_app.api import replies, requests
from sessions_app.api.answers import answer
from sessions_app.api.fields import Id
from sessions_app.api.signed_in import command_id, who
from sessions_app.log import listing

router = Router(tags=["approvals"])


@router.post("/sessions/{session}/gates/{gate}", response={200: replies.Resolved})
def resolve(request: HttpRequest, session: Id, gate: Id, body: requests.Answer) -> HttpResponse:
    """Answer an approval: the first answer wins, a later one is told who answered what (H1)."""
    rule = None if body.rule is None else {"kind": body.rule.kind, "value": body.rule.value}
    receipt = control.resolve(
        who(request), session, command_id(request), gate, decision=body.decision, rule=rule, message=body.message
    )
    return answer(receipt)


@router.get("/sessions/{session}/rules", response={200: replies.RuleList})
def rules(request: HttpRequest, session: Id) -> HttpResponse:
    """The standing answers of a session, with who gave them."""
    return answer({"items": listing.rules(who(request), session), "next": None})


@router.delete("/sessions/{session}/rules/{rule}", response={200: replies.Reply})
def revoke_rule(request: HttpRequest, session: Id, rule: Id) -> HttpResponse:
    """Take a standing answer back: such calls ask again."""
    return answer(control.revoke_rule(who(request), session, command_id(request), rule))


@router.patch("/sessions/{session}/loops/{loop}", response={200: replies.Reply})
def change_loop(request: HttpRequest, session: Id, loop: Id, body: requests.LoopChange) -> HttpResponse:
    """Change an agent: its mode at once; its model, instructions and limits from the next turn on (I1)."""
    receipt = control.change_loop(
        who(request),
        session,
        command_id(request),
        loop=loop,
        mode=body.mode,
        model=body.model,
        instructions=body.instructions,
        limits=body.limits,
    )
    return answer(receipt)
