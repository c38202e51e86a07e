"""Hearing of stops: LISTEN for the fast way, a query a second behind it for every bell that was missed (L5).

The warden hears by itself, so a stop kills within milliseconds even when the worker's event loop is busy. While
PostgreSQL is away nobody can ask for a stop either; the first thing after it is back is the query.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

import orjson
import psycopg
from psycopg.conninfo import make_conninfo

from sessions_app.log.peers import NOTICE_DEAD_PEERS

CHANNEL: Final = "steerweb_stop"
_MARKED: Final = "SELECT turn::text FROM turn_mark WHERE worker = %s::uuid"
_LATEST_RETRY_S: Final = 1.0


async def hear_stops(worker: str, database_url: str, poll_s: float, on_marked: Callable[[list[str]], None]) -> None:
    """Call `on_marked` with marked turns, again while they stay marked; for ever, whatever the database does."""
    pause_s, lost = 0.05, False
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(
                make_conninfo(database_url, application_name="steerweb warden", **NOTICE_DEAD_PEERS), autocommit=True
            ) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                pause_s, lost = 0.05, False
                while True:
                    rows = await (await connection.execute(_MARKED, (worker,))).fetchall()
                    on_marked([row[0] for row in rows])
                    async for notice in connection.notifies(timeout=poll_s):
                        on_marked(_turns(notice.payload))
        except (psycopg.Error, OSError) as error:
            if not lost:
                sys.stderr.write(f"warden {worker}: PostgreSQL is away: {error}\n")
            lost = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LATEST_RETRY_S)


def _turns(payload: str) -> list[str]:
    """The turns a bell names; none for one that cannot be read, since the query finds them all the same."""
    try:
        turns = orjson.loads(payload)["turns"]
        return [turn for turn in turns if isinstance(turn, str)]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []
