"""Budgets (B7): what a turn has used, looked at wherever it may go on; what is used up ends it as a stop would."""

from typing import Final

from sessions_app.engine.commands import BeginStep, EndTurn
from sessions_app.engine.decide import steps
from sessions_app.engine.decide.context import Context, Decision, held_turn
from sessions_app.engine.decide.course import Course
from sessions_app.engine.decide.ending import at_work_below, interrupted
from sessions_app.engine.errors import Refused
from sessions_app.engine.fold import DAY_MS
from sessions_app.engine.limits import budgets, left_ms
from sessions_app.engine.state import Loop, State, active_ms

NEAR: Final = 0.8
"""The share of a budget from which people are told that it is near."""


def begin_step(state: State, command: BeginStep, context: Context) -> Decision:
    """The safe point, unless a budget is used up; `left_ms` is how long the turn may work on, waits at gates apart."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return steps.MARKED
    if turn.calls is not None:
        raise Refused("invalid", "Calls of the last step have not settled.")
    line = [each for each in (loop, *state.ancestors(loop)) if each.turn is not None]
    which = next((name for each in line if (name := used_up(state, each, context.now_ms)) is not None), None)
    if which is not None:
        course = Course(state, context)
        interrupted(course, loop.id, EndTurn(turn.id, turn.epoch, "worker", "budget", which=which))
        return course.decision({"marked": False, "outcome": "interrupted"})
    decision = steps.begin_step(state, command, context)
    return Decision(decision.events, {**decision.receipt, "left_ms": left_ms(turn, context.now_ms)})


def used_up(state: State, loop: Loop, now_ms: int) -> str | None:
    """The first budget of a loop's turn that is used up, by name; what its delegates use is its own (G)."""
    return next((name for name, share in shares(state, loop, now_ms).items() if share >= 1), None)


def near(state: State, loop: Loop, now_ms: int) -> list[str]:
    """The budgets of a loop's turn that are used up soon, by name; told to people, decides nothing."""
    return [name for name, share in shares(state, loop, now_ms).items() if share >= NEAR]


def shares(state: State, loop: Loop, now_ms: int) -> dict[str, float]:
    """How much of each budget a loop's turn has used, from 0; what its delegates use is its own (G)."""
    turn = loop.turn
    if turn is None:
        return {}
    working = [turn, *at_work_below(state, loop)]
    tokens = sum(each.usage.get("input_tokens", 0) + each.usage.get("output_tokens", 0) for each in working)
    today = state.spent.day_cost if state.spent.day == now_ms // DAY_MS else 0.0
    used = {
        "steps": sum(each.kept + each.steps_below for each in working),
        "wall_s": sum(active_ms(each, now_ms) for each in working) / 1000, "tokens": tokens,
        "cost": sum(each.cost or 0.0 for each in working), "day_cost": today,
    }  # fmt: skip
    most = budgets(turn.limits)
    return {name: amount / most[name] for name, amount in used.items()}
