"""Connections for the log, apart from Django's own.

Three small pools. `write` connections hold session locks, so the server itself ends whatever they do after 2 s (A8).
`stop` connections are the same, kept for stops alone: a full pool never delays one (E11). `read` has no such limits.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import orjson
from psycopg import Connection, Cursor, OperationalError, errors
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from sessions_app.engine.errors import Refused
from sessions_app.log.peers import NOTICE_DEAD_PEERS

LOCK_LIMIT_MS: Final = 2000
LOST: Final = (OperationalError, errors.TransactionTimeout, errors.IdleInTransactionSessionTimeout)
"""The database went away, or ended a transaction that took too long (A8): it may be tried again."""
Purpose = Literal["write", "stop", "read"]
Row = tuple[Any, ...]
_SIZES: Final[dict[str, int]] = {"write": 10, "stop": 4, "read": 6}

_pools: dict[str, ConnectionPool[Connection[Row]]] = {}
_url: str | None = None
_guard = threading.Lock()

set_json_loads(orjson.loads)
set_json_dumps(orjson.dumps)


def configure(url: str) -> None:
    """Use another database from now on; open connections to the old one are closed."""
    global _url
    with _guard:
        _url = url
        old = list(_pools.values())
        _pools.clear()
    for pool in old:
        pool.close(timeout=1)


def _limits(connection: Connection[Row]) -> None:
    connection.execute(f"SET statement_timeout = {LOCK_LIMIT_MS}")
    connection.execute(f"SET idle_in_transaction_session_timeout = {LOCK_LIMIT_MS}")
    if connection.info.server_version >= 170000:
        connection.execute(f"SET transaction_timeout = {LOCK_LIMIT_MS}")
    # All is looked up by key here; left to itself the server plans the permission's query anew each time, for 1 ms.
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.commit()


def _pool(purpose: Purpose) -> ConnectionPool[Connection[Row]]:
    pool = _pools.get(purpose)
    if pool is not None:
        return pool
    with _guard:
        if purpose not in _pools:
            _pools[purpose] = ConnectionPool(
                _url or _settings_url(),
                connection_class=Connection[Row],
                min_size=1,
                max_size=_SIZES[purpose],
                timeout=5,
                reconnect_timeout=30,
                max_idle=60,
                check=ConnectionPool.check_connection if purpose == "read" else None,
                configure=None if purpose == "read" else _limits,
                kwargs={"application_name": f"steerweb {purpose}", **NOTICE_DEAD_PEERS},
                open=True,
                name=purpose,
            )
        return _pools[purpose]


def _settings_url() -> str:
    from django.conf import settings

    return str(settings.DATABASE_URL)


@contextmanager
def cursor(purpose: Purpose, *, together: bool = False) -> Iterator[Cursor[Row]]:
    """A cursor in a transaction of its own: committed at the end, rolled back on an exception.

    `together`: what is executed is kept back until something is fetched, and all that is left goes with the commit;
    each trip to the server saved is saved while a session's lock is held. An error of a statement that nothing was
    fetched of is raised at the end, and no `rowcount` is known. Refused `unavailable` when no connection can be had in
    5 s.
    """
    pool = _pool(purpose)
    connection: Connection[Row] | None = None
    try:
        with pool.connection() as connection, connection.cursor() as cur:
            if not together:
                yield cur
                return
            with connection.pipeline():
                yield cur
                cur.execute("COMMIT", prepare=False)
    except PoolTimeout as error:
        raise Refused("unavailable", "The database cannot be reached.", retry_after=2) from error
    except LOST:
        if connection is not None and connection.closed:
            pool.check()  # a server that restarted has cut the others of the pool too: do not find out one by one
        raise
