"""Text that cannot be stored is replaced visibly, secrets are masked, and nothing is dropped or breaks (A6)."""

import time
from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import chain, read, secrets
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]
KEY = "sk-test-0123456789abcdef"
BAD, GOOD = "D\0isk \ud83d full", "D\ufffdisk \ufffd full"


@pytest.fixture
def world() -> World:
    return World.create()


@pytest.fixture
def known_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A provider's key in this process's environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SHORT_API_KEY", "abcdefg")
    secrets.known.cache_clear()
    yield KEY
    secrets.known.cache_clear()


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27", "D47")
def test_what_cannot_be_stored_is_replaced_and_every_event_says_so(world: World, sql: Sql) -> None:
    control.change_session(world.owner, world.session, new_id(), title=BAD)
    world.start(BAD)
    arguments = {"comm\0and": BAD, "list": [BAD, {"x": BAD}]}
    call = commands.PlannedCall("a", "shell", arguments)
    world.report(commands.FinishModel(world.turn, world.epoch, 1, BAD, BAD, (call,)))
    world.report(commands.StartTool(world.turn, world.epoch, 1, "a", arguments))
    output = "".join(f"{letter}\0" for letter in "Disk full") + "\na normal line"
    world.settle("a", output=output)
    world.steer(BAD)
    world.begin()
    world.stop(reason=BAD)
    world.end(cut_off={"text": BAD, "reasoning": BAD})
    control.give_reason(world.owner, world.turn, new_id(), BAD)
    world.start("next")
    world.report(commands.Fail(world.turn, world.epoch, "provider_error", BAD, cut_off={"text": BAD}))
    cleaned = {"comm\ufffdand": GOOD, "list": [GOOD, {"x": GOOD}]}
    data = {event.type: event.data for event in world.events() if event.data.get("replaced")}
    assert {name: [value for key, value in each.items() if key in TEXTS] for name, each in data.items()} == {
        "SessionChanged": [GOOD], "InputQueued": [GOOD],
        "StepPlanned": [GOOD, GOOD, [{"call": "a", "tool": "shell", "arguments": cleaned}]],
        "ToolStarted": [cleaned],
        "ToolSettled": ["".join(f"{letter}\ufffd" for letter in "Disk full") + "\na normal line"],
        "SteerQueued": [GOOD], "InterruptRequested": [GOOD],
        "TurnInterrupted": [GOOD, {"text": GOOD, "reasoning": GOOD}],
        "InterruptReasonGiven": [GOOD], "TurnFailed": [{"code": "provider_error", "detail": GOOD}, {"text": GOOD}],
    }  # fmt: skip
    assert sql.execute("SELECT title FROM session").fetchall() == [{"title": GOOD}]
    assert sql.execute("SELECT reason FROM interruption").fetchall() == [{"reason": GOOD}]
    assert list(chain.verify(world.session)) == []
    for frame in read.events(world.session):
        orjson.loads(frame)


TEXTS = ("title", "text", "reasoning", "calls", "arguments", "output", "reason", "cut_off", "error")


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
def test_two_halves_side_by_side_are_one_character_and_nothing_is_called_replaced(world: World) -> None:
    world.submit("ready \ud83d\ude80 \U0001f468\u200d\U0001f469\u200d\U0001f467")
    [queued] = world.events("InputQueued")
    assert queued.data["text"] == "ready \U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert "replaced" not in queued.data


@pytest.mark.rule("A6")
def test_keys_that_become_the_same_stay_apart(world: World) -> None:
    world.start()
    call = commands.PlannedCall("a", "shell", {"k\0": 1, "k\ufffd": 2} | {"k\ud800": 3})
    world.report(commands.FinishModel(world.turn, world.epoch, 1, "", calls=(call,)))
    [planned] = world.events("StepPlanned")
    assert planned.data["calls"][0]["arguments"] == {"k\ufffd": 1, "k\ufffd\ufffd": 2, "k\ufffd\ufffd\ufffd": 3}


@pytest.mark.rule("A6")
def test_numbers_that_json_cannot_hold_become_text(world: World) -> None:
    world.start()
    call = commands.PlannedCall("a", "shell", {"big": 10**30, "nan": float("nan"), "fine": 2**63 - 1})
    world.report(commands.FinishModel(world.turn, world.epoch, 1, "", calls=(call,)))
    [planned] = world.events("StepPlanned")
    assert planned.data["calls"][0]["arguments"] == {"big": str(10**30), "nan": "nan", "fine": 2**63 - 1}
    assert planned.data["replaced"] is True
    with pytest.raises(Refused, match="invalid"):
        control.change_session(world.owner, world.session, new_id(), settings={"stop_queue": 10**30})


@pytest.mark.rule("A6", "A2")
def test_a_session_is_created_from_whatever_text_there_is(world: World, sql: Sql) -> None:
    made = control.create_session(world.owner, new_id(), title=BAD, instructions=BAD)
    assert made["title"] == GOOD
    created, _, started = read.engine_events(made["id"])[:3]
    assert (created.data["title"], started.data["instructions"]) == (GOOD, GOOD)
    assert created.data["replaced"]
    assert started.data["replaced"]
    assert list(chain.verify(made["id"])) == []
    with pytest.raises(Refused) as refused:
        control.create_session(world.owner, new_id(), workspace="/no\0where/\ud800")
    assert orjson.dumps(refused.value.detail)


@pytest.mark.rule("A6", "A4")
def test_the_same_bad_text_again_is_the_same_command(world: World) -> None:
    id = new_id()
    first = control.submit(world.owner, world.session, id, text=BAD)
    assert control.submit(world.owner, world.session, id, text=BAD) == first


@pytest.mark.rule("A6")
def test_known_secrets_are_masked_wherever_they_turn_up(world: World, known_key: str, sql: Sql) -> None:
    said, token = f"the key is {known_key}.", "sw_" + "a1B2_-" * 8
    control.change_session(world.owner, world.session, new_id(), title=said)
    world.start(said)
    waiting = world.submit(f"and {token}")
    control.retract_input(world.owner, world.session, new_id(), waiting)
    call = commands.PlannedCall("a", "shell", {"env": {known_key: said, "***": "kept apart"}})
    world.report(commands.FinishModel(world.turn, world.epoch, 1, said, said, (call,)))
    world.start_tool("a")
    world.settle("a", output=f"OPENAI_API_KEY={known_key}\n" * 2)
    world.steer(said)
    world.begin()
    world.report(commands.Fail(world.turn, world.epoch, "provider_error", f"HTTP 401: bad key {known_key}"))
    made = control.create_session(world.owner, new_id(), title=said)
    everything = b"".join(read.events(world.session) + read.events(made["id"]))
    everything += orjson.dumps(read.snapshot(world.session)) + orjson.dumps(made)
    assert known_key.encode() not in everything
    assert token.encode() not in everything
    [failed] = world.events("TurnFailed")
    assert failed.data["error"]["detail"] == "HTTP 401: bad key ***"
    [planned] = world.events("StepPlanned")
    assert planned.data["calls"][0]["arguments"] == {"env": {"***": "the key is ***.", "******": "kept apart"}}
    titles = [row["title"] for row in sql.execute("SELECT title FROM session").fetchall()]
    assert titles == ["the key is ***."] * 2
    assert list(chain.verify()) == []


@pytest.mark.rule("B7", "A6")
def test_the_same_call_again_is_known_as_such_also_with_a_secret_in_it(world: World, known_key: str) -> None:
    world.start()
    for number in (1, 2, 3):
        call = commands.PlannedCall(f"c{number}", "shell", {"command": f"curl -H {known_key}"})
        finished = world.report(commands.FinishModel(world.turn, world.epoch, number, "", calls=(call,)))
        if finished["outcome"] == "planned":
            world.start_tool(call.call)
            world.settle(call.call)
            world.begin()
    assert finished["outcome"] == "failed"
    assert world.events("TurnFailed")[0].data["error"]["code"] == "repeated_call"


@pytest.mark.rule("A6")
def test_short_values_are_not_masked(world: World, known_key: str) -> None:
    world.submit("abcdefg")
    assert world.events("InputQueued")[0].data["text"] == "abcdefg"


@pytest.mark.rule("A7")
@pytest.mark.scenario("D36")
def test_times_and_order_are_the_database_s_whatever_clock_a_host_has(
    world: World, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process is five hours ahead, then ten minutes behind: order, times and durations do not notice (D36)."""

    def clock_is_off_by(seconds: float) -> None:
        real, real_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))

    [begin] = sql.execute("SELECT clock_timestamp() AS at").fetchall()
    clock_is_off_by(5 * 3600)
    world.start("from the future")
    world.answer("hi")
    clock_is_off_by(-5 * 3600 - 600)
    world.start("from the past")
    world.stop()
    world.end()
    [end] = sql.execute("SELECT clock_timestamp() AS at").fetchall()
    times = [row["at"] for row in sql.execute("SELECT at FROM event WHERE seq > 3 ORDER BY seq").fetchall()]
    assert times == sorted(times)
    assert begin["at"] <= times[0]
    assert times[-1] <= end["at"]
    [done], [stopped] = world.events("TurnDone"), world.events("TurnInterrupted")
    assert 0 <= done.data["duration_ms"] < 60_000
    assert 0 <= stopped.data["settled_ms"] < 60_000
