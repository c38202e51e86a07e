"""Sessions of any length, quickly: one turn as a worker played it, again and again through the log's own append."""

import copy
from itertools import islice
from typing import Any, Final

from sessions_app.engine.actors import Actor
from sessions_app.engine.events import Draft, Event
from sessions_app.ids import new_id
from sessions_app.log import db, read
from sessions_app.log.append import append, lock

OUTPUT: Final = "".join(f"{line:04}: the quick brown fox jumps over the lazy dog\n" for line in range(100))
"""5 kB."""
_TURNS_AT_ONCE: Final = 100


def repeat_turn(session: str, worker: str, times: int, outputs: int = 0) -> None:
    """Append a session's last turn so many times more; `outputs` of its calls settle with 5 kB.

    No turn runs before and after. Numbers, ids and words differ from turn to turn, as they would.
    """
    template = _last_turn(session)
    index = next(event.data["index"] for event in template if event.type == "TurnStarted")
    numbers = iter(range(index + 1, index + 1 + times))
    every = max(1, times // outputs) if outputs else times + 1
    while some := list(islice(numbers, _TURNS_AT_ONCE)):
        with db.cursor("read") as cur:  # the pools for writing bound a transaction's time (A8)
            locked = lock(cur, session)
            drafts = [draft for number in some for draft in _turn(template, worker, number, number % every == 0)]
            append(cur, locked, drafts, Actor("system", "worker", "a worker"), None)


def _last_turn(session: str) -> list[Event]:
    events = read.engine_events(session)
    taken = [event.data["input"] for event in events if event.type == "TurnStarted"][-1]
    queued = next(event.seq for event in events if event.data.get("input") == taken)
    return [
        event
        for event in events
        if event.seq >= queued and event.type != "SessionChanged" and event.data.get("input", taken) == taken
    ]


def _turn(template: list[Event], worker: str, number: int, long: bool) -> list[Draft]:
    turn, entry = new_id(), new_id()
    return [_copied(event, worker, number, turn, entry, long) for event in template]


def _copied(event: Event, worker: str, number: int, turn: str, entry: str, long: bool) -> Draft:
    data: dict[str, Any] = copy.deepcopy(dict(event.data))
    if "input" in data:
        data["input"] = entry
    if event.type == "InputQueued":
        data["text"] = f"{data['text']} {number}"
    if event.type == "TurnStarted":
        data |= {"index": number, "worker": worker}
    if event.type == "ToolSettled" and long:
        data["output"] = OUTPUT
    return Draft(event.type, data, event.loop, turn if event.turn else None, event.step, actor=event.actor)
