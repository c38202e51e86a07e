"""The pages about oneself: signing in and out, devices, tokens, the QR code that brings a session to a phone."""

import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Concatenate, Final, ParamSpec
from uuid import UUID

import segno
from django.conf import settings
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST, require_safe

from sessions_app.engine.errors import Refused
from sessions_app.models import Device, Person, Token
from sessions_app.people import devices, roles, signin, tokens
from sessions_app.people.authenticate import from_request
from sessions_app.people.principals import Principal

log = logging.getLogger("steerweb.security")
P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]

QR_TTL_S: Final = 120


@dataclass(frozen=True, slots=True)
class Me:
    """The person at the browser that sent a request."""

    person: UUID
    device: UUID
    principal: Principal


def in_person(view: Callable[Concatenate[HttpRequest, Me, P], HttpResponse]) -> View[P]:
    """Only for a person at a signed-in browser. A token must not turn itself into one: what it sends would pass for
    a person's from then on (A5)."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        principal = from_request(request)
        if principal is None or principal.person is None or principal.device is None:
            raise PermissionDenied("This page is for a person at a signed-in browser, not for a token.")
        return view(request, Me(principal.person, principal.device, principal), *args, **kwargs)

    return guarded


@require_safe
def signin_page(request: HttpRequest) -> HttpResponse:
    """How to get a link; who is signed in already goes where they wanted to go."""
    principal = from_request(request)
    if principal is not None and principal.device is not None:
        return HttpResponseRedirect(signin.safe_next(request.GET.get("next", "/")))
    return render(request, "people/signin.html")


@require_GET
def signin_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign this browser in, once."""
    if "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", "")):
        # A browser that only looks ahead must not use the link up; it asks again when somebody really opens it.
        return HttpResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)
    with transaction.atomic():
        found = signin.use_link(secret)
        if found is not None:
            devices.sign_in(request, found[0])
            return HttpResponseRedirect(found[1])
    reason = signin.why_refused(secret)
    log.info("a sign-in link was refused: %s", reason)
    status = HTTPStatus.NOT_FOUND if reason == "unknown" else HTTPStatus.GONE
    return render(request, "people/link.html", {"reason": reason, "principal": from_request(request)}, status=status)


@require_POST
@in_person
def signout(request: HttpRequest, me: Me) -> HttpResponse:
    """Sign this browser out."""
    return _device_signed_out(request, me, me.device)


@require_POST
@in_person
def device_signout(request: HttpRequest, me: Me, device: UUID) -> HttpResponse:
    """Sign one of my devices out."""
    return _device_signed_out(request, me, device)


def _device_signed_out(request: HttpRequest, me: Me, device: UUID) -> HttpResponse:
    """Sign out one of the person's devices; one that is gone already is no error."""
    devices.sign_out(Device.objects.filter(pk=device, person_id=me.person))
    if device != me.device:
        return redirect("devices")
    logout(request)
    return redirect("signin")


@require_POST
@in_person
def signout_everywhere(request: HttpRequest, me: Me) -> HttpResponse:
    """Sign all my devices out, this one too."""
    devices.sign_out_everywhere(me.person)
    logout(request)
    return redirect("signin")


@require_safe
@in_person
def devices_page(request: HttpRequest, me: Me) -> HttpResponse:
    """My devices and my tokens."""
    mine = Token.objects.filter(person_id=me.person, revoked_at=None).order_by("-created_at")
    context = {"principal": me.principal, "devices": devices.devices_of(me.person), "tokens": mine}
    return render(request, "people/devices.html", context)


@require_POST
@in_person
def token_revoke(request: HttpRequest, me: Me, token: UUID) -> HttpResponse:
    """End one of my tokens; one that is gone already is no error."""
    tokens.revoke(Token.objects.filter(pk=token, person_id=me.person))
    return redirect("devices")


@require_GET
@in_person
def session_qr(request: HttpRequest, me: Me, session: UUID) -> HttpResponse:
    """A QR code that signs the same person in on a phone, once and within two minutes, and opens this session there."""
    try:
        with connection.cursor() as cursor:
            roles.require(cursor, me.principal, session, "read")
    except Refused as refused:
        return HttpResponse(refused.detail, status=refused.status, content_type="text/plain; charset=utf-8")
    person = Person.objects.get(pk=me.person)
    link = _absolute(request, signin.make_link(person, next=f"/s/{session}", ttl_s=QR_TTL_S))
    image = io.BytesIO()
    # Black on white with its quiet zone on any page: readers fail on inverted codes.
    segno.make_qr(link, error="m").save(image, kind="svg", border=4, dark="#000", light="#fff", omitsize=True)
    return HttpResponse(image.getvalue(), content_type="image/svg+xml")


def _absolute(request: HttpRequest, path: str) -> str:
    """An address of ours for another device: below `--url`, else below the address this request came to."""
    base: str = settings.STEERWEB_URL
    return f"{base.rstrip('/')}{path}" if base else request.build_absolute_uri(path)
