"""Where the event loop sends work that waits for PostgreSQL: small pools of threads, one per purpose.

Stops have a pool (and connections, see `log.db`) of their own, so that no number of other commands delays one (E11);
the hub's own reads do not stand behind the replays of clients.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import cache
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")


class Pool(Enum):
    """A purpose and its number of threads."""

    COMMANDS = 8
    STOPS = 4
    REPLAYS = 3
    HUB = 2


@cache
def _executor(pool: Pool) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(pool.value, thread_name_prefix=pool.name.lower())


async def in_thread(pool: Pool, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in one of the pool's threads; its connections of the ORM are looked after."""

    def call() -> T:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_executor(pool), call)
