"""Every refusal in one shape: `application/problem+json` with a stable code (rule M, RFC 9457)."""

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import psycopg
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException
from ninja.errors import AuthenticationError, HttpError, ValidationError

from sessions_app.api.answers import encode
from sessions_app.engine.errors import Refused
from sessions_app.people.middleware import UNREACHABLE

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/problem+json"
_SENTENCES: Final = {
    "extra_forbidden": "There is no such field here.",
    "missing": "This field is required.",
    "model_type": "This must be a JSON object.",
}
RETRY_DATABASE_S: Final = 2.0


def problem(
    code: str, detail: str, status: int, *, retry_after: float | None = None, data: Mapping[str, Any] | None = None
) -> HttpResponse:
    """A problem+json answer. `data` stands beside the fixed members and never replaces one; `retry_after` is in s."""
    body: dict[str, Any] = {
        **(data or {}),
        "type": f"urn:steerweb:error:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
    }
    if retry_after is not None:
        body["retry_after"] = retry_after
    response = HttpResponse(encode(body), status=status, content_type=CONTENT_TYPE)
    response["Cache-Control"] = "no-store"
    if retry_after is not None:
        response["Retry-After"] = str(math.ceil(retry_after))
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def refused(request: HttpRequest, exc: Refused) -> HttpResponse:
    """The answer to a command the engine or a door refused."""
    return problem(exc.code, exc.detail, exc.status, retry_after=exc.retry_after, data=exc.data)


def invalid(detail: str, **data: object) -> Refused:
    """A request whose shape is wrong; `field` names where."""
    refusal = Refused("invalid", detail)
    refusal.data.update(data)
    return refusal


def validation(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    """All fields that do not fit, the first of them in the sentence."""
    fields = [{"field": _field(error["loc"]), "problem": _sentence(error)} for error in exc.errors]
    first = fields[0]
    return refused(request, invalid(f"{first['field']}: {first['problem']}", field=first["field"], fields=fields))


def _field(loc: tuple[Any, ...]) -> str:
    """`("body", "body", "then", "text")` is `then.text`: source and parameter say nothing to a caller."""
    names = [str(part) for part in loc[1:] if part not in ("body", "query")]
    return ".".join(names) or str(loc[0])


def _sentence(error: Mapping[str, Any]) -> str:
    if known := _SENTENCES.get(error["type"]):
        return known
    message = str(error["msg"]).removeprefix("Value error, ")
    return message if message.endswith(".") else f"{message}."


def answer_exception(request: HttpRequest, exc: Exception) -> HttpResponse:
    """The answer to any exception of a view. What nobody foresaw is logged in full and shown without a word of it."""
    if isinstance(exc, Refused):
        return refused(request, exc)
    if isinstance(exc, UNREACHABLE):
        log.warning("%s %s: the database does not answer: %s", request.method, request.path, exc)
        return problem("unavailable", "The database does not answer.", 503, retry_after=RETRY_DATABASE_S)
    if isinstance(exc, AuthenticationError):
        return problem("unauthenticated", "Sign in, or send a bearer token.", 401)
    if isinstance(exc, RequestDataTooBig):
        return refused(request, body_too_large(request))
    if isinstance(exc, Http404):
        return problem("not_found", "There is nothing at this address.", 404)
    if isinstance(exc, UnreadablePostError | RawPostDataException | MultiPartParserError | SuspiciousOperation):
        return refused(request, invalid("The body could not be read.", field="body"))
    if isinstance(exc, HttpError) and exc.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return refused(request, invalid(f"{exc}.", field="body"))
    if isinstance(exc, psycopg.DataError):
        log.warning("%s %s: a value the database cannot hold: %s", request.method, request.path, exc)
        return refused(request, invalid("A value is out of range."))
    log.error("%s %s failed", request.method, request.path, exc_info=exc)
    return problem("internal", "Something went wrong here; it was logged.", 500)


def body_too_large(request: HttpRequest) -> Refused:
    """A body over the upload limit, with its size and the limit in bytes."""
    from django.conf import settings

    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    size = int(request.META.get("CONTENT_LENGTH") or 0)
    return Refused("too_large", f"The body has {size:,} bytes; {limit:,} are allowed.", size=size, limit=limit)


def method_not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    """A known address, asked in a way it does not know."""
    response = problem("invalid", f"{request.method} is not possible here; possible: {allowed}.", 405)
    response["Allow"] = allowed
    return response
