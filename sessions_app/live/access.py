"""Who may open a socket: the origin rule of the handshake, then a credential (scenario D22, A5)."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http import parse_cookie
from django.http.request import validate_host

from sessions_app.live.threads import Pool, in_thread
from sessions_app.people import authenticate, origins
from sessions_app.people.principals import Principal

Headers = Sequence[tuple[bytes, bytes]]

FIRST_FRAME_S: Final = 5.0
"""How long a client without a credential in its handshake may take to send one."""


def values(headers: Headers, name: bytes) -> list[str]:
    """All values of one header."""
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def handshake_refusal(headers: Headers, secure: bool) -> str | None:
    """Why the handshake is answered 403, or None. `secure`: the socket came by TLS.

    A browser always sends `Origin`, so a cookie without one is no browser's; and a page of another origin is refused
    whatever it carries. A bearer token cannot be sent by a page that does not know it.
    """
    asked = values(headers, b"origin")
    if not asked:
        lone_cookie = values(headers, b"cookie") and not values(headers, b"authorization")
        return "a cookie without an origin" if lone_cookie else None
    hosts = values(headers, b"host")
    host = hosts[0] if len(hosts) == 1 and _known_host(hosts[0]) else ""
    if len(asked) == 1 and origins.allowed(asked[0], host, secure, settings.STEERWEB_URL):
        return None
    return f"the foreign origin {asked[0][:200]!r}"


def _known_host(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return validate_host(f"[{name}]" if ":" in name else name, settings.ALLOWED_HOSTS)


def has_credential(headers: Headers) -> bool:
    """Whether the handshake itself says who asks, so that no first frame is waited for."""
    if values(headers, b"authorization"):
        return True
    cookies = parse_cookie("; ".join(values(headers, b"cookie")))
    return bool(cookies.get(settings.SESSION_COOKIE_NAME))


async def principal_of(headers: Headers) -> Principal | None:
    """Whoever the handshake's credential names; None when it is no good. A bearer token decides alone."""
    bearer = values(headers, b"authorization")
    if bearer:
        return await principal_of_token(authenticate.bearer_of(bearer[0]), headers)
    return await in_thread(Pool.ENTRY, authenticate.from_cookie, headers)


async def principal_of_token(token: str, headers: Headers = ()) -> Principal | None:
    """Whoever a token speaks for, at the terminal that the handshake's headers name; None when it is no good."""
    user_agent = "".join(values(headers, b"user-agent")[:1])
    return await in_thread(Pool.ENTRY, authenticate.from_bearer, token, user_agent)
