"""This process's one Redis subscription: which channels it hears, and whether it hears at all (L5, D33).

The set of wanted channels is the truth: whatever happens to a connection, the next one subscribes to all of them before
it counts as up. A server that holds connections but does not answer (frozen) is found out by a ping. Connections never
repair themselves behind our back: what was published meanwhile is lost, and the hub has to know.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sessions_app.live.counters import counters

CONNECT_S: Final = 1.0
SILENCE_S: Final = 2.0
"""After so long without a message a ping is sent, and has as long to be answered."""
SUBSCRIBED_S: Final = 1.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0
LOST: Final = (RedisError, OSError, TimeoutError)

log = logging.getLogger(__name__)


def connect(url: str) -> Redis:
    """A client that fails within a second and never tries again by itself."""
    return Redis.from_url(
        url, socket_timeout=CONNECT_S, socket_connect_timeout=CONNECT_S, retry=Retry(NoBackoff(), 0), protocol=2
    )


class Hearing:
    """Hears the wanted channels: `heard(channel, data)` gets each message, `turned(up)` each change of `up`."""

    def __init__(
        self, url: str, always: str, heard: Callable[[str, bytes], None], turned: Callable[[bool], None]
    ) -> None:
        self.up = False
        self._url = url
        self._heard = heard
        self._turned = turned
        self._wanted = {always}
        self._asked: set[str] = set()
        self._confirmed: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._asking = asyncio.Lock()
        self._pubsub: PubSub | None = None
        self._broken = False

    async def want(self, channel: str) -> None:
        """Hear a channel from now on. Returns once it is heard; at once while deaf, for then it will be later."""
        self._wanted.add(channel)
        if not self.up or channel in self._confirmed:
            return
        waiting = self._waiting.setdefault(channel, asyncio.get_running_loop().create_future())
        await self._ask()
        await asyncio.wait([waiting], timeout=SUBSCRIBED_S)

    async def unwant(self, channel: str) -> None:
        """Stop hearing a channel."""
        self._wanted.discard(channel)
        await self._ask()

    async def run(self) -> None:
        """Connect, hear, and begin again with a growing pause, until cancelled."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._hear_until_lost()
            except LOST as error:
                log.warning("Redis cannot be heard: %s", error)
            finally:
                was_up, self.up = self.up, False
                self._release()
            if was_up:
                pause = FIRST_PAUSE_S
                counters.bell_lost += 1
                self._turned(False)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _hear_until_lost(self) -> None:
        client = connect(self._url)
        try:
            async with client.pubsub() as pubsub:
                self._pubsub, self._broken = pubsub, False
                self._asked, self._confirmed = set(), set()
                await self._ask()
                pinged = False
                while not self._broken:
                    message = await pubsub.get_message(timeout=SILENCE_S)
                    if message is not None:
                        pinged = False
                        self._take(message)
                        if self._wanted != self._asked:
                            await self._ask()
                    elif pinged:
                        raise TimeoutError("it does not answer")
                    else:
                        await pubsub.ping()
                        pinged = True
        finally:
            self._pubsub = None
            await client.aclose()
        raise ConnectionError("a subscription could not be sent")

    def _take(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "message":
            self._heard(message["channel"].decode(), message["data"])
        elif kind == "subscribe":
            channel = message["channel"].decode()
            self._confirmed.add(channel)
            if waiting := self._waiting.pop(channel, None):
                waiting.set_result(None)
            if not self.up and self._asked <= self._confirmed:
                self.up = True
                counters.bell_connected += 1
                self._turned(True)
        elif kind == "unsubscribe":
            self._confirmed.discard(message["channel"].decode())

    async def _ask(self) -> None:
        """Tell the server what is wanted now; one at a time, so that it hears the changes in their order."""
        async with self._asking:
            pubsub = self._pubsub
            if pubsub is None:
                return
            try:
                if more := self._wanted - self._asked:
                    self._asked |= more
                    await pubsub.subscribe(*more)
                if less := self._asked - self._wanted:
                    self._asked -= less
                    self._confirmed -= less
                    await pubsub.unsubscribe(*less)
            except LOST:
                self._broken = True  # the reader ends this connection, also if redis-py has made a new one meanwhile
                self._release()

    def _release(self) -> None:
        """Nobody waits for the confirmation of a connection that is lost."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()
