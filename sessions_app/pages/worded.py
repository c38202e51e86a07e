"""Refusals as pages, and what every page asks first."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeAlias
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render

from sessions_app.engine.errors import Refused
from sessions_app.log import db
from sessions_app.people.authenticate import SignedInRequest
from sessions_app.people.roles import Role, require

P = ParamSpec("P")
Page: TypeAlias = Callable[Concatenate[SignedInRequest, P], HttpResponse]
NOT_FOUND = 404


def worded(view: Page[P]) -> Page[P]:
    """Refusals as pages: nothing here, not allowed, or the refusal's own sentence."""

    @wraps(view)
    def inner(request: SignedInRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Refused as refused:
            if refused.status == NOT_FOUND:
                raise Http404(refused.detail) from refused
            if refused.code == "not_allowed":
                raise PermissionDenied(refused.detail) from refused
            return render(request, "refused.html", {"detail": refused.detail}, status=refused.status)

    return inner


def role_in(request: SignedInRequest, session: UUID | str) -> Role:
    """The reader's role in a session; `session_not_found` for strangers, whether or not there is such a session."""
    with db.cursor("read") as cur:
        return require(cur, request.principal, session, "read")
