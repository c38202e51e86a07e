"""Known secrets never enter the log, nor what is live beside it (A6): this process's own, stored keys, and our tokens.

Free of Django and of the log's other parts: the warden and the models use it too.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

MASK: Final = "***"
SHORTEST: Final = 8
"""Shorter values are not masked: hiding them would tear holes into ordinary words (A6)."""
TOKEN: Final = re.compile(r"sw_[A-Za-z0-9_-]{43}")
"""What one of our tokens looks like."""

_TOKEN_BEGINS: Final = re.compile(r"s|sw|sw_[A-Za-z0-9_-]{0,42}")
_TOKEN_CHARS: Final = 46
_NAMES: Final = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


def configured(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of all variables whose names say that they are secret, and the passwords in addresses; longest first
    (one may contain another)."""
    values = {value for name, value in environ.items() if _NAMES.search(name)}
    values |= {password for value in environ.values() if "://" in value for password in _passwords(value)}
    return tuple(sorted((value for value in values if len(value) >= SHORTEST), key=lambda value: (-len(value), value)))


def _passwords(address: str) -> Iterator[str]:
    """An address's password, as it stands there and as it is; one that is only the user's name hides nothing."""
    try:
        parts = urlsplit(address)
        found = [parts.password or "", *parse_qs(parts.query).get("password", ())]
        yield from ({*found, *map(unquote, found)} - {parts.username or ""})
    except ValueError:
        return


_learned: frozenset[str] = frozenset()


def learn(values: Iterable[str]) -> bool:
    """From now on these are secrets, too, instead of those learned before; whether that changes anything."""
    global _learned
    fresh = frozenset(value for value in values if len(value) >= SHORTEST)
    if fresh == _learned:
        return False
    _learned = fresh
    known.cache_clear()
    return True


def learned() -> list[str]:
    """What `learn` was told last."""
    return sorted(_learned)


@lru_cache(maxsize=1)
def known() -> tuple[str, ...]:
    """The secrets of this process's environment and those it has learned, longest first."""
    return tuple(sorted({*configured(os.environ), *_learned}, key=lambda value: (-len(value), value)))


@lru_cache(maxsize=4)
def _tools(secrets: tuple[str, ...]) -> tuple[int, re.Pattern[str], tuple[re.Pattern[str], ...]]:
    """The length of the longest secret, what one may begin with, and each as a pattern."""
    begins = re.compile("[" + re.escape("".join({"s", *(secret[0] for secret in secrets)})) + "]")
    return max(_TOKEN_CHARS, *map(len, secrets), 0), begins, (*(re.compile(re.escape(one)) for one in secrets), TOKEN)


def mask(text: str, secrets: tuple[str, ...] | None = None) -> str:
    """`text` with every known secret replaced by `***`."""
    for secret in known() if secrets is None else secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return TOKEN.sub(MASK, text) if "sw_" in text else text


def settled(text: str) -> int:
    """How much of a growing text can be masked for good: what follows may be the beginning of a secret."""
    secrets = known()
    longest, begins, patterns = _tools(secrets)
    at = len(text)
    for found in begins.finditer(text, max(at - longest + 1, 0)):
        rest = text[found.start() :]
        if _TOKEN_BEGINS.fullmatch(rest) or any(len(one) > len(rest) and one.startswith(rest) for one in secrets):
            at = found.start()
            break
    for pattern in patterns:  # and no whole one is cut in two there
        for found in pattern.finditer(text, max(at - longest, 0)):
            if found.start() < at < found.end():
                at = found.start()
    return at


def mask_json(value: Any) -> Any:
    """A JSON value with every string in it masked, keys too; keys that become the same stay apart."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = mask(str(key))
            while name in masked:
                name += MASK
            masked[name] = mask_json(item)
        return masked
    if isinstance(value, list | tuple):
        return [mask_json(item) for item in value]
    return value
