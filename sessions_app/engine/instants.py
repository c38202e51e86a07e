"""Instants as clients write them."""

import re
from datetime import datetime
from typing import Final

INSTANT: Final = "an instant of RFC 3339, such as 2026-11-29T21:30:00Z"
"""What such a text is, for people."""

_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    re.IGNORECASE,
)


def read_instant(text: str) -> datetime:
    """The instant of an RFC 3339 date-time with its offset, to the microsecond; ValueError for any other text.

    Python itself reads all of ISO 8601: week dates, days without an offset, `20260129T2130Z`. Whoever sends one of
    those means perhaps something else. A leap second is none to Python.
    """
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f"This is not {INSTANT}.")
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError(f"This is not {INSTANT}: there is no such day.") from None
