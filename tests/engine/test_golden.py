"""The engine still tells the golden logs exactly, and folds them to the same state and the same conversation."""

import json
from datetime import datetime
from typing import Any

import pytest

from sessions_app.engine.actors import Actor, Device
from sessions_app.engine.events import Event
from sessions_app.engine.fold import fold
from sessions_app.engine.state import to_json
from tests.engine.harness import without_texts
from tests.engine.invariants import check
from tests.golden.make import FOLDER, TALES, files, pretty, told


def stored(name: str) -> list[Event]:
    """A golden log as events."""
    return [event(json.loads(line)) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def event(frame: dict[str, Any]) -> Event:
    actor, device = frame["actor"], frame["actor"]["device"]
    who = Actor(actor["kind"], actor["id"], actor["name"], None if device is None else Device(**device))
    at_ms = round(datetime.fromisoformat(frame["at"]).timestamp() * 1000)
    return Event(
        frame["seq"],
        at_ms,
        frame["type"],
        frame["data"],
        frame["loop"],
        frame["turn"],
        frame["step"],
        who,
        frame["cause"],
    )


@pytest.mark.rule("A2", "B8")
@pytest.mark.parametrize("name", list(TALES))
def test_the_engine_tells_it_exactly(name: str) -> None:
    for file, text in files(name).items():
        assert text == (FOLDER / file).read_text(), f"{file} differs: `python -m tests.golden.make` if it is meant to"


@pytest.mark.rule("A2", "A3", "B8")
@pytest.mark.parametrize("name", list(TALES))
def test_the_stored_log_folds_to_the_stored_state_without_its_texts_too(name: str) -> None:
    log, state = stored(name), (FOLDER / f"{name}.state.json").read_text()
    assert pretty(to_json(fold(log))) == state
    assert pretty(to_json(fold(without_texts(each) for each in log))) == state
    assert pretty(to_json(fold(without_texts(each, {"erased": True}) for each in log))) == state


@pytest.mark.rule("A2")
@pytest.mark.parametrize("name", list(TALES))
def test_a_golden_log_keeps_every_invariant(name: str) -> None:
    check(told(name))


@pytest.mark.rule("B8")
@pytest.mark.parametrize(("name", "types"), [
    ("plain_turn", ["InputQueued", "TurnStarted", "StepDone", "TurnDone", "LoopIdle", "SessionIdle"]),
    ("calls", [
        "InputQueued", "TurnStarted",
        "StepPlanned", "ToolStarted", "ToolSettled", "ToolStarted", "ToolSettled", "StepDone",
        "StepPlanned", "ToolStarted", "ToolSettled", "StepDone",
        "StepDone", "TurnDone", "LoopIdle", "SessionIdle",
    ]),
])  # fmt: skip
def test_nobody_steering_and_nothing_queued_leaves_no_trace_of_either(name: str, types: list[str]) -> None:
    assert [event.type for event in stored(name)][2:] == types


def test_every_file_of_the_folder_belongs_to_a_tale() -> None:
    known = {file for name in TALES for file in files(name)} | {"make.py"}
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == known
