"""`decide(state, command, context)`: what a command makes of a state, as events, or a refusal. Pure (A2)."""

from collections.abc import Callable
from typing import Any, Final

from sessions_app.engine import commands
from sessions_app.engine.decide import (
    background,
    ending,
    gates,
    inputs,
    interrupting,
    sessions,
    steering,
    steps,
)
from sessions_app.engine.decide.context import Context, Decision, Phase
from sessions_app.engine.state import State

_RULES: Final[dict[type, Callable[[State, Any, Context], Decision]]] = {
    commands.Submit: inputs.submit,
    commands.EditInput: ending.closing_idle(inputs.edit),
    commands.RetractInput: ending.closing_idle(inputs.retract),
    commands.Retry: inputs.retry,
    commands.Release: inputs.release,
    commands.SendSteer: steering.steer,
    commands.EditSteer: steering.edit_steer,
    commands.WithdrawSteer: steering.withdraw_steer,
    commands.Interrupt: interrupting.interrupt,
    commands.GiveReason: interrupting.give_reason,
    commands.EndTurn: interrupting.end_turn,
    commands.SurvivorsEnded: interrupting.survivors_ended,
    commands.Resolve: gates.resolve,
    commands.RevokeRule: gates.revoke_rule,
    commands.SetMode: gates.set_mode,
    commands.ChangeLoop: gates.change_loop,
    commands.KillProcesses: background.kill_processes,
    commands.BackgroundEnded: background.background_ended,
    commands.Claim: steps.claim,
    commands.HandOver: steps.hand_over,
    commands.BeginStep: steps.begin_step,
    commands.FinishModel: steps.finish_model,
    commands.StartTool: steps.start_tool,
    commands.SettleTool: steps.settle_tool,
    commands.Fail: steps.fail,
    commands.Close: sessions.close,
    commands.ChangeSession: sessions.change_session,
    commands.SetMember: sessions.set_member,
    commands.Erase: sessions.erase,
}


def decide(state: State, command: commands.Command, context: Context) -> Decision:
    """The events that `command` causes in `state`, with its receipt; raises `Refused` and then changes nothing."""
    return _RULES[type(command)](state, command, context)


__all__ = ["Context", "Decision", "Phase", "decide"]
