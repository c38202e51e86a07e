"""The subscription survives whatever Redis does, and knows when it hears nothing (L5, D33)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import redis

from sessions_app.live.hearing import SILENCE_S, Hearing
from tests.support import services
from tests.support.waiting import PATIENCE_S, wait_until_async

ALWAYS = "always"


class Listener:
    """A hearing and what it has heard."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.heard: list[tuple[str, bytes]] = []
        self.turns: list[bool] = []
        self.hearing = Hearing(url, ALWAYS, lambda channel, data: self.heard.append((channel, data)), self.turns.append)

    async def until_up(self, up: bool, timeout_s: float = PATIENCE_S) -> None:
        async def turned() -> bool:
            return self.hearing.up is up

        await wait_until_async(turned, f"up being {up}", timeout_s)

    def say(self, channel: str, data: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.publish(channel, data)

    async def until_heard(self, channel: str, data: str) -> None:
        async def found() -> bool:
            return (channel, data.encode()) in self.heard

        await wait_until_async(found, f"{data} on {channel}")


@pytest.fixture
async def listener(redis_url: str) -> AsyncIterator[Listener]:
    listener = Listener(redis_url)
    running = asyncio.create_task(listener.hearing.run())
    await listener.until_up(True)
    yield listener
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.rule("L5")
async def test_a_channel_is_heard_as_soon_as_it_was_wanted(listener: Listener) -> None:
    for number in range(50):
        await listener.hearing.want(f"c{number}")
        listener.say(f"c{number}", "hello")
        await listener.until_heard(f"c{number}", "hello")
    await listener.hearing.unwant("c7")
    await listener.hearing.want("c7")
    listener.say("c7", "again")
    await listener.until_heard("c7", "again")


@pytest.mark.rule("L5")
@pytest.mark.scenario("D33")
async def test_after_several_failed_attempts_everything_wanted_is_subscribed_again(listener: Listener) -> None:
    await listener.hearing.want("before")
    services.valkey().stop()
    await listener.until_up(False)
    await listener.hearing.want("meanwhile")
    await listener.hearing.unwant("nothing")
    services.valkey().start()
    await listener.until_up(True)
    for channel in (ALWAYS, "before", "meanwhile"):
        listener.say(channel, "back")
        await listener.until_heard(channel, "back")
    assert listener.turns == [True, False, True]


@pytest.mark.rule("L5")
async def test_a_redis_that_holds_connections_but_does_not_answer_counts_as_gone(listener: Listener) -> None:
    await listener.hearing.want("before")
    pid = services.valkey().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await listener.until_up(False, 2 * SILENCE_S + 5)
        await asyncio.wait_for(listener.hearing.want("meanwhile"), 5)
    finally:
        os.kill(pid, signal.SIGCONT)
    await listener.until_up(True)
    for channel in (ALWAYS, "before", "meanwhile"):
        listener.say(channel, "back")
        await listener.until_heard(channel, "back")
