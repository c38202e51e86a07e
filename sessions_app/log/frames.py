"""An event as it leaves the server: one JSON text per audience, made once, from stored bytes (L4)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import orjson

from sessions_app.engine.events import SHAPES
from sessions_app.log.payload import splice

Audience = Literal["member", "observer"]
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def audience_of(role: str) -> Audience:
    """Which frames a role is sent: observers get fewer (L4)."""
    return "observer" if role == "observer" else "member"


@dataclass(frozen=True, slots=True)
class Stored:
    """One row of the log. `actor` is JSON text; `texts` is None once erased."""

    session: str
    seq: int
    type: str
    at: datetime
    loop: str | None
    turn: str | None
    step: int | None
    actor: str
    cause: str | None
    facts: bytes
    texts: bytes | None


def milliseconds(at: datetime) -> int:
    """Whole milliseconds since 1970, cut as JavaScript cuts them: both folds have the same numbers (A2)."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def instant(at: datetime) -> str:
    """RFC 3339 in UTC with microseconds and `Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event_frame(event: Stored, audience: Audience = "member") -> bytes:
    """The `event` frame. Observers get neither a device's name nor what is marked ° in the contract."""
    actor, data = event.actor.encode(), splice(event.facts, event.texts)
    if audience == "observer":
        actor, data = _without_device_name(event.actor), _visible(event.type, data)
    head: dict[str, Any] = {
        "t": "event",
        "v": 1,
        "seq": event.seq,
        "type": event.type,
        "at": instant(event.at),
        "loop": event.loop,
        "turn": event.turn,
        "step": event.step,
        "actor": orjson.Fragment(actor),
        "cause": event.cause,
        "data": orjson.Fragment(data),
    }
    return orjson.dumps(head)


def _without_device_name(actor: str) -> bytes:
    value = orjson.loads(actor)
    if value["device"] is not None:
        value["device"] = {"kind": value["device"]["kind"]}
    return orjson.dumps(value)


def _visible(type_: str, data: bytes) -> bytes:
    shape = SHAPES[type_]
    if shape.hidden_whole:
        return b"{}"
    if not shape.hidden:
        return data
    value = orjson.loads(data)
    return orjson.dumps({key: item for key, item in value.items() if key not in shape.hidden})
