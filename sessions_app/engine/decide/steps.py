"""A turn's steps and the commit handshake (C): claiming, the safe point, the model's reply, calls and settlements.

The race that matters here is a report against a stop. Both need the session's lock; whoever has it first wins. A report
that finds its turn marked commits nothing new and is told so (`marked`), except a settlement: what has really ended is
said as it ended (C4). From the mark on, only `EndTurn` ends the turn.
"""

from sessions_app.engine.commands import (
    BeginStep,
    Claim,
    EndTurn,
    Fail,
    FinishModel,
    HandOver,
    Settlement,
    SettleTool,
    StartTool,
)
from sessions_app.engine.decide import delegates
from sessions_app.engine.decide.budgets import left_ms, used_up
from sessions_app.engine.decide.context import Context, Decision, held_turn
from sessions_app.engine.decide.course import Course
from sessions_app.engine.decide.ending import end_below, finish, holding, interrupted, settle_rest
from sessions_app.engine.decide.fates import fates
from sessions_app.engine.decide.gates import ask, judge
from sessions_app.engine.decide.inputs import folded
from sessions_app.engine.decide.settling import FORBIDDEN, NOT_RUN_URGENT, not_run, settle, settled, step_done
from sessions_app.engine.decide.steering import delivered
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.limits import budgets
from sessions_app.engine.state import Call, Loop, State, Turn, add_usage, costs, final_costs, with_cost

MARKED = Decision((), {"marked": True})


def claim(state: State, command: Claim, context: Context) -> Decision:
    """Start the loop's next turn, or go on with the one that was given back; a second delivery finds it taken (J1)."""
    loop = state.loops.get(command.loop)
    if loop is None or not state.claimable(loop):
        return Decision((), {"claimed": False})
    epoch, index, turn, entry = loop.epoch + 1, loop.turns + 1, loop.turn, loop.next_input()
    if turn is not None:
        return (
            _resume(state, loop, turn, command, epoch, context) if command.resume else Decision((), {"claimed": False})
        )
    assert entry is not None
    data = {"index": index, "input": entry.id, "worker": command.worker, "epoch": epoch}
    return Decision(
        (Draft("TurnStarted", data, loop.id, command.turn),),
        {"claimed": True, "turn": command.turn, "epoch": epoch, "step": 1, "index": index},
    )


def _resume(state: State, loop: Loop, turn: Turn, command: Claim, epoch: int, context: Context) -> Decision:
    """The same turn, where it was left (J4). `left_ms`: how long it may work on (B7)."""
    resumed = Draft("TurnResumed", {"worker": command.worker, "epoch": epoch}, loop.id, turn.id, turn.step)
    receipt = {
        "claimed": True, "turn": turn.id, "epoch": epoch, "step": turn.step, "index": turn.index, "resumed": True,
        "delegated": [call.call for call in turn.delegated()], "left_ms": left_ms(state, loop, context.now_ms),
        "attempt": turn.attempt,
    }  # fmt: skip
    return Decision((resumed,), receipt)


def hand_over(state: State, command: HandOver, context: Context) -> Decision:
    """A turn is given back where nothing of it runs but its delegates; whoever claims it goes on with it (J4)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    if any(call.status == "started" and call.child is None for call in turn.calls or ()):
        raise Refused("invalid", "A running call cannot be handed over.")
    data: dict[str, object] = {"from_worker": turn.worker, "at": command.at}
    if command.usage:
        data |= {"usage": dict(command.usage), "cost": command.cost}
    if command.attempt > 1:
        data["attempt"] = command.attempt
    return Decision(
        (Draft("TurnHandedOver", data, loop.id, turn.id, turn.step),), {"marked": False, "outcome": "handed_over"}
    )


def begin_step(state: State, command: BeginStep, context: Context) -> Decision:
    """The safe point before the next model call: what waits for it lands (B3, D3).

    Nothing does where a budget is used up: that ends the turn (B7). `left_ms` is how long it may work on, waits apart.
    """
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    if turn.calls is not None:
        raise Refused("invalid", "Calls of the last step have not settled.")
    which = used_up(state, loop, context.now_ms)
    if which is not None:
        course = Course(state, context)
        interrupted(course, loop.id, EndTurn(turn.id, turn.epoch, "worker", "budget", which=which))
        return course.decision({"marked": False, "outcome": "interrupted"})
    receipt = {"marked": False, "step": turn.step, "left_ms": left_ms(state, loop, context.now_ms)}
    return Decision(_landing(loop, turn, turn.step), receipt)


def _landing(loop: Loop, turn: Turn, step: int) -> tuple[Draft, ...]:
    """What lands at the safe point before step `step`: the pending steers, then the folding inputs (B3, D3)."""
    return (*delivered(loop, turn, step), *folded(loop, turn, step))


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
        same = (call.tool, context.stored(call.arguments))
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
    return Decision((withdrawn, *_landing(loop, turn, turn.step + 1)), {"marked": False, "outcome": "superseded"})


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
        **costs(with_cost(turn, command.cost)),
        "duration_ms": max(0, context.now_ms - turn.at_ms),
        **holding(state, turn, context),
    }
    terminal = Draft("TurnDone", data, loop.id, turn.id)
    rest = fates(state, loop, turn, "done", context)
    course = Course(state, context)
    course.add(done)
    finish(course, loop, terminal, rest, Settlement("ok", command.text))
    return course.decision({"marked": False, "outcome": "done"})


def _find_call(turn: Turn, step: int, call_id: str) -> Call:
    call = next((call for call in turn.calls or () if call.call == call_id), None)
    if call is None or turn.step != step:
        raise Refused("stale", "That call is not part of the running step.", call=call_id)
    return call


def start_tool(state: State, command: StartTool, context: Context) -> Decision:
    """The intent of one call, unless a stop or an urgent steer came first: then the unstarted ones do not run (D5).

    `left_ms` is how long the turn may work on from here: it has waited before, or its delegates have worked (B7).
    """
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    call = _find_call(turn, command.step, command.call)
    if call.status != "planned":
        raise Refused("stale", "That call has started already.", call=call.call)
    if not _is_next(turn, call, command):
        raise Refused("stale", "An earlier call of the reply has not settled.", call=call.call)
    if any(steer.urgent for steer in loop.ready_steers()):
        return _skip_rest(state, loop, turn, context)
    unasked = not_run(call, context)
    if unasked is not None:
        return _settle(state, loop, turn, call, unasked)
    verdict, rule = judge(state, turn, call, command.effect, context)
    if verdict == "forbidden":
        return _settle(state, loop, turn, call, Settlement("not_run", FORBIDDEN))
    if verdict == "ask":
        return ask(loop, turn, call, command)
    if command.child is not None:
        return delegates.start(state, loop, turn, call, command, command.child)
    data = {"call": call.call, "tool": call.tool, "arguments": command.arguments}
    if rule is not None:
        data["rule"] = rule  # every call that a person let run says who and by what (H3)
    receipt = {"marked": False, "outcome": "started", "left_ms": left_ms(state, loop, context.now_ms)}
    return Decision((Draft("ToolStarted", data, loop.id, turn.id, turn.step),), receipt)


def _is_next(turn: Turn, call: Call, command: StartTool) -> bool:
    """Calls run one at a time in reply order; only delegates run beside each other (C2)."""
    first = next(each for each in turn.calls or () if each.status != "settled" and each not in turn.delegated())
    return call is first and (command.child is not None or not turn.delegated())


def _skip_rest(state: State, loop: Loop, turn: Turn, context: Context) -> Decision:
    """No call of the step starts any more; with the delegates that run already the step is over when they are.

    What a person has denied stays denied; what was being asked was withdrawn as the steer came.
    """
    events: list[Draft] = []
    for call in turn.calls or ():
        if call.status == "planned":
            events += settled(state, loop, turn, call, not_run(call, context) or Settlement("not_run", NOT_RUN_URGENT))
    if not turn.delegated():
        events += [step_done(loop, turn), *_landing(loop, turn, turn.step + 1)]
    return Decision(tuple(events), {"marked": False, "outcome": "skipped"})


def settle_tool(state: State, command: SettleTool, context: Context) -> Decision:
    """A call has ended. The last one makes the step done, unless a stop is about to end the turn (C6)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    call = _find_call(turn, command.step, command.call)
    if call.status != "started":
        raise Refused("stale", "That call is not running.", call=call.call)
    if call.child is not None:
        raise Refused("invalid", "Its delegate's end settles that call.", call=call.call)
    return _settle(state, loop, turn, call, command.settlement)


def _settle(state: State, loop: Loop, turn: Turn, call: Call, settlement: Settlement) -> Decision:
    events = settle(state, loop, turn, call, settlement)
    return Decision(tuple(events), {"marked": turn.mark is not None, "outcome": "settled"})


def fail(state: State, command: Fail, context: Context) -> Decision:
    """The turn ends by a fault, after its delegates; a mark of the same turn beats it (E3, G3)."""
    loop, turn = held_turn(state, command.turn, command.epoch)
    if turn.mark is not None:
        return MARKED
    course = Course(state, context)
    if not end_below(course, loop, command.request):
        return course.decision({"marked": False, "outcome": "waiting"})
    loop, turn = held_turn(course.state, command.turn, command.epoch)
    settle_rest(course, loop, turn, "The turn failed.", dict(command.settlements))
    loop, turn = held_turn(course.state, command.turn, command.epoch)
    data: dict[str, object] = {
        "error": {"code": command.code, "detail": command.detail},
        "steps": turn.kept,
        "usage": add_usage(turn.usage, command.usage),
        **final_costs(turn, command.usage, command.cost),
        "duration_ms": max(0, context.now_ms - turn.at_ms),
        **holding(state, turn, course.context),
    }
    if command.cut_off:
        data["cut_off"] = dict(command.cut_off)
    terminal = Draft("TurnFailed", data, loop.id, turn.id)
    rest = fates(course.state, loop, turn, "failed", course.context)
    finish(
        course, loop, terminal, rest, Settlement("error", f"The sub-agent failed: {command.detail}", code=command.code)
    )
    return course.decision({"marked": False, "outcome": "failed"})
