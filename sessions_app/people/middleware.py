"""Nothing is reachable without signing in, and every page leaves with the headers that keep it safe."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import psycopg
import psycopg_pool
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render

from sessions_app.people.authenticate import device_due, from_request
from sessions_app.people.devices import touch

log = logging.getLogger(__name__)

OPEN_PREFIXES: Final = ("/static/", "/health/", "/signin/", "/api/")
"""Files, health and the way in are for everybody; the API asks for a principal itself and answers as APIs do."""
OPEN_PATHS: Final = frozenset({"/favicon.ico", "/manifest.webmanifest", "/robots.txt", "/sw.js", "/offline"})
"""What browsers fetch by themselves, with or without cookies."""

# One constant header. django-csp would be one more dependency for it, without a release since April 2025, and the
# next LTS of Django carries its own. `connect-src 'self'` covers the page's own socket too (CSP level 3).
POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    )
)
UNREACHABLE: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg_pool.PoolTimeout)
"""What a database that is down, restarting or out of connections raises; statement and lock time-outs too."""


class PeopleMiddleware:
    """Sets `request.principal`, sends strangers to the sign-in page, counts the use of the device, adds the headers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = _turned_away(request) or self.get_response(request)
        _count_use(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> None:
        """The admin's pages do not exist for anybody but an administrator at a signed-in browser: its own sign-in form
        would ask for a password, and nobody has one."""
        if request.resolver_match is not None and "admin" in request.resolver_match.app_names:
            principal = from_request(request)
            if principal is None or principal.device is None or not principal.is_admin:
                raise Http404

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page that could not reach the database says so; the API words its own errors."""
        if request.path_info.startswith("/api/") or not isinstance(exception, UNREACHABLE):
            return None
        return _unavailable(request, exception)


def _turned_away(request: HttpRequest) -> HttpResponse | None:
    """The answer to a request nobody is signed in for; None lets it pass."""
    if request.path_info.startswith(OPEN_PREFIXES) or request.path_info in OPEN_PATHS:
        return None
    try:
        principal = from_request(request)
    except UNREACHABLE as exception:
        return _unavailable(request, exception)
    if principal is not None:
        if principal.token is not None:  # no browser adds a bearer token by itself, so nothing can be forged with it
            request.__dict__["_dont_enforce_csrf_checks"] = True
        return None
    if request.method in ("GET", "HEAD"):
        target = request.get_full_path()
        query = "" if target == "/" else "?" + urlencode({"next": target})
        return HttpResponseRedirect(f"{settings.LOGIN_URL}{query}")
    # A form somebody sent, perhaps a Stop: a redirect would look as if it had done something.
    return render(request, "people/signin.html", {"nothing_done": True}, status=HTTPStatus.UNAUTHORIZED)


def _count_use(request: HttpRequest) -> None:
    """Prolong the signed-in device of an answered request; a failure here must not spoil the answer."""
    device = device_due(request)
    if device is None:
        return
    try:
        touch(request, device)
    except DatabaseError as exception:
        log.warning("the use of a device was not counted: %s", exception)


def _unavailable(request: HttpRequest, exception: BaseException) -> HttpResponse:
    log.warning("%s %s: the database does not answer: %s", request.method, request.path, exception)
    response = render(request, "people/unavailable.html", status=HTTPStatus.SERVICE_UNAVAILABLE)
    response.headers["Retry-After"] = "2"
    return response
