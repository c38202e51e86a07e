"""Where the event loop sends work that waits for PostgreSQL: small pools of threads, one per purpose.

Stops have a pool (and connections, see `log.db`) of their own, so that no number of other commands delays one (E11).
Who comes in, and the hub's own reads, do not stand behind the replays of others: whoever comes in may be about to stop
something. The three that read have as many threads as there are connections for reading.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import cache
from typing import Final, ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")


class Pool(StrEnum):
    """What a thread is for."""

    COMMANDS = "commands"
    STOPS = "stops"
    ENTRY = "entry"
    REPLAYS = "replays"
    HUB = "hub"


THREADS: Final = {Pool.COMMANDS: 8, Pool.STOPS: 4, Pool.ENTRY: 2, Pool.REPLAYS: 2, Pool.HUB: 2}


@cache
def _executor(pool: Pool) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS[pool], thread_name_prefix=pool)


async def in_thread(pool: Pool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in one of the pool's threads; its connections of the ORM are looked after."""

    def call() -> T:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_executor(pool), call)
