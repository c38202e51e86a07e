"""A real language model behind its OpenAI-compatible endpoint: it streams through our adapter and a stop silences it.

Opt-in, see tests/support/real_model.py for the three lines that run it.
"""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from sessions_app.engine.transcript_types import UserEntry
from sessions_app.log import stream
from sessions_app.worker.models.base import Delta, Reply, Request, Text
from sessions_app.worker.models.providers import close_connections
from sessions_app.worker.models.registry import open_model
from tests.conftest import MakeStack
from tests.support import real_model
from tests.support.real_model import MODEL, RealModelServer
from tests.support.running import Running
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.timeout(600),
]
REQUEST = Request(MODEL, "Answer at length.", (UserEntry("Tell me a very long story about a lighthouse."),))
WATCHED_S = 1.0
"""Processor time is looked at over spans of this length: much longer than the 10 ms in which the kernel counts it."""


@pytest.fixture(scope="module")
def server() -> Iterator[RealModelServer]:
    reason = real_model.missing()
    if reason is not None:
        pytest.skip(reason)
    with RealModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def environment(server: RealModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in server.environ().items():
        monkeypatch.setenv(key, value)


async def busy_s(server: RealModelServer) -> float:
    """Processor seconds the server used during the next `WATCHED_S`."""
    before = server.cpu_s()
    await asyncio.sleep(WATCHED_S)
    return server.cpu_s() - before


@pytest.mark.rule("E6")
@pytest.mark.scenario("D04")
async def test_a_real_model_streams_is_stopped_in_mid_stream_and_falls_idle(server: RealModelServer) -> None:
    seen: list[Delta | Reply] = []
    several = asyncio.Event()

    async def consume() -> None:
        async for item in open_model(MODEL).stream(REQUEST):
            seen.append(item)
            if len(seen) >= 8:
                several.set()

    task = asyncio.create_task(consume())
    async with asyncio.timeout(300):
        await several.wait()
    assert all(isinstance(item, Text) for item in seen)
    assert await busy_s(server) > 0.05, "the model is at work while it streams"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stopped_at = len(seen)

    async def idle() -> bool:
        return await busy_s(server) < 0.02

    await wait_until_async(idle, "the model server's idleness", timeout_s=10)
    assert await busy_s(server) < 0.02, "and it stays idle"
    assert len(seen) == stopped_at
    await close_connections()


async def test_the_next_request_is_answered_after_a_stop(server: RealModelServer) -> None:
    async with asyncio.timeout(300):
        stream = open_model(MODEL).stream(REQUEST)
        first = await anext(stream)
        await stream.aclose()
    assert isinstance(first, Text)
    await close_connections()


@pytest.mark.rule("D4", "D8", "E6", "C3")
def test_a_turn_of_a_real_model_is_steered_and_then_stopped_in_mid_stream(
    server: RealModelServer, make_stack: MakeStack
) -> None:
    make_stack(webs=0, workers=1, env=server.environ())
    session = Running.create(model=MODEL)
    session.submit("Tell me a very long story about a lighthouse.")
    wait_until(lambda: any(piece.text for piece in stream.read(session.id)), "the first words", 240)
    landing = session.steer("Tell it about a windmill instead.")
    assert landing["lands"]["when"] == "safe_point"
    stopped = session.stop(reason="too long")
    assert stopped["stopped"] is True
    terminal = session.events("TurnInterrupted")[0]
    assert terminal.data["phase"] == "model" and len(terminal.data["cut_off"]["text"]) > 0
    session.submit("Go on.")
    delivered = session.until("SteerDelivered", timeout_s=60)
    assert delivered.turn == session.events("TurnStarted")[1].turn
    wait_until(lambda: any(piece.turn == delivered.turn for piece in stream.read(session.id)), "the second reply", 240)
    assert session.stop(reason="enough")["stopped"] is True

    def busy() -> float:
        before = server.cpu_s()
        threading.Event().wait(WATCHED_S)
        return server.cpu_s() - before

    wait_until(lambda: busy() < 0.02, "the model server's idleness", 20)
