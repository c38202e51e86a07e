"""A tiny ASGI application that answers through a `Wire`, so that a test sees which way frames leave a real server."""

import asyncio
from typing import Any

import orjson

from sessions_app.live.counters import counters
from sessions_app.live.frames import Frame, frame
from sessions_app.live.wire import wire_for


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Orders are JSON: `{"send": sizes}`, `{"tell": true}`, `{"close": code}`, `{"mixed": n}`."""
    assert scope["type"] == "websocket"
    await receive()
    await send({"type": "websocket.accept"})
    wire = wire_for(send)
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            wire.release()
            return
        order = orjson.loads(message["text"])
        if "send" in order:
            for number, size in enumerate(order["send"]):
                wire.send([Frame(f"{number:09}".encode() + b"x" * (size - 9))])
        elif "mixed" in order:
            for number in range(order["mixed"]):
                if number % 2:
                    wire.send([frame({"n": number})])
                else:
                    await send({"type": "websocket.send", "text": f'{{"n":{number}}}'})
        elif "close" in order:
            wire.close(order["close"])
        else:
            await asyncio.sleep(0)
            told = {"wire": type(wire).__name__, "waiting": wire.waiting(), "taken": wire.taken(), **counters.json()}
            wire.send([frame(told)])
