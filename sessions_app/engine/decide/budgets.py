"""Budgets (B7): what a turn has used, looked at wherever it may go on; what is used up ends it as a stop would."""

from dataclasses import replace

from sessions_app.engine.commands import BeginStep, EndTurn
from sessions_app.engine.decide import interrupting, steps
from sessions_app.engine.decide.context import Context, Decision, held_turn
from sessions_app.engine.fold import DAY_MS
from sessions_app.engine.limits import budgets
from sessions_app.engine.state import State, Turn


def begin_step(state: State, command: BeginStep, context: Context) -> Decision:
    """The safe point, unless a budget is used up; `left_ms` is how long the turn may work on, waits at gates apart."""
    _, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return steps.MARKED
    which = used_up(state, turn, context.now_ms)
    if which is not None:
        end = EndTurn(turn.id, turn.epoch, "worker", "budget", which=which)
        return replace(interrupting.end_turn(state, end, context), receipt={"marked": False, "outcome": "interrupted"})
    decision = steps.begin_step(state, command, context)
    left_ms = round(budgets(turn.limits)["wall_s"] * 1000) - active_ms(turn, context.now_ms)
    return replace(decision, receipt={**decision.receipt, "left_ms": left_ms})


def used_up(state: State, turn: Turn, now_ms: int) -> str | None:
    """The first budget of the turn that is used up, by name."""
    tokens = turn.usage.get("input_tokens", 0) + turn.usage.get("output_tokens", 0)
    today = state.spent.day_cost if state.spent.day == now_ms // DAY_MS else 0.0
    used = {
        "steps": turn.kept, "wall_s": active_ms(turn, now_ms) / 1000, "tokens": tokens, "cost": turn.cost or 0.0,
        "day_cost": today,
    }  # fmt: skip
    most = budgets(turn.limits)
    return next((name for name, amount in used.items() if amount >= most[name]), None)


def active_ms(turn: Turn, now_ms: int) -> int:
    """How long the turn has worked, without its waits at gates."""
    waiting = 0 if turn.asked_ms is None else now_ms - turn.asked_ms
    return max(0, now_ms - turn.at_ms - turn.waited_ms - waiting)
