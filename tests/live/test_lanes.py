"""Commands of one client keep their order; a stop overtakes them all, and a failing one costs only itself (E11)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from sessions_app.engine.actors import Actor
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.live import commands
from sessions_app.live.commands import Command
from sessions_app.live.lanes import MOST_WAITING, Lane
from sessions_app.live.threads import THREADS, Pool
from sessions_app.people.principals import Principal
from tests.live.recording import Watcher
from tests.support.waiting import wait_until_async

ANA = Principal(Actor("person", new_id(), "ana"), None, "person:ana")


@asynccontextmanager
async def running(*lanes: Lane) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(lane.run()) for lane in lanes]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def answers(watcher: Watcher, number: int) -> list[dict[str, Any]]:
    async def enough() -> bool:
        return len(watcher.wire.frames) >= number

    await wait_until_async(enough, f"{number} answers")
    return watcher.wire.frames


@pytest.mark.rule("E11")
async def test_a_stop_overtakes_the_commands_of_its_client_and_those_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, watcher = threading.Event(), Watcher(ANA)

    def execute(principal: Principal, session: str, command: Command) -> dict[str, Any]:
        assert command.verb == "interrupt" or go.wait(20)
        return {"did": command.verb}

    monkeypatch.setattr(commands, "execute", execute)
    in_order, stops = Lane("s", watcher.client, Pool.COMMANDS), Lane("s", watcher.client, Pool.STOPS)
    others = [Lane("s", Watcher(ANA).client, Pool.COMMANDS) for _ in range(2 * THREADS[Pool.COMMANDS])]
    async with running(in_order, stops, *others):
        for lane in others:  # every thread for commands is busy, and as many wait for one
            lane.put(Command("submit", new_id(), {}))
        sent = [Command(verb, new_id(), {}) for verb in ("submit", "steer", "edit", "retract")]
        for command in sent:
            in_order.put(command)
        stop = Command("interrupt", new_id(), {})
        stops.put(stop)
        assert await answers(watcher, 1) == [{"t": "ack", "id": stop.id, "result": {"did": "interrupt"}}]
        go.set()
        assert [frame["id"] for frame in await answers(watcher, 5)] == [stop.id, *(command.id for command in sent)]


@pytest.mark.rule("M")
async def test_what_goes_wrong_is_answered_and_the_next_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: Iterator[Exception | dict[str, Any]] = iter([
        Refused("queue_full", "64 inputs wait already.", retry_after=3, waiting=64),
        psycopg.OperationalError("the server closed the connection"),
        ValueError("a bug"),
        {"input": "i"},
    ])  # fmt: skip

    def execute(principal: Principal, session: str, command: Command) -> dict[str, Any]:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(commands, "execute", execute)
    watcher = Watcher(ANA)
    lane = Lane("s", watcher.client, Pool.COMMANDS)
    sent = [Command("submit", new_id(), {}) for _ in range(4)]
    async with running(lane):
        for command in sent:
            lane.put(command)
        got = await answers(watcher, 4)
    assert [frame["id"] for frame in got] == [command.id for command in sent]
    assert got[0] == {
        "t": "error", "id": sent[0].id, "code": "queue_full", "detail": "64 inputs wait already.",
        "data": {"waiting": 64}, "retry_after": 3,
    }  # fmt: skip
    assert [frame.get("code") for frame in got] == ["queue_full", "unavailable", "unavailable", None]


@pytest.mark.rule("M")
@pytest.mark.parametrize(("pool", "code"), [(Pool.COMMANDS, "rate_limited"), (Pool.STOPS, "unavailable")])
async def test_a_flood_of_commands_is_refused_not_kept(pool: Pool, code: str) -> None:
    lane = Lane("s", Watcher(ANA).client, pool)
    for _ in range(MOST_WAITING):
        lane.put(Command("interrupt", new_id(), {}))
    with pytest.raises(Refused) as refused:
        lane.put(Command("interrupt", new_id(), {}))
    assert (refused.value.code, refused.value.retry_after) == (code, 1)
