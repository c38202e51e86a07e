"""The origin rule of the socket door: a page of another site must not drive a signed-in browser (scenario D22)."""

from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


def _origin(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address; None for what is no web origin (`null`, another scheme, a broken port)."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        return None
    return parts.scheme, parts.hostname.rstrip("."), _PORTS[parts.scheme] if port is None else port


def allowed(origin: str | None, host: str, secure: bool, extra: str) -> bool:
    """May a page of `origin` open a socket here with a cookie? `host` is the request's Host header, `secure` says
    whether it came by TLS, `extra` is the address of `--url` or empty. No origin at all is not allowed."""
    asked = _origin(origin) if origin else None
    if asked is None:
        return False
    own = _origin(f"{'https' if secure else 'http'}://{host}") if host else None
    return asked == own or (bool(extra) and asked == _origin(extra))
