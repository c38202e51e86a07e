"""Frames from a client: bounded, strictly typed, and handed to `control` (house: the first journey)."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.files import FILES_AT_ONCE
from sessions_app.engine.instants import INSTANT, read_instant
from sessions_app.engine.state import MODES
from sessions_app.live.wire import MAX_FRAME
from sessions_app.people.principals import Principal

IDS_AT_ONCE: Final = 128
DEEPEST_POSITION: Final = 1_000_000

Check = Callable[[str, Any], Any]


def _refuse(field: str, rule: str) -> Refused:
    return Refused("invalid", f"`{field}` {rule}.", field=field)


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse(field, "is a text")
    return value


def _id(field: str, value: Any) -> str:
    try:
        if isinstance(value, str) and len(value) == 36:
            return str(UUID(value))
    except ValueError:
        pass
    raise _refuse(field, "is a UUID")


def _ids(field: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > IDS_AT_ONCE:
        raise _refuse(field, f"is a list of at most {IDS_AT_ONCE} UUIDs")
    return [_id(field, item) for item in value]


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(field, "is true or false")
    return value


def _position(field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= DEEPEST_POSITION:
        raise _refuse(field, "is a place in the queue, 0 being the first")
    return value


def _one_of(*words: str) -> Check:
    def check(field: str, value: Any) -> Any:
        if value not in words:
            raise _refuse(field, f"is one of {', '.join(words)}")
        return value

    return check


def _files(field: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > FILES_AT_ONCE:
        raise _refuse(field, f"is a list of at most {FILES_AT_ONCE} UUIDs")
    return [_id(field, item) for item in value]


def _then(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value.keys() == {"input"}:
        return {"input": _id(f"{field}.input", value["input"])}
    if isinstance(value, dict) and value.keys() in ({"text"}, {"text", "files"}):
        text = {"text": _text(f"{field}.text", value["text"])}
        files = _files(f"{field}.files", value.get("files", []))
        return {**text, "files": files} if files else text
    raise _refuse(field, "is either {text, files?} or {input}")


def _rule(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or value.keys() != {"kind", "value"}:
        raise _refuse(field, "is {kind, value}")
    return {name: _text(f"{field}.{name}", value[name]) for name in ("kind", "value")}


def _limits(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(field, "is an object of numbers by name")
    return value


def _seconds(field: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise _refuse(field, "is a number of seconds")
    return float(value)


def _instant(field: str, value: Any) -> datetime:
    try:
        return read_instant(_text(field, value))
    except ValueError:
        raise _refuse(field, f"is {INSTANT}") from None


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a verb: those it must have, and those it may have (null counts as absent)."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check]


SHAPES: Final[Mapping[str, Shape]] = {
    "submit": Shape({"text": _text}, {"loop": _id, "delivery": _one_of("queue", "fold"), "files": _files}),
    "edit": Shape(
        {},
        {
            "input": _id, "steer": _id, "text": _text, "position": _position, "promote": _one_of("normal", "urgent"),
            "as_input": _flag,
        },
    ),
    "retract": Shape({"input": _id}, {}),
    "release": Shape({}, {"inputs": _ids, "steers": _ids, "to": _one_of("run", "authors")}),
    "steer": Shape({"text": _text}, {"urgent": _flag, "loop": _id, "turn": _id, "files": _files}),
    "withdraw": Shape({"steer": _id}, {}),
    "resolve": Shape(
        {"gate": _id, "decision": _one_of("allow", "allow_rule", "deny")}, {"rule": _rule, "message": _text}
    ),
    "set_mode": Shape({"mode": _one_of(*MODES)}, {"loop": _id}),
    "change": Shape({}, {"loop": _id, "model": _text, "instructions": _text, "limits": _limits}),
    "kill": Shape({"call": _text}, {"turn": _id}),
    "interrupt": Shape(
        {},
        {
            "loop": _id, "turn": _id, "reason": _text, "queue": _one_of("run", "hold", "clear"), "then": _then,
            "keep_background": _flag, "wait": _seconds, "not_after": _instant,
        },
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, the client's id for it (A4), and its checked fields."""

    verb: str
    id: str
    fields: Mapping[str, Any]


def read_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object of a frame; `too_large` or `invalid`."""
    if len(text) > MAX_FRAME:
        raise Refused("too_large", f"A frame has at most {MAX_FRAME:,} bytes.", size=len(text), limit=MAX_FRAME)
    try:
        value = _decode(text)
    except (ValueError, RecursionError) as error:
        raise Refused("invalid", "A frame is a JSON object.") from error
    if not isinstance(value, dict):
        raise Refused("invalid", "A frame is a JSON object.")
    return value


def _decode(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Half an emoji, escaped: browsers send it, orjson refuses it, and A6 wants it replaced, not lost.
        if isinstance(text, str) and "\\ud" in text.lower():
            return json.loads(text)
        raise


def id_of(message: Mapping[str, Any]) -> str | None:
    """The id to answer to, where the frame has a good one."""
    try:
        return _id("id", message.get("id"))
    except Refused:
        return None


def looking(message: Mapping[str, Any]) -> bool | None:
    """Of a frame `{t: "looking", visible}`, which has no id: can the page be seen? None for others."""
    if message.get("t") != "looking":
        return None
    return _flag("visible", message.get("visible"))


def parse(message: Mapping[str, Any]) -> Command:
    """A command from its frame; `invalid` for an unknown verb or field, a missing one, or one of another type."""
    verb, command = message.get("t"), _id("id", message.get("id"))
    if not isinstance(verb, str) or verb not in SHAPES:
        raise Refused("invalid", f"There is no command of that name; there are {', '.join(SHAPES)}.", field="t")
    shape = SHAPES[verb]
    given = {name: value for name, value in message.items() if name not in ("t", "id") and value is not None}
    for name in message.keys() - {"t", "id"}:
        if name not in shape.required and name not in shape.optional:
            raise _refuse(name, f"is no field of `{verb}`")
    for name in shape.required.keys() - given.keys():
        raise _refuse(name, "is missing")
    checks = {**shape.required, **shape.optional}
    fields = {name: checks[name](name, value) for name, value in given.items()}
    if verb == "edit" and ("input" in fields) == ("steer" in fields):
        raise Refused("invalid", "`edit` names either an `input` or a `steer`.")
    return Command(verb, command, fields)


def execute(principal: Principal, session: str, command: Command) -> dict[str, Any]:
    """Carry a command out; its receipt. Blocks until it is durable, never for its outcome."""
    fields = dict(command.fields)
    fields.pop("wait", None)  # a socket never waits
    if command.verb == "edit" and "input" in fields:
        return control.edit_input(principal, session, command.id, fields.pop("input"), **_only(fields, _INPUT_EDIT))
    if command.verb == "edit":
        return control.edit_steer(principal, session, command.id, fields.pop("steer"), **_only(fields, _STEER_EDIT))
    verb, subject = _VERBS[command.verb]
    about = () if subject is None else (fields.pop(subject),)
    return verb(principal, session, command.id, *about, **fields)


_VERBS: Final[Mapping[str, tuple[Callable[..., dict[str, Any]], str | None]]] = {
    "submit": (control.submit, None),
    "retract": (control.retract_input, "input"),
    "release": (control.release, None),
    "steer": (control.steer, None),
    "withdraw": (control.withdraw_steer, "steer"),
    "resolve": (control.resolve, "gate"),
    "set_mode": (control.set_mode, None),
    "change": (control.change_loop, None),
    "interrupt": (control.interrupt, None),
    "kill": (control.kill_processes, "call"),
}
"""The verb of each command, and the field that says what it is about."""
_INPUT_EDIT: Final = frozenset({"text", "position", "promote"})
_STEER_EDIT: Final = frozenset({"text", "as_input"})


def _only(fields: Mapping[str, Any], known: frozenset[str]) -> Mapping[str, Any]:
    for name in fields.keys() - known:
        raise _refuse(name, "is no field of this edit")
    return fields
