"""The sizes the engine refuses beyond (B1, D1), and the budgets that end a turn (B7). Bytes are of UTF-8."""

from collections.abc import Mapping
from typing import Final

from sessions_app.engine.errors import Refused
from sessions_app.engine.text import clean

INPUT_BYTES: Final = 1024 * 1024
INPUTS_WAITING: Final = 64
STEER_BYTES: Final = 8192
STEERS_PENDING: Final = 16
REASON_BYTES: Final = 2000
FAILED_KEPT: Final = 16
"""Of the messages of a loop whose turn failed before its first step, so many of the newest may be tried again (B9)."""
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


BUDGETS: Final[Mapping[str, float]] = {
    "steps": 200, "wall_s": 4 * 3600, "tokens": 20_000_000, "cost": 50.0, "day_cost": 200.0, "repeats": 3,
    "depth": 3, "delegates": 16,
}  # fmt: skip
"""What a turn may use by default (B7): committed steps, seconds without waits at gates, tokens in and out, US dollars;
dollars of a session on one UTC day; how often the same call may be asked for in a row before the turn fails; and how
many delegates it may stand above each other and start (G4)."""
LARGEST_BUDGET: Final = 1e12


def check_budgets(limits: Mapping[str, object]) -> None:
    """Refuse budgets that do not exist, and values that are no positive numbers."""
    for name, value in limits.items():
        if name not in BUDGETS:
            detail = f"There is no limit `{name}`; there are {', '.join(BUDGETS)}."
            raise Refused("invalid", detail, field=f"limits.{name}", known=list(BUDGETS))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_BUDGET:
            raise Refused("invalid", f"`{name}` is a number above 0.", field=f"limits.{name}")


def budgets(limits: Mapping[str, float]) -> dict[str, float]:
    """The whole of the budgets, where `limits` says what differs from the defaults."""
    return {**BUDGETS, **limits}
