"""Budgets (B7): what a turn has used, looked at wherever it may go on; what is used up ends it as a stop would."""

from typing import Final

from sessions_app.engine.decide.ending import at_work_below
from sessions_app.engine.fold import DAY_MS
from sessions_app.engine.limits import budgets
from sessions_app.engine.state import Loop, State, Turn, active_ms

NEAR: Final = 0.8
"""The share of a budget from which people are told that it is near."""


def used_up(state: State, loop: Loop, now_ms: int) -> str | None:
    """The first budget that is used up of a loop's turn, or of one above it, by name."""
    line = (loop, *state.ancestors(loop))
    used = (name for each in line for name, share in shares(state, each, now_ms).items() if share >= 1)
    return next(used, None)


def left_ms(state: State, loop: Loop, now_ms: int) -> int:
    """How long a loop's turn may work on, by its own budget of time and by those of the turns above it."""
    return min(
        round(budgets(working[0].limits)["wall_s"] * 1000) - sum(active_ms(turn, now_ms) for turn in working)
        for each in (loop, *state.ancestors(loop))
        if (working := _working(state, each))
    )


def near(state: State, loop: Loop, now_ms: int) -> list[str]:
    """The budgets of a loop's turn that are used up soon, by name; told to people, decides nothing."""
    return [name for name, share in shares(state, loop, now_ms).items() if share >= NEAR]


def shares(state: State, loop: Loop, now_ms: int) -> dict[str, float]:
    """How much of each budget a loop's turn has used, from 0; what its delegates use is its own (G)."""
    working = _working(state, loop)
    if not working:
        return {}
    tokens = sum(each.usage.get("input_tokens", 0) + each.usage.get("output_tokens", 0) for each in working)
    today = state.spent.day_cost if state.spent.day == now_ms // DAY_MS else 0.0
    used = {
        "steps": sum(each.kept + each.steps_below for each in working),
        "wall_s": sum(active_ms(each, now_ms) for each in working) / 1000, "tokens": tokens,
        "cost": sum(each.cost or 0.0 for each in working), "day_cost": today,
    }  # fmt: skip
    most = budgets(working[0].limits)
    return {name: amount / most[name] for name, amount in used.items()}


def _working(state: State, loop: Loop) -> list[Turn]:
    """A loop's turn, where one runs, and those at work below it."""
    return [] if loop.turn is None else [loop.turn, *at_work_below(state, loop)]
