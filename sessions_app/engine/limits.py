"""The sizes the engine refuses beyond (B1, D1). Bytes are of UTF-8."""

from typing import Final

from sessions_app.engine.errors import Refused
from sessions_app.engine.text import clean

INPUT_BYTES: Final = 1024 * 1024
INPUTS_WAITING: Final = 64
STEER_BYTES: Final = 8192
STEERS_PENDING: Final = 16
REASON_BYTES: Final = 2000
TITLE_BYTES: Final = 400
TITLE_CHARS: Final = 70
"""Of a title made from a message; chosen ones may be longer."""


def check_text(text: str, limit: int, what: str) -> None:
    """Refuse blank text (`blank`) and text over `limit` bytes (`too_large`, with size and limit). Nothing is cut."""
    if not text.strip():
        raise Refused("blank", f"The {what} is empty.")
    check_size(text, limit, what)


def check_size(text: str, limit: int, what: str) -> None:
    """Refuse text over `limit` bytes of UTF-8, as it would be stored, with its size and the limit."""
    size = len(clean(text)[0].encode())
    if size > limit:
        raise Refused("too_large", f"The {what} has {size:,} bytes; {limit:,} are allowed.", size=size, limit=limit)
