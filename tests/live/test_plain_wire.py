"""A server that is not Daphne: its `send` is awaited behind a queue, so that nobody else waits for a slow client."""

import asyncio
from typing import Any

import pytest

from sessions_app.live.frames import frame
from sessions_app.live.wire import PlainWire, wire_for
from tests.support.waiting import wait_until_async


class Server:
    """An ASGI `send` that waits until it may go on, and can say that the client has gone."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.open = asyncio.Event()
        self.gone = False

    async def send(self, message: dict[str, Any]) -> None:
        await self.open.wait()
        if self.gone:
            raise ConnectionResetError
        self.sent.append(message)


async def until(condition: Any, what: str) -> None:
    async def asked() -> Any:
        return condition()

    await wait_until_async(asked, what)


@pytest.mark.rule("L3")
async def test_what_a_slow_client_has_not_taken_is_counted_and_comes_in_order() -> None:
    server = Server()
    wire = wire_for(server.send)
    assert isinstance(wire, PlainWire)
    frames = [frame({"n": number}) for number in range(20)]
    wire.send(frames[:10])
    wire.send(frames[10:])
    size = sum(len(one) for one in frames)
    assert (wire.waiting(), wire.taken()) == (size, 0)
    server.open.set()
    await until(lambda: wire.waiting() == 0, "an empty queue")
    assert wire.taken() == size
    wire.close(4408)
    wire.send(frames)
    await until(lambda: len(server.sent) == 21, "the close")
    assert [message.get("text") for message in server.sent] == [*(one.text for one in frames), None]
    assert server.sent[-1] == {"type": "websocket.close", "code": 4408}
    wire.release()


@pytest.mark.rule("L3")
async def test_a_client_that_has_gone_ends_the_queue_quietly() -> None:
    server = Server()
    wire = PlainWire(server.send)
    server.gone = True
    server.open.set()
    wire.send([frame({"n": 1})])
    await asyncio.gather(wire.pump_task, return_exceptions=False)
    wire.release()
