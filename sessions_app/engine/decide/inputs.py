"""The inbox: admitting, editing, taking back, releasing (B)."""

from itertools import takewhile

from sessions_app.engine.commands import EditInput, Release, RetractInput, Retry, Submit
from sessions_app.engine.decide.context import Context, Decision, credit, find_loop, open_session, wrote
from sessions_app.engine.decide.files import kept, named, worded
from sessions_app.engine.decide.gates import withdrawn
from sessions_app.engine.decide.steering import check_steer_limits, withdraw
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Data, Draft
from sessions_app.engine.limits import INPUT_BYTES, INPUTS_WAITING, TITLE_CHARS, check_text
from sessions_app.engine.state import Input, Loop, State, Turn


def submit(state: State, command: Submit, context: Context) -> Decision:
    """Admit an input at the end of the inbox; the receipt means admitted, not answered (B1)."""
    open_session(state)
    loop = find_loop(state, command.loop)
    check_inbox(loop)
    files = named(command.files, context)
    text = worded(command.text, files)
    check_text(text, INPUT_BYTES, "message")
    position = len(loop.inbox)
    draft = queued(loop, command.input, text, context.actor.agency, position, delivery=command.delivery, files=files)
    events = (draft,) if state.titled else (draft, Draft("SessionChanged", {"title": title_from(text)}))
    receipt = {"input": command.input, "position": position}
    paused = sum(entry.held for entry in loop.inbox)  # of those before it, which it does not wait for (E12)
    return Decision(events, {**receipt, "paused": paused} if paused else receipt)


def title_from(text: str) -> str:
    """A session's title, made from its first message: the first line, cut at a word."""
    line = " ".join(text.strip().splitlines()[0].split())
    return line if len(line) <= TITLE_CHARS else line[:TITLE_CHARS].rsplit(" ", 1)[0] + " …"


def check_inbox(loop: Loop) -> None:
    """Refuse the 65th waiting input of a loop (B1)."""
    if len(loop.inbox) >= INPUTS_WAITING:
        raise Refused("queue_full", f"{INPUTS_WAITING} messages wait already.", limit=INPUTS_WAITING)


def queued(
    loop: Loop,
    input_id: str,
    text: str,
    agency: str,
    position: int,
    request: str | None = None,
    delivery: str = "queue",
    files: Data | None = None,
) -> Draft:
    data = {
        "input": input_id, "text": text, "agency": agency, "delivery": delivery, "position": position, **(files or {}),
    }  # fmt: skip
    return Draft("InputQueued", data if request is None else {**data, "request": request}, loop.id)


def folded(loop: Loop, turn: Turn, step: int) -> list[Draft]:
    """The inputs that join the running turn before step `step`: folding ones, oldest first, up to the first other (B3).

    What is set aside neither joins nor stands in the way.
    """
    joining = takewhile(lambda entry: entry.delivery == "fold", (entry for entry in loop.inbox if not entry.held))
    return [Draft("TurnFoldedInto", {"input": entry.id}, loop.id, turn.id, step) for entry in joining]


def retry(state: State, command: Retry, context: Context) -> Decision:
    """Queue the opening input of a turn that failed without a committed step once more, ahead of the others (B9)."""
    open_session(state)
    failed = ((loop, entry) for loop in state.loops.values() for entry in loop.failed if entry.id == command.input)
    loop, entry = next(failed, (None, None))
    if loop is None or entry is None:
        raise Refused("input_not_found", "There is no failed message of that id to try again.", input=command.input)
    check_inbox(find_loop(state, loop.id))
    text = context.text(entry.text_seq)
    if not isinstance(text, str):
        raise Refused("invalid", "Its text was erased.", input=entry.id)
    data = {
        "input": command.again, "text": text, "agency": entry.agency, "delivery": "queue", "position": 0,
        "retries": entry.id, **credit(entry.author, context.actor), **kept(entry.seq, context),
    }  # fmt: skip
    return Decision((Draft("InputQueued", data, loop.id),), {"input": command.again, "position": 0})


def find_input(state: State, input_id: str) -> tuple[Loop, Input]:
    """A waiting input and its loop; `input_not_found` also for one that was taken (the door looks that up, B4)."""
    for loop in state.loops.values():
        for entry in loop.inbox:
            if entry.id == input_id:
                return loop, entry
    raise Refused("input_not_found", "No such message waits.", input=input_id)


def changed(loop: Loop, entry: Input, text: str, position: int, request: str | None = None) -> Draft:
    data = {
        "input": entry.id, "text": text, "agency": entry.agency, "delivery": entry.delivery, "position": position,
    }  # fmt: skip
    return Draft("InputChanged", data if request is None else {**data, "request": request}, loop.id)


def cancelled(loop: Loop, entry: Input, reason: str, context: Context, turn: str | None = None) -> Draft:
    """One entry leaves the inbox unrun, with its text for its author (B5)."""
    text = context.returned(entry.text_seq)
    data = {"input": entry.id, "reason": reason, "text": text, **kept(entry.seq, context)}
    return Draft("InputCancelled", data, loop.id, turn)


def edit(state: State, command: EditInput, context: Context) -> Decision:
    """Change a waiting input's text or place, or promote it to a steer; limits that refuse leave it as it was (B4)."""
    open_session(state)
    loop, entry = find_input(state, command.input)
    if command.promote is not None:
        return _promote(loop, entry, command, context)
    if command.text is not None:
        if context.actor.kind == "agent" and not wrote(entry.author, context.actor):
            raise Refused("not_allowed", "An agent changes only its own words: what a person wrote stays theirs.")
        check_text(command.text, INPUT_BYTES, "message")
    place = loop.inbox.index(entry)
    position = place if command.position is None else max(0, min(command.position, len(loop.inbox) - 1))
    text = command.text if command.text is not None else context.text(entry.text_seq)
    if position == place and command.text is None:
        raise Refused("invalid", "Nothing to change: give `text`, another `position` or `promote`.")
    return Decision((changed(loop, entry, text, position),), {"input": entry.id, "position": position})


def _promote(loop: Loop, entry: Input, command: EditInput, context: Context) -> Decision:
    text = context.text(entry.text_seq)
    if not isinstance(text, str):
        raise Refused("invalid", "Its text was erased: take it back instead.", input=entry.id)
    check_steer_limits(loop, text)
    data = {
        "steer": command.steer,
        "text": text,
        "urgent": command.promote == "urgent",
        **credit(entry.author, context.actor),
        **kept(entry.seq, context),
    }
    events = [cancelled(loop, entry, "promoted", context), Draft("SteerQueued", data, loop.id)]
    events += withdrawn(loop) if data["urgent"] else []
    return Decision(tuple(events), {"input": entry.id, "steer": command.steer})


def retract(state: State, command: RetractInput, context: Context) -> Decision:
    """Take a waiting input back; its text is in the event (B4)."""
    loop, entry = find_input(state, command.input)
    return Decision((cancelled(loop, entry, "client_retracted", context),), {"retracted": True})


def release(state: State, command: Release, context: Context) -> Decision:
    """Let what was set aside go on, or give it back to its authors (E12)."""
    open_session(state)
    events: list[Draft] = []
    missing_inputs, missing_steers = set(command.inputs or ()), set(command.steers or ())
    everything = command.inputs is None and command.steers is None
    released: dict[str, list[str]] = {"inputs": [], "steers": []}
    for loop in state.loops.values():
        inputs = [e for e in loop.inbox if e.held and (everything or e.id in (command.inputs or ()))]
        steers = [s for s in loop.steers if s.held and (everything or s.id in (command.steers or ()))]
        missing_inputs -= {e.id for e in loop.inbox}
        missing_steers -= {s.id for s in loop.steers}
        released["inputs"] += [entry.id for entry in inputs]
        released["steers"] += [steer.id for steer in steers]
        if command.to == "authors":
            events += [cancelled(loop, entry, "cleared", context) for entry in inputs]
            events += [withdraw(loop, steer, "cleared", context) for steer in steers]
        elif inputs or steers:
            data = {"inputs": [entry.id for entry in inputs], "steers": [steer.id for steer in steers]}
            events.append(Draft("InputReleased", data, loop.id))
            events += withdrawn(loop) if any(steer.urgent for steer in steers) else []
    if missing_inputs:
        raise Refused("input_not_found", "No such message waits.", inputs=sorted(missing_inputs))
    if missing_steers:
        raise Refused("steer_not_found", "No such steer waits.", steers=sorted(missing_steers))
    return Decision(tuple(events), {**released}, None if events else "nothing_held")
