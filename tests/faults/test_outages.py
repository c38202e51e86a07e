"""Redis gone and back empty, PostgreSQL restarted: latency at most, never an event; a stop still stops (E11, L5)."""

import asyncio
import threading

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from tests.conftest import MakeStack
from tests.doors.callers import token_of
from tests.support.model_server import ModelServer, call, say
from tests.support.running import ENDLESS, Running
from tests.support.sockets import opened
from tests.support.waiting import stays_true

OUTAGE_S = 15


@pytest.mark.rule("L5", "E11", "L1")
@pytest.mark.scenario("D33")
async def test_redis_stopped_for_a_while_and_started_empty(make_stack: MakeStack) -> None:
    with ModelServer() as server:
        stack = await asyncio.to_thread(make_stack, webs=2, env=server.environ())
        session = await asyncio.to_thread(Running.create)
        server.handler = lambda request: (
            [say("Done.")] if request.last.role == "tool" else [call("shell", command="echo hi")]
        )
        token = await asyncio.to_thread(token_of, "ana")
        path = f"/ws/sessions/{session.id}/"
        async with opened(stack.urls[0], path, token=token) as one, opened(stack.urls[1], path, token=token) as two:
            await one.until(lambda: one.of("caught_up"), "the first client's replay")
            await two.until(lambda: two.of("caught_up"), "the second client's replay")
            stack.redis.stop()
            await asyncio.to_thread(session.submit, "while Redis is away")
            await one.until(lambda: one.events("TurnDone"), "a turn without Redis", 60)
            server.handler = lambda _: [call("shell", command=ENDLESS)]
            await asyncio.to_thread(session.submit, "endless")
            await asyncio.to_thread(session.until_grows, "f", "g")
            outcome = await asyncio.to_thread(session.stop, queue="hold")
            assert outcome["stopped"] is True
            await asyncio.to_thread(stays_true, session.unchanged("f", "g"), "the files' sizes", 0.4)
            await asyncio.to_thread(threading.Event().wait, OUTAGE_S)
            stack.redis.start()  # from the main thread: a server ends with the thread that started it
            server.handler = lambda _: [say("Back.")]
            await asyncio.to_thread(session.submit, "after")
            for client in (one, two):
                await client.until(lambda c=client: len(c.events("TurnDone")) == 2, "the last turn", 30)  # type: ignore[misc]
                assert client.seqs() == list(range(1, len(client.seqs()) + 1))
            assert one.code is None and two.code is None, "no client had to connect again"
            assert server.violations == []


@pytest.mark.rule("A1", "A4", "L5")
async def test_postgresql_restarted_in_the_middle_of_a_turn(make_stack: MakeStack) -> None:
    with ModelServer() as server:
        stack = await asyncio.to_thread(make_stack, webs=1, env=server.environ())
        session = await asyncio.to_thread(Running.create)
        server.script(
            [call("shell", command="until [ -e go ]; do sleep 0.05; done; echo survived")], [say("All there.")]
        )
        token = await asyncio.to_thread(token_of, "ana")
        async with opened(stack.url, f"/ws/sessions/{session.id}/", token=token) as client:
            await asyncio.to_thread(session.submit, "Wait for me.")
            await client.until(lambda: client.events("ToolStarted"), "the running call", 60)
            stack.postgres.stop()
            stack.postgres.start()  # from the main thread: a server ends with the thread that started it
            session.file("go").touch()
            await client.until(lambda: client.events("TurnDone"), "the end of the turn", 60)
            assert client.code is None and client.seqs() == list(range(1, len(client.seqs()) + 1))
            assert client.events("ToolSettled")[0]["data"]["output"].strip() == "survived"
            receipt = await asyncio.to_thread(
                lambda: control.steer(session.owner, session.id, new_id(), text="still here?")
            )
            assert receipt["lands"] == {"when": "next_turn"}
