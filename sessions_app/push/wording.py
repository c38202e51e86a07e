"""What a notification says and offers: short, and no more than its reader may see on the session's page (L4)."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from psycopg import Cursor

from sessions_app.log import read, secrets
from sessions_app.log.db import Row
from sessions_app.log.frames import Audience, event_frame
from sessions_app.pages.words import (
    answer_words,
    call_line,
    counted,
    duration,
    failed_words,
    may_it,
    plain,
    start_of,
    stopped_by,
    text_of,
)
from sessions_app.people.roles import CAN, Role

TITLE_CHARS: Final = 80
BODY_CHARS: Final = 240
Payload = dict[str, Any]
_LIMITS: Final = {
    "steps": "steps of a turn",
    "wall_s": "time a turn may work",
    "tokens": "tokens of a turn",
    "cost": "cost of a turn",
    "day_cost": "cost of one day",
}


def payload(
    cur: Cursor[Row],
    session: str,
    title: str,
    seq: int,
    kind: str,
    about: str,
    *,
    role: Role,
    audience: Audience,
    waiting: int = 1,
    queue: str | None = "hold",
) -> Payload:
    """What is sent of one event, as the service worker reads it. `waiting` counts the open approvals.

    One notification a session: its `tag` is the session's id, and `seq` tells a late one from news.
    """
    event = _event(cur, session, seq, audience)
    body = _body(cur, session, event, kind, about, waiting, audience)
    may = CAN[role]
    actions = [name for name, verb in _ACTIONS.get(kind, {}).items() if verb in may]
    made: Payload = {"kind": kind, "session": session, "seq": seq, "title": _short(title, TITLE_CHARS), "body": body}
    if kind in ("approval", "answered"):
        made |= {"gate": about, "url": f"/s/{session}#ask-{about}"}
    else:
        made |= {"url": f"/s/{session}" + (f"#{event['turn']}" if event["turn"] else "")}
    if actions:
        made["actions"] = actions
    if queue is not None:
        made["queue"] = queue
    return made


_ACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "approval": {"allow": "resolve", "deny": "resolve", "stop": "interrupt"},
    "budget": {"stop": "interrupt"},
    "silent": {"stop": "interrupt"},
}
"""What a notification offers, by the verb that allows it."""


def _event(cur: Cursor[Row], session: str, seq: int, audience: Audience) -> dict[str, Any]:
    [row] = read.rows(cur, session, after=seq - 1, limit=1)
    event: dict[str, Any] = orjson.loads(event_frame(row, audience))
    return event


def _body(
    cur: Cursor[Row], session: str, event: Mapping[str, Any], kind: str, about: str, waiting: int, audience: Audience
) -> str:
    data = event["data"]
    if kind == "approval":
        more = f" {counted(waiting - 1, 'more approval waits', 'more approvals wait')}." if waiting > 1 else ""
        asked = _short(_asked(cur, session, event, audience), BODY_CHARS - 80)
        return _short(f"{may_it(data['tool'])}{more} {asked}", BODY_CHARS)
    if kind == "silent":
        return "Nothing has happened for a while, and it has not ended."
    said = {
        "answered": lambda: f"{answer_words(event)}.",
        "budget": lambda: f"A limit is near: {_LIMITS.get(about.rsplit(maxsplit=1)[-1], 'a limit')}.",
        "ended": lambda: _ended(cur, session, event, audience),
        "failed": lambda: _failed(event),
        "stopped": lambda: f"{stopped_by(data, event['actor'])}. {_reason(data)}",
    }[kind]()
    return _short(said, BODY_CHARS)


def _ended(cur: Cursor[Row], session: str, event: Mapping[str, Any], audience: Audience) -> str:
    found = read.rows(cur, session, before=event["seq"], types=("StepDone",), loop=event["loop"], order="desc", limit=1)
    text = ""
    if found and found[0].turn == event["turn"]:
        text = text_of(orjson.loads(event_frame(found[0], audience))["data"].get("text"))
    return f"Done in {duration(event['data']['duration_ms'])}. {text}"


def _failed(event: Mapping[str, Any]) -> str:
    data = event["data"]
    if event["type"] == "TurnInterrupted":
        return f"{stopped_by(data, event['actor'])}."
    return f"{failed_words(data['error'])}. {text_of(data['error'].get('detail'))}"


def _reason(data: Mapping[str, Any]) -> str:
    reason = text_of(data.get("reason"))
    return f"“{reason}”" if reason else ""


def _asked(cur: Cursor[Row], session: str, gate: Mapping[str, Any], audience: Audience) -> str:
    """What wants to run, as one would type it: the call's arguments stand in the step that asked for it."""
    found = read.rows(
        cur, session, before=gate["seq"], types=("StepPlanned",), loop=gate["loop"], order="desc", limit=1
    )
    for row in found:
        for call in orjson.loads(event_frame(row, audience))["data"]["calls"]:
            if call["call"] == gate["data"]["call"]:
                return call_line(call["tool"], call["arguments"])
    return ""


def _short(text: str, most: int) -> str:
    """One line, bounded, without what turns the text around it; what is known to be secret is masked once more."""
    return start_of(plain(secrets.mask(text)), most)
