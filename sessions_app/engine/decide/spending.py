"""How long a turn has worked, and may work on (B7)."""

from sessions_app.engine.limits import budgets
from sessions_app.engine.state import Turn


def active_ms(turn: Turn, now_ms: int) -> int:
    """How long the turn has worked, without its waits for an answer or a worker."""
    waiting = 0 if turn.asked_ms is None else now_ms - turn.asked_ms
    return max(0, now_ms - turn.at_ms - turn.waited_ms - waiting)


def left_ms(turn: Turn, now_ms: int) -> int:
    """How long it may work on."""
    return round(budgets(turn.limits)["wall_s"] * 1000) - active_ms(turn, now_ms)
