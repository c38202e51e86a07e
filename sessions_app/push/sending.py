"""One push message on its way: encrypted for its device (RFC 8291), signed for its service (RFC 8292), sent once."""

import hashlib
import logging
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

import orjson
import requests
from django.conf import settings
from py_vapid import Vapid02
from pywebpush import WebPushException, webpush

from sessions_app.push.keys import private_key
from sessions_app.push.subscriptions import leads_inside

TIMEOUT_S: Final = 10.0
LARGEST: Final = 3072
"""Bytes of a message before it is encrypted; services take 4,096 after."""
_TTL_S: Final = {"approval": 24 * 3600, "answered": 24 * 3600, "silent": 1800}
_TTL_USUAL_S: Final = 4 * 3600
_GONE: Final = (404, 410)
_AGAIN: Final = (408, 425, 429)
_LONGEST_WAIT_S: Final = 3600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where a message goes."""

    id: str
    endpoint: str
    p256dh: str
    auth: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What the push service said. `wait_s`: not sooner than that."""

    is_: Literal["sent", "gone", "again", "refused"]
    note: str = ""
    wait_s: float = 0.0


def send(subscription: Subscription, payload: dict[str, Any], topic: str) -> Sent:
    """Send one message. Blocks up to `TIMEOUT_S`, raises nothing; `topic`: what a later message of it replaces."""
    body = orjson.dumps(payload)
    if len(body) > LARGEST:
        return Sent("refused", f"{len(body)} bytes are too many")
    if leads_inside(subscription.endpoint):
        return Sent("refused", "its address leads into a private network")
    kind = payload["kind"]
    headers: dict[str, str | int | float] = {
        "Topic": urlsafe_b64encode(hashlib.sha256(topic.encode()).digest()[:24]).decode(),
        "Urgency": "high" if kind in ("approval", "answered", "test") else "normal",
    }
    with requests.Session() as session:
        session.max_redirects = 0  # nobody sends us anywhere else
        try:
            webpush(
                {"endpoint": subscription.endpoint, "keys": {"p256dh": subscription.p256dh, "auth": subscription.auth}},
                body.decode(),
                vapid_private_key=Vapid02(private_key(settings.SECRET_KEY)),
                vapid_claims={"sub": _contact()},
                ttl=_TTL_S.get(kind, _TTL_USUAL_S),
                timeout=TIMEOUT_S,
                headers=headers,
                requests_session=session,
            )
        except WebPushException as error:
            return _refused(error)
        except requests.RequestException as error:
            return Sent("again", type(error).__name__)
    return Sent("sent")


def _refused(error: WebPushException) -> Sent:
    status = error.status_code or 0
    if status in _GONE:
        return Sent("gone", f"the service says {status}")
    if status in _AGAIN or status >= 500:
        return Sent("again", f"the service says {status}", _retry_after(error.response))
    return Sent("refused", f"the service says {status}")


def _retry_after(response: Any) -> float:
    value = str(getattr(response, "headers", {}).get("Retry-After", ""))
    if value.isascii() and value.isdigit():
        return min(float(value), _LONGEST_WAIT_S)
    try:
        until, now = parsedate_to_datetime(value), parsedate_to_datetime(str(response.headers.get("Date", "")))
        return min(max((until - now).total_seconds(), 0.0), _LONGEST_WAIT_S)
    except (ValueError, TypeError):
        return 0.0


def _contact() -> str:
    """Whom a push service may ask about our messages: the standard wants one, and some services check its form."""
    url: str = settings.STEERWEB_URL
    return url if url.startswith("https://") else "https://steerweb.invalid"
