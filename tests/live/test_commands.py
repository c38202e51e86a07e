"""What a client's frame must look like: bounded, typed strictly, and refused with the reason (rule M)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sessions_app.engine.errors import Refused
from sessions_app.live.commands import SHAPES, Command, id_of, parse, read_object
from sessions_app.live.wire import MAX_FRAME

ID = "0192f3a4-7c1e-7d55-9c1b-5f0d9c7e7a10"
OTHER = "0192f3a4-7c1e-7d55-9c1b-5f0d9c7e7a11"

GOOD: list[dict[str, Any]] = [
    {"t": "submit", "text": "hello"},
    {"t": "submit", "text": "hello", "loop": OTHER, "delivery": "fold"},
    {"t": "edit", "input": OTHER, "text": "new", "position": 0, "promote": "urgent"},
    {"t": "edit", "steer": OTHER, "as_input": True},
    {"t": "retract", "input": OTHER},
    {"t": "release"},
    {"t": "release", "inputs": [OTHER], "steers": [], "to": "authors"},
    {"t": "steer", "text": "left", "urgent": True, "turn": OTHER},
    {"t": "withdraw", "steer": OTHER},
    {"t": "interrupt"},
    {"t": "interrupt", "reason": "wrong branch", "queue": "hold", "then": {"text": "do X"}, "wait": 0},
    {"t": "interrupt", "turn": OTHER, "then": {"input": OTHER}},
    {"t": "resolve", "gate": OTHER, "decision": "allow_rule", "rule": {"kind": "path", "value": "a"}, "message": "ok"},
    {"t": "set_mode", "mode": "plan", "loop": OTHER},
    {"t": "change", "model": "demo:", "instructions": "Be brief."},
]

BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "no command of that name"),
    ({"t": ["submit"], "text": "x"}, "no command of that name"),
    ({"t": "sumbit", "text": "x"}, "no command of that name"),
    ({"t": "submit"}, "`text` is missing"),
    ({"t": "submit", "text": None}, "`text` is missing"),
    ({"t": "submit", "text": 7}, "`text` is a text"),
    ({"t": "submit", "text": "x", "urgent": True}, "`urgent` is no field"),
    ({"t": "submit", "text": "x", "urgent": None}, "`urgent` is no field"),
    ({"t": "submit", "text": "x", "loop": "main"}, "`loop` is a UUID"),
    ({"t": "submit", "text": "x", "delivery": "later"}, "`delivery` is one of queue, fold"),
    ({"t": "edit", "text": "x"}, "either an `input` or a `steer`"),
    ({"t": "edit", "input": OTHER, "steer": OTHER, "text": "x"}, "either an `input` or a `steer`"),
    ({"t": "edit", "input": OTHER, "position": -1}, "`position` is a place"),
    ({"t": "edit", "input": OTHER, "position": True}, "`position` is a place"),
    ({"t": "edit", "input": OTHER, "position": 1.0}, "`position` is a place"),
    ({"t": "steer", "text": "x", "urgent": 1}, "`urgent` is true or false"),
    ({"t": "release", "inputs": OTHER}, "`inputs` is a list"),
    ({"t": "release", "inputs": [OTHER] * 129}, "`inputs` is a list"),
    ({"t": "interrupt", "then": {}}, "`then` is either"),
    ({"t": "interrupt", "then": {"text": "x", "input": OTHER}}, "`then` is either"),
    ({"t": "interrupt", "then": {"text": 1}}, "`then.text` is a text"),
    ({"t": "interrupt", "not_after": "tomorrow"}, "`not_after` is an instant"),
    ({"t": "interrupt", "not_after": "2026-11-29T21:30:00"}, "`not_after` is an instant"),
    ({"t": "interrupt", "not_after": "20261129T2130Z"}, "`not_after` is an instant"),
    ({"t": "interrupt", "not_after": 1}, "`not_after` is a text"),
    ({"t": "resolve", "gate": OTHER, "decision": "maybe"}, "`decision` is one of"),
    ({"t": "resolve", "gate": OTHER, "decision": "allow_rule", "rule": {"kind": "path"}}, "`rule` is {kind, value}"),
    ({"t": "set_mode", "mode": "free"}, "`mode` is one of plan, ask, auto"),
    ({"t": "change", "limits": 3}, "`limits` is an object"),
]


def test_an_instant_is_read_with_its_offset() -> None:
    read = parse({"t": "interrupt", "id": ID, "not_after": "2026-11-29T21:30:00.250Z"})
    assert read.fields == {"not_after": datetime(2026, 11, 29, 21, 30, 0, 250_000, UTC)}


@pytest.mark.parametrize("message", GOOD, ids=str)
def test_good_commands_are_read_with_their_fields(message: dict[str, Any]) -> None:
    fields = {name: value for name, value in message.items() if name != "t"}
    assert parse({**message, "id": ID.upper()}) == Command(message["t"], ID, fields)


@pytest.mark.rule("M")
@pytest.mark.parametrize(("message", "reason"), BAD, ids=lambda value: str(value)[:60])
def test_bad_commands_are_invalid_and_say_why(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason) as refused:
        parse({**message, "id": ID})
    assert refused.value.code == "invalid"


@pytest.mark.rule("A4", "M")
@pytest.mark.parametrize("command_id", [None, 7, "", "abc", ID + "0", ID.replace("-", ""), "{" + ID[:34] + "}"])
def test_a_command_needs_a_uuid_as_its_id(command_id: Any) -> None:
    with pytest.raises(Refused, match="`id` is a UUID"):
        parse({"t": "submit", "text": "x", "id": command_id})
    assert id_of({"id": command_id}) is None


def test_null_counts_as_absent() -> None:
    message = {"t": "interrupt", "id": ID, "loop": None, "turn": None, "reason": None, "then": None}
    assert parse(message) == Command("interrupt", ID, {})


@pytest.mark.rule("M")
@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "7", '"submit"', "null", "[" * 100_000, '{"a":' * 100_000, b"\xff{}"]
)
def test_what_is_no_object_is_invalid(text: str | bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_object(text)
    assert refused.value.code == "invalid"


@pytest.mark.rule("M")
def test_a_frame_over_the_limit_is_too_large() -> None:
    with pytest.raises(Refused) as refused:
        read_object("x" * (MAX_FRAME + 1))
    assert (refused.value.code, refused.value.data) == ("too_large", {"size": MAX_FRAME + 1, "limit": MAX_FRAME})


@pytest.mark.rule("A6")
def test_half_an_emoji_is_read_for_the_log_to_replace() -> None:
    assert read_object('{"text":"half \\ud83d"}') == {"text": "half \ud83d"}
    assert read_object('{"text":"whole \\ud83d\\ude80"}') == {"text": "whole \U0001f680"}


def test_every_verb_of_the_contract_is_known() -> None:
    contract = "submit edit retract release steer withdraw interrupt resolve set_mode change kill"
    assert set(SHAPES) == set(contract.split())
