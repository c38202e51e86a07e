"""What pydantic-ai raises, as a `ModelError`: which failures pass by waiting, and one sentence for people."""

import os
from collections.abc import Mapping
from typing import Final

from pydantic_ai import exceptions

from sessions_app.engine.model_names import Provider
from sessions_app.log.secrets import mask
from sessions_app.worker.models.base import ErrorCode, ModelError

_LONGEST_WORDS: Final = 600
"""Characters of a provider's own words that are kept; some answer with a whole page of HTML."""

_REFUSALS: Final[tuple[tuple[type[exceptions.ModelAPIError], ErrorCode, str], ...]] = (
    (exceptions.ModelQuotaExceededError, "provider_refused", "{title} says that the account's credit is used up"),
    (exceptions.ModelAuthenticationError, "provider_refused", "{title} did not accept the key"),
    (exceptions.ModelNotFoundError, "model_unknown", "{title} has no model called {model!r}"),
    (
        exceptions.ModelContextWindowExceededError,
        "provider_refused",
        "The conversation has become longer than {model!r} can read",
    ),
    (exceptions.ModelRequestRejectedError, "provider_refused", "{title} refused the request"),
)
"""Failures that the same request would meet again, the more special ones first."""

_PASSING: Final[tuple[tuple[type[exceptions.ModelAPIError], str], ...]] = (
    (exceptions.ModelRateLimitError, "{title} asks to slow down"),
    (exceptions.ModelOverloadedError, "{title} is overloaded"),
    (exceptions.ModelUnavailableError, "{title} is not available at the moment"),
    (exceptions.ModelTimeoutError, "{title} did not answer in time"),
    (exceptions.ModelConnectionError, "{title} could not be reached, or the connection broke"),
    (exceptions.ModelServerError, "{title} failed"),
)
"""Failures that may be over at the next try."""


def broken_off(title: str) -> ModelError:
    """The stream ended without saying that the reply is complete: half a reply must not pass for a whole one."""
    return ModelError(
        "provider_error", f"{title} broke off its reply: it ended without a reason to finish.", retryable=True
    )


def unusable(error: Exception, provider: Provider, *, given: bool = False) -> ModelError:
    """A provider whose library cannot even be set up with this environment, for example with a broken address."""
    names = ", ".join(name for name in provider.keys if os.environ.get(name))
    where = "with what was entered for it under Models" if given else f"as it is set up where the worker runs ({names})"
    what = f"{provider.title} cannot be used {where}"
    return ModelError("model_unknown", _sentence(what, None, str(error) or type(error).__name__))


def from_provider(error: Exception, title: str, model: str) -> ModelError:
    """Any exception of a provider's library as ours. `title` is the provider's name for people."""
    if isinstance(error, exceptions.ModelAPIError):
        return _from_api(error, title, model)
    if isinstance(error, exceptions.ContentFilterError):
        return ModelError("provider_refused", _sentence(f"{title} filtered the reply", None, str(error)))
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        return ModelError("bad_reply", _sentence(f"{title} sent no usable reply", None, error.message), retryable=True)
    words = f"{type(error).__name__}: {error}"
    return ModelError("bad_reply", _sentence(f"{title} sent a reply that could not be read", None, words))


def _from_api(error: exceptions.ModelAPIError, title: str, model: str) -> ModelError:
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    code, retryable, what = _judge(error, status)
    if isinstance(error, exceptions.ModelHTTPError) and error.provider_retry_hint is not None:
        retryable = error.provider_retry_hint
    detail = _sentence(what.format(title=title, model=model), status, _words(error))
    return ModelError(code, detail, status=status, retryable=retryable, retry_after_s=error.retry_after)


def _judge(error: exceptions.ModelAPIError, status: int | None) -> tuple[ErrorCode, bool, str]:
    for kind, code, what in _REFUSALS:
        if isinstance(error, kind):
            return code, False, what
    for passing, what in _PASSING:
        if isinstance(error, passing):
            return "provider_error", True, what
    if status is None:
        return "bad_reply", True, "{title} sent something that is no reply"
    return "provider_error", status in (408, 409, 425), "{title} answered with an error"


def _words(error: exceptions.ModelAPIError) -> str:
    """The provider's own message inside its error body, wherever its dialect puts it, or the network's."""
    if isinstance(error, exceptions.ModelConnectionError):
        return str(_root(error)) or error.message
    body: object = error.body
    for _ in range(3):
        if not isinstance(body, Mapping):
            break
        message = body.get("message")
        if isinstance(message, str) and message:
            return message
        body = body.get("error")
    return body if isinstance(body, str) and body else error.message


def _root(error: BaseException) -> BaseException:
    """The first cause: the libraries above the network call everything a connection error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _sentence(what: str, status: int | None, words: str) -> str:
    words = " ".join(words.split())
    if len(words) > _LONGEST_WORDS:
        words = words[:_LONGEST_WORDS] + "…"
    number = "" if status is None else f" ({status})"
    return mask(f"{what}{number}: {words}" if words else f"{what}{number}.")
