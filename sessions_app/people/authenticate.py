"""From a credential to a principal: a signed-in cookie or a bearer token, the same answer for every door.

A cookie counts only with Django's session, a device row and an active person behind it, so deleting either row or
suspending the person ends it at once. An `Authorization` header decides alone: were a cookie looked at beside it,
such a request would escape the check of its CSRF token.
"""

from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session as BrowserSession
from django.db.models import BooleanField, ExpressionWrapper, OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.http import HttpRequest, parse_cookie
from django.utils.crypto import constant_time_compare

from sessions_app.models import Device, Person
from sessions_app.people.devices import TOUCH_EVERY
from sessions_app.people.principals import Principal, at_terminal, principal_for_person
from sessions_app.people.tokens import principal_from_token

_MAX_KEY: Final = 40


class SignedInRequest(HttpRequest):
    """A request as views behind `PeopleMiddleware` get it (for type checkers; no such object is ever made)."""

    principal: Principal


def from_cookie(headers: Iterable[tuple[bytes, bytes]]) -> Principal | None:
    """Whoever is signed in by the cookie among these ASGI headers (the socket doors). One query."""
    cookies = b"; ".join(value for name, value in headers if name.lower() == b"cookie").decode("latin-1")
    found = _signed_in(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, ""))
    return found[0] if found else None


def from_bearer(token: str, user_agent: str = "") -> Principal | None:
    """Whom a bearer token speaks for, at the terminal that `user_agent` names. One query, and a second at most once an
    hour."""
    found = principal_from_token(token)
    return found and at_terminal(found, user_agent)


def bearer_of(header: str) -> str:
    """The token of an `Authorization` header; empty for any other scheme."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def from_request(request: HttpRequest) -> Principal | None:
    """Whoever sends this request, by `Authorization` or else by cookie; kept on the request as `principal`."""
    known: dict[str, object] = request.__dict__
    if "principal" not in known:
        header = request.headers.get("Authorization")
        if header is not None:
            known["principal"] = from_bearer(bearer_of(header), request.headers.get("User-Agent", ""))
        elif signed_in := _signed_in(request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")):
            known["principal"], known["_device_due"] = signed_in
        else:
            known["principal"] = None
    principal = known["principal"]
    return principal if isinstance(principal, Principal) else None


def device_due(request: HttpRequest) -> Device | None:
    """The signed-in browser that sent this request, when its use has not been counted within the hour."""
    device = request.__dict__.get("_device_due")
    return device if isinstance(device, Device) else None


def _signed_in(session_key: str) -> tuple[Principal, Device | None] | None:
    """The person behind a session key, and their device when its use is due to be counted."""
    if not 0 < len(session_key) <= _MAX_KEY or "\0" in session_key:
        return None
    running = BrowserSession.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=Now())
    due = ExpressionWrapper(Q(last_used_at__lt=Now() - TOUCH_EVERY), output_field=BooleanField())
    device = (
        Device.objects.select_related("person")
        .filter(session_key=session_key, person__is_active=True)
        .annotate(session_data=Subquery(running.values("session_data")[:1]), touch_due=due)
        .first()
    )
    if device is None or device.session_data is None or not _vouches(device.session_data, device.person):
        return None
    return principal_for_person(device.person, device), (device if device.touch_due else None)


def _vouches(session_data: str, person: Person) -> bool:
    """Does Django's session, signed with the secret key, say it is this person's? Django asks the same."""
    session = SessionStore().decode(session_data)
    hashes = [person.get_session_auth_hash(), *person.get_session_auth_fallback_hash()]
    given = str(session.get(HASH_SESSION_KEY, ""))
    return session.get(SESSION_KEY) == str(person.id) and any(constant_time_compare(given, good) for good in hashes)
