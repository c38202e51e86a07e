"""The socket while something is broken: a client that never reads, Redis gone, PostgreSQL restarted (D21, D33)."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import bell, stream
from sessions_app.log.stream import Piece
from tests.conftest import MakeStack
from tests.doors.callers import token_of
from tests.support.sockets import Socket, never_reads, opened, was_cut
from tests.support.stack import Stack
from tests.support.waiting import wait_until_async
from tests.support.world import World

EVENTS = 900
TEXT = "x" * 16_000
WATCHERS = 4


def path(world: World) -> str:
    return f"/ws/sessions/{world.session}/"


@pytest.fixture
def web(make_stack: MakeStack) -> Stack:
    """A web process of each test alone: what is beneath it goes away."""
    return make_stack(webs=1, workers=0)


@pytest.fixture
async def watchers(web: Stack, world: World) -> AsyncIterator[list[Socket]]:
    """Clients that read."""
    token = token_of("ana")
    async with AsyncExitStack() as exits:
        found = [await exits.enter_async_context(opened(web.url, path(world), token=token)) for _ in range(WATCHERS)]
        for one in found:
            await one.live()
        yield found


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


@pytest.mark.rule("L3")
@pytest.mark.scenario("D21")
async def test_a_client_that_never_reads_is_dropped_and_costs_the_others_nothing(
    web: Stack, world: World, watchers: list[Socket]
) -> None:
    pid = web.web.pid
    assert pid is not None
    text_id = world.submit("begin")
    before = resident_mib(pid)
    with never_reads(web.url, path(world), token_of("ana")) as raw:

        def talk() -> None:
            for number in range(EVENTS):
                control.edit_input(world.owner, world.session, new_id(), text_id, text=f"{number} {TEXT}")

        await asyncio.to_thread(talk)
        last = world.events()[-1].seq
        for one in watchers:
            await one.until_seq(last)
            assert one.seqs() == list(range(1, last + 1))

        async def cut() -> bool:
            return was_cut(raw)

        await wait_until_async(cut, "the end of the client that never reads")
    assert resident_mib(pid) - before < 100
    assert [one.code for one in watchers] == [None] * WATCHERS


async def until_delayed(watcher: Socket, said: list[bool]) -> None:
    """Wait until a client has been told just this about live updates being delayed."""
    await watcher.until(lambda: [frame["delayed"] for frame in watcher.of("delayed")] == said, f"delayed: {said}")


@pytest.mark.rule("L1", "L5")
@pytest.mark.scenario("D33")
async def test_redis_gone_and_started_empty_costs_clients_latency_only(
    web: Stack, world: World, watchers: list[Socket]
) -> None:
    world.start()
    text = "said before, "
    bell.delta(world.session, _delta(world, 0, text))
    stream.save([_piece(world, text)])
    for one in watchers:
        await one.until_text(text)
    web.redis.stop()
    # Stop and steer do not need Redis, and their events arrive by the poll.
    for number in range(8):
        answer = await watchers[0].ask("steer", text=f"steer {number}")
        assert answer["t"] == "ack"
        for one in watchers:
            await one.until_event("SteerQueued", number + 1)
    text += "said meanwhile"
    stream.save([_piece(world, text)])
    for one in watchers:
        await one.until_text(text)
    for one in watchers:
        await until_delayed(one, [True])
    web.redis.start()
    for number in range(25):
        control.retract_input(world.owner, world.session, new_id(), world.submit(f"text {number}"))
    stopped = await watchers[1].ask("interrupt", queue="run")
    assert stopped["result"]["turns"] == [world.turn]
    world.end()
    last = world.events()[-1].seq
    for one in watchers:
        await one.until_seq(last)
        assert one.seqs() == list(range(1, last + 1))
        assert one.code is None
        await until_delayed(one, [True, False])


@pytest.mark.rule("L1", "L5")
async def test_postgresql_restarted_costs_clients_no_event_and_no_connection(
    web: Stack, world: World, watchers: list[Socket]
) -> None:
    world.submit("before")
    for one in watchers:
        await one.until_event("InputQueued")
    web.postgres.stop()
    waiting = asyncio.create_task(watchers[0].ask("submit", text="in the gap"))
    web.postgres.start()
    answer = await waiting
    if answer["t"] == "error":  # it says so plainly, and the client may send the same command again
        assert answer["code"] == "unavailable"
        assert (await watchers[0].ask("submit", text="in the gap", id=answer["id"]))["t"] == "ack"
    for one in watchers:
        await one.until_event("InputQueued", 2)
        assert one.seqs() == list(range(1, 6))
        assert one.code is None


def _delta(world: World, offset: int, text: str) -> dict[str, object]:
    return {
        "t": "delta", "loop": world.loop, "turn": world.turn, "step": 1, "attempt": 1, "kind": "text", "offset": offset,
        "text": text,
    }  # fmt: skip


def _piece(world: World, text: str) -> Piece:
    return Piece(world.session, world.loop, world.turn, 1, 1, "text", text)
