"""The secrets this process was started with, so that no provider's error repeats them (A6)."""

import os
import re
from collections.abc import Mapping
from typing import Final

MASK: Final = "***"
SHORTEST: Final = 8
"""Shorter values are not masked: hiding them would tear holes into ordinary words (A6)."""

_SECRET_NAME: Final = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


def configured_secrets(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Values of all variables whose names say that they are secret, the longest first (one may contain another)."""
    environ = os.environ if environ is None else environ
    values = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def mask(text: str, secrets: tuple[str, ...] | None = None) -> str:
    """The text with every known secret replaced by ***."""
    for secret in configured_secrets() if secrets is None else secrets:
        text = text.replace(secret, MASK)
    return text
