"""Who asks: a bearer token, or a signed-in cookie with a CSRF token for everything that changes something."""

from collections.abc import Callable
from typing import Any, Final, cast

from django.http import HttpRequest
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from sessions_app.api.fields import command_id_of
from sessions_app.api.problems import invalid
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.people.authenticate import from_request
from sessions_app.people.principals import Principal

MAX_KEY: Final = 200


class BearerToken(AuthBase):
    """An `Authorization` header decides alone: a cookie beside it is not looked at."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    def __call__(self, request: HttpRequest) -> Principal | None:
        if "Authorization" not in request.headers:
            return None
        return require_signed_in(request)


class SignedInCookie(AuthBase):
    """A signed-in browser. A request that changes something needs the CSRF token, in `X-CSRFToken`."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "sessionid"

    def __call__(self, request: HttpRequest) -> Principal | None:
        if "Authorization" in request.headers:
            return None
        principal = require_signed_in(request)
        if check_csrf(request) is not None:
            raise Refused("not_allowed", "The CSRF token is missing or does not fit: reload the page.")
        return principal


def require_signed_in(request: HttpRequest) -> Principal:
    """Whoever asks; `unauthenticated` when it is nobody."""
    principal = from_request(request)
    if principal is None:
        raise Refused("unauthenticated", "Sign in, or send a bearer token.")
    return principal


AUTHENTICATION: Final[list[Callable[[HttpRequest], Any]]] = [BearerToken(), SignedInCookie()]


def who(request: HttpRequest) -> Principal:
    """The principal of a request that has passed authentication."""
    return cast(Principal, request.auth)  # type: ignore[attr-defined]  # ninja sets it


def command_id(request: HttpRequest) -> str:
    """The command's id: the `Idempotency-Key` (any text of 1 to 200 characters), else one made here (A4)."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return new_id()
    if not 0 < len(key) <= MAX_KEY:
        raise invalid(f"Idempotency-Key must have 1 to {MAX_KEY} characters.", field="Idempotency-Key")
    return command_id_of(key)
