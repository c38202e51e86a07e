"""The REST API as one object: routes, parser, refusals, and the OpenAPI document for those who are signed in."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, URLResolver
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser

from sessions_app.api import approvals, events, files, inputs, interruptions, me, members, sessions, steers, stops
from sessions_app.api.answers import answer
from sessions_app.api.problems import answer_exception, invalid, method_not_allowed, validation
from sessions_app.api.signed_in import AUTHENTICATION

METHOD_NOT_ALLOWED = 405


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class BodyParser(Parser):
    """JSON as the standard has it, within the upload limit also where no Content-Length announced it."""

    def parse_body(self, request: HttpRequest) -> Any:
        if len(request.body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig
        try:
            return json.loads(request.body.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as exc:
            why = str(exc) if isinstance(exc, ValueError) else "it is nested too deeply"
            raise invalid(f"The body is not JSON: {why}.", field="body") from exc


def _handle(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    error = exc if isinstance(exc, Exception) else exc()
    if isinstance(error, HttpError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # ninja wraps what the parser raised
    if isinstance(error, ValidationError):
        return validation(request, error)
    return answer_exception(request, error)


def _make_api() -> NinjaAPI:
    made = NinjaAPI(
        title="steerweb",
        version="1",
        description="Watch, steer and stop agent sessions. Errors are application/problem+json; match them by `code`.",
        urls_namespace="api-v1",
        openapi_url=None,
        docs_url=None,
        auth=AUTHENTICATION,
        parser=BodyParser(),
    )
    for kind in (Exception, HttpError, ValidationError):
        made.add_exception_handler(kind, _handle)
    for part in (sessions, inputs, steers, stops, approvals, events, files, interruptions, members, me):
        made.add_router("", part.router)
    return made


api = _make_api()


@api.get("/openapi.json", include_in_schema=False)
def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document."""
    return answer(api.get_openapi_schema())


def guarded(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A view whose every answer is JSON: ninja's plain 405 and whatever escapes its own handling included."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            response = view(request, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001  (the last line: it is answered and logged as what nobody foresaw)
            return answer_exception(request, exc)
        if response.status_code == METHOD_NOT_ALLOWED and "Allow" in response.headers:
            return method_not_allowed(request, ", ".join(sorted(response.headers["Allow"].split(", "))))
        return response

    inner.csrf_exempt = True  # type: ignore[attr-defined]  # cookies are checked where they are authenticated
    return inner


def guarded_patterns() -> list[URLPattern | URLResolver]:
    """The API's address patterns, guarded; relative to `/api/v1/`."""
    patterns, _, _ = api.urls
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = guarded(pattern.callback)
    return patterns
