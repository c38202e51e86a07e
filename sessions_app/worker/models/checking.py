"""Does a provider's key work? It is asked for its list of models: that costs nothing and needs no model's name."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Final

import httpx

from sessions_app.engine.model_names import PROVIDERS, Given
from sessions_app.keys import stored
from sessions_app.log.secrets import mask

TIMEOUT_S: Final = 10.0
_WORDS: Final = 300
_REFUSED: Final = (401, 403)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Api:
    """Where a provider lists its models: variables of its address and key, its own address, a path, its headers."""

    url_names: tuple[str, ...]
    key_names: tuple[str, ...]
    url: str
    path: str
    headers: dict[str, str]


_APIS: Final = {
    "openai": _Api(
        ("OPENAI_BASE_URL",), ("OPENAI_API_KEY",), "https://api.openai.com/v1", "/models",
        {"Authorization": "Bearer {key}"},
    ),
    "anthropic": _Api(
        ("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY",), "https://api.anthropic.com", "/v1/models?limit=100",
        {"x-api-key": "{key}", "anthropic-version": "2023-06-01"},
    ),
    "google": _Api(
        ("GOOGLE_GEMINI_BASE_URL",), ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "https://generativelanguage.googleapis.com",
        "/v1beta/models?pageSize=100", {"x-goog-api-key": "{key}"},
    ),
}  # fmt: skip


def test(family: str) -> None:
    """Ask with what a turn would use, and keep the answer in words."""
    try:
        works, told, models = _ask(family)
    except Exception:  # noqa: BLE001 (somebody waits for an answer, and whatever went wrong is one)
        _log.exception("the key of %s could not be tested", family)
        works, told, models = False, "The test itself went wrong; the worker's log says how.", []
    stored.keep_test(family, works, mask(told), models)


def _ask(family: str) -> tuple[bool, str, list[str]]:
    api, title = _APIS[family], PROVIDERS[stored.FAMILIES[family]].title
    if stored.from_environment(family):
        given: Given | None = Given(_first(api.key_names), _first(api.url_names))
    else:
        kept = stored.refresh()
        if family not in kept:
            return False, "There is no key any more.", []
        given = kept[family]
    if given is None:
        return False, stored.UNREADABLE, []
    address = given.base_url or _first(api.url_names) or api.url
    headers = {name: value.format(key=given.key or "none") for name, value in api.headers.items()}
    try:
        answer = httpx.get(address.rstrip("/") + api.path, headers=headers, timeout=TIMEOUT_S)
    except httpx.TimeoutException:
        return False, f"{_speaker(title, address, api)} did not answer within {TIMEOUT_S:g} s.", []
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return False, f"{_speaker(title, address, api)} could not be reached: {str(error) or type(error).__name__}", []
    return _read(_speaker(title, address, api), answer)


def _read(who: str, answer: httpx.Response) -> tuple[bool, str, list[str]]:
    try:
        body: Any = answer.json()
    except ValueError:
        body = None
    if answer.status_code in _REFUSED:
        return False, f"{who} did not accept the key ({answer.status_code}): {_words(body)}".rstrip(": "), []
    if not answer.is_success:
        return False, f"{who} answered with an error ({answer.status_code}): {_words(body)}".rstrip(": "), []
    listed = body.get("data", body.get("models")) if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return False, f"{who} answered, but not with a list of models. Is this the right address?", []
    names = [
        str(one.get("id") or one.get("name") or "").removeprefix("models/") for one in listed if isinstance(one, dict)
    ]
    names = [name for name in names if name]
    return True, f"{who} accepted it and offers {len(names)} model{'' if len(names) == 1 else 's'}.", names


def _words(body: Any) -> str:
    """A provider's own message, wherever its dialect puts it."""
    for _ in range(3):
        if not isinstance(body, dict):
            break
        if isinstance(body.get("message"), str):
            return str(body["message"])[:_WORDS]
        body = body.get("error")
    return body[:_WORDS] if isinstance(body, str) else ""


def _first(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _speaker(title: str, address: str, api: _Api) -> str:
    """Who answers: at another address it may be anybody's server."""
    return title if address == api.url else f"The server at {address}"
