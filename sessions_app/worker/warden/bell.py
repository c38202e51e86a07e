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
_TO_KILL: Final = "SELECT turn::text, call FROM background_process WHERE worker = %s::uuid AND kill_at IS NOT NULL"
_LATEST_RETRY_S: Final = 1.0


async def hear_stops(
    worker: str,
    database_url: str,
    poll_s: float,
    on_marked: Callable[[list[str]], None],
    on_kill: Callable[[list[tuple[str, str]]], None],
) -> None:
    """Call `on_marked` with marked turns and `on_kill` with (turn, call) of kept calls that are to end (E13).

    Both again while the database says so; for ever, whatever that does.
    """
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
                    rows = await (await connection.execute(_TO_KILL, (worker,))).fetchall()
                    on_kill([(turn, call) for turn, call in rows])
                    async for notice in connection.notifies(timeout=poll_s):
                        turns, calls = _heard(notice.payload)
                        on_marked(turns)
                        on_kill(calls)
        except (psycopg.Error, OSError) as error:
            if not lost:
                sys.stderr.write(f"warden {worker}: PostgreSQL is away: {error}\n")
            lost = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LATEST_RETRY_S)


def _heard(payload: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The turns and the calls a bell names; none for one that cannot be read: the queries find them all the same."""
    try:
        named = orjson.loads(payload)
        return [str(turn) for turn in named.get("turns", ())], [(str(t), str(c)) for t, c in named.get("calls", ())]
    except (AttributeError, TypeError, ValueError):
        return [], []
