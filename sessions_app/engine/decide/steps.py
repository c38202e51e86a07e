"""A turn's steps and the commit handshake (C): claiming, the safe point, the model's reply, calls and settlements.

The race that matters here is a report against a stop. Both need the session's lock; whoever has it first wins. A report
that finds its turn marked commits nothing new and is told so (`marked`), except a settlement: what has really ended is
said as it ended (C4). From the mark on, only `EndTurn` ends the turn.
"""

from sessions_app.engine.commands import BeginStep, Claim, Fail, FinishModel, Settlement, SettleTool, StartTool
from sessions_app.engine.decide.context import Context, Decision, held_turn
from sessions_app.engine.decide.ending import aftermath, holding
from sessions_app.engine.decide.gates import ask, closed, judge
from sessions_app.engine.decide.inputs import folded
from sessions_app.engine.decide.steering import delivered
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import budgets
from sessions_app.engine.state import Call, Loop, State, Turn, add_usage, total_cost, with_cost
from sessions_app.engine.text import clean_json

MARKED = Decision((), {"marked": True})
NOT_RUN_URGENT = "Not run: a person's urgent message came first."
FORBIDDEN = "Not run: this agent may only read and plan in this step."


def claim(state: State, command: Claim, context: Context) -> Decision:
    """Start the loop's next turn, if it has one and nobody runs it; a second delivery finds it taken (J1)."""
    loop = state.loops.get(command.loop)
    entry = None if loop is None else loop.next_input()
    if loop is None or entry is None or state.status != "open" or not loop.runnable():
        return Decision((), {"claimed": False})
    epoch, index = loop.epoch + 1, loop.turns + 1
    data = {"index": index, "input": entry.id, "worker": command.worker, "epoch": epoch}
    return Decision(
        (Draft("TurnStarted", data, loop.id, command.turn),),
        {"claimed": True, "turn": command.turn, "epoch": epoch, "step": 1, "index": index},
    )


def begin_step(state: State, command: BeginStep, context: Context) -> Decision:
    """The safe point before the next model call: all pending steers, oldest first, then the folding inputs (B3, D3).

    `budgets.begin_step` is asked first; a marked turn gets no further.
    """
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.calls is not None:
        raise Refused("invalid", "Calls of the last step have not settled.")
    landing = (*delivered(loop, turn, turn.step), *folded(loop, turn, turn.step))
    return Decision(landing, {"marked": False, "step": turn.step})


def finish_model(state: State, command: FinishModel, context: Context) -> Decision:
    """Judge a complete reply before it takes effect: superseded by steers, planned, or the final answer (C2, D4)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    if command.step != turn.step or turn.calls is not None:
        raise Refused("stale", "That step is over.", step=turn.step)
    steers = loop.ready_steers()
    if steers and (not command.calls or any(steer.urgent for steer in steers)):
        return _supersede(loop, turn, command)
    if command.calls:
        return _plan(state, loop, turn, command, context)
    return _answer(state, loop, turn, command, context)


def _calls(command: FinishModel) -> list[dict[str, object]]:
    return [{"call": call.call, "tool": call.tool, "arguments": call.arguments} for call in command.calls]


def _used(command: FinishModel) -> dict[str, object]:
    used: dict[str, object] = {"usage": dict(command.usage)}
    return used if command.cost is None else {**used, "cost": command.cost}


def _repeats(turn: Turn, command: FinishModel, context: Context) -> list[int]:
    """How many times in a row each call has been asked for by now, over the steps of the turn (B7)."""
    counts, count, before = [], turn.repeats, None
    if turn.planned is not None:
        last = context.payload(turn.planned)["calls"][-1]
        before = (last["tool"], last["arguments"])
    for call in command.calls:
        same = (call.tool, clean_json(call.arguments)[0])
        count = count + 1 if same == before else 1
        before = same
        counts.append(count)
    return counts


def _supersede(loop: Loop, turn: Turn, command: FinishModel) -> Decision:
    data = {
        "kind": "calls" if command.calls else "answer",
        **_reply(command),
        "calls": _calls(command),
        "steers": [steer.id for steer in loop.ready_steers()],
        **_used(command),
    }
    withdrawn = Draft("OutputSuperseded", data, loop.id, turn.id, turn.step)
    return Decision((withdrawn, *delivered(loop, turn, turn.step + 1)), {"marked": False, "outcome": "superseded"})


def _reply(command: FinishModel) -> dict[str, object]:
    data: dict[str, object] = {"text": command.text}
    if command.reasoning:
        data["reasoning"] = command.reasoning
    if command.replaced:
        data["replaced"] = True
    return data


def _plan(state: State, loop: Loop, turn: Turn, command: FinishModel, context: Context) -> Decision:
    counts = _repeats(turn, command, context)
    if max(counts) >= budgets(turn.limits)["repeats"]:
        detail = f"The model asked for the same call {max(counts)} times in a row."
        failed = Fail(turn.id, turn.epoch, "repeated_call", detail, command.usage, {"text": command.text}, command.cost)
        return fail(state, failed, context)
    data = {**_reply(command), "calls": _calls(command), **_used(command)}
    if counts[-1] > 1:
        data["repeats"] = counts[-1]
    return Decision((Draft("StepPlanned", data, loop.id, turn.id, turn.step),), {"marked": False, "outcome": "planned"})


def _answer(state: State, loop: Loop, turn: Turn, command: FinishModel, context: Context) -> Decision:
    done = Draft("StepDone", {**_reply(command), **_used(command)}, loop.id, turn.id, turn.step)
    data = {
        "steps": turn.kept + 1,
        "usage": add_usage(turn.usage, command.usage),
        "cost": total_cost(with_cost(turn, command.cost)),
        "duration_ms": max(0, context.now_ms - turn.at_ms),
        **holding(state, turn, context),
    }
    terminal = Draft("TurnDone", data, loop.id, turn.id)
    rest = aftermath(state, loop, turn, "done", context)
    return Decision((done, terminal, *rest.events), {"marked": False, "outcome": "done"})


def _find_call(turn: Turn, step: int, call_id: str) -> Call:
    call = next((call for call in turn.calls or () if call.call == call_id), None)
    if call is None or turn.step != step:
        raise Refused("stale", "That call is not part of the running step.", call=call_id)
    return call


def start_tool(state: State, command: StartTool, context: Context) -> Decision:
    """The intent of one call, unless a stop or an urgent steer came first: then the unstarted ones do not run (D5)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    call = _find_call(turn, command.step, command.call)
    if call.status != "planned":
        raise Refused("stale", "That call has started already.", call=call.call)
    if call is not next(each for each in turn.calls or () if each.status != "settled"):
        raise Refused("stale", "An earlier call of the reply has not settled.", call=call.call)
    if any(steer.urgent for steer in loop.ready_steers()):
        return _skip_rest(loop, turn)
    unasked = not_run(call, context)
    if unasked is not None:
        return _settle(loop, turn, call, unasked)
    verdict, rule = judge(state, turn, call, command.effect, context)
    if verdict == "forbidden":
        return _settle(loop, turn, call, Settlement("not_run", FORBIDDEN))
    if verdict == "ask" and command.effect is not None:
        return ask(loop, turn, call, command, command.effect)
    data = {"call": call.call, "tool": call.tool, "arguments": command.arguments}
    if rule is not None:
        data["rule"] = rule  # every call that a person let run says who and by what (H3)
    return Decision((Draft("ToolStarted", data, loop.id, turn.id, turn.step),), {"marked": False, "outcome": "started"})


def settled(loop: Loop, turn: Turn, call: Call, settlement: Settlement) -> Draft:
    """The one settlement of a call (C4)."""
    data: dict[str, object] = {
        "call": call.call,
        "tool": call.tool,
        "outcome": settlement.outcome,
        "output": settlement.output,
        "duration_ms": settlement.duration_ms,
        "processes": dict(settlement.processes),
    }
    if settlement.exit is not None:
        data["exit"] = settlement.exit
    if settlement.replaced:
        data["replaced"] = True
    return Draft("ToolSettled", data, loop.id, turn.id, turn.step)


def not_run(call: Call, context: Context) -> Settlement | None:
    """How a call settles that was denied, or whose gate closed; None for one that may still run."""
    if call.answer == "deny":
        message = context.text(call.seq or 0, "message")
        return Settlement("denied", message if isinstance(message, str) else "")
    if call.answer == "closed":
        by_steer = context.payload(call.seq or 0)["reason"] == "steer"
        return Settlement("not_run", NOT_RUN_URGENT if by_steer else FORBIDDEN)
    return None


def unsettled(call: Call, why: str, context: Context) -> Settlement:
    """How an open call settles when its turn ends and nobody knows more of it (C4)."""
    if call.status == "started":
        return Settlement("lost", why)
    return not_run(call, context) or Settlement("not_run", why)


def _step_done(loop: Loop, turn: Turn) -> Draft:
    return Draft("StepDone", {"usage": dict(turn.step_usage or {})}, loop.id, turn.id, turn.step)


def _skip_rest(loop: Loop, turn: Turn) -> Decision:
    rest = [call for call in turn.calls or () if call.status == "planned"]
    events = closed(loop, turn, "steer")
    events += [settled(loop, turn, call, Settlement("not_run", NOT_RUN_URGENT)) for call in rest]
    events += [_step_done(loop, turn), *delivered(loop, turn, turn.step + 1)]
    return Decision(tuple(events), {"marked": False, "outcome": "skipped"})


def settle_tool(state: State, command: SettleTool, context: Context) -> Decision:
    """A call has ended. The last one makes the step done, unless a stop is about to end the turn (C6)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    call = _find_call(turn, command.step, command.call)
    if call.status != "started":
        raise Refused("stale", "That call is not running.", call=call.call)
    return _settle(loop, turn, call, command.settlement)


def _settle(loop: Loop, turn: Turn, call: Call, settlement: Settlement) -> Decision:
    """One call's settlement, and with the last one's the step's end, unless a stop is about to end the turn."""
    events = [settled(loop, turn, call, settlement)]
    last = all(other.status == "settled" or other.call == call.call for other in turn.calls or ())
    if last and turn.mark is None:
        events.append(_step_done(loop, turn))
    return Decision(tuple(events), {"marked": turn.mark is not None, "outcome": "settled"})


def fail(state: State, command: Fail, context: Context) -> Decision:
    """The turn ends by a fault; a mark of the same turn beats it (E3)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    rest = [call for call in turn.calls or () if call.status != "settled"]
    events = closed(loop, turn, "ended")
    events += [settled(loop, turn, call, unsettled(call, "The turn failed.", context)) for call in rest]
    data: dict[str, object] = {
        "error": {"code": command.code, "detail": command.detail},
        "steps": turn.kept,
        "usage": add_usage(turn.usage, command.usage),
        "cost": total_cost(with_cost(turn, command.cost) if command.usage else turn),
        "duration_ms": max(0, context.now_ms - turn.at_ms),
        **holding(state, turn, context),
    }
    if command.cut_off:
        data["cut_off"] = dict(command.cut_off)
    events.append(Draft("TurnFailed", data, loop.id, turn.id))
    events += aftermath(state, loop, turn, "failed", context).events
    return Decision(tuple(events), {"marked": False, "outcome": "failed"})
