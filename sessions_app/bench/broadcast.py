"""The floor of fan-out: a plain `websockets` server that broadcasts one text to all its clients, and nothing else.

`python -m sessions_app.bench.broadcast FD` serves on a listening socket. Asked with `{"text", "count", "per_s"}` it
sends the text so often, with an instant in place of `@`, and answers when it has.
"""

import asyncio
import socket
import sys
import time

from websockets.asyncio.server import ServerConnection, broadcast, serve

from sessions_app.bench.helper import hear, say
from sessions_app.bench.watchers import instant


async def _main(descriptor: int) -> None:
    clients: set[ServerConnection] = set()

    async def greet(client: ServerConnection) -> None:
        clients.add(client)
        await client.send('{"t":"caught_up","seq":0}')
        await client.wait_closed()
        clients.discard(client)

    async with serve(greet, sock=socket.socket(fileno=descriptor)):
        say("ready")
        while (asked := await asyncio.to_thread(hear)) is not None:
            began = time.monotonic()
            for number in range(asked["count"]):
                await asyncio.sleep(max(0.0, began + number / asked["per_s"] - time.monotonic()))
                broadcast(clients, asked["text"].replace("@", instant()))
            say("sent")


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
