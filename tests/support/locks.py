"""A session's row lock in a test's hand: whoever wants to change the session waits at a known place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import psycopg

from tests.support.waiting import wait_until

_LOCK = "SELECT 1 FROM session WHERE id = %s FOR UPDATE"
# Those who wait for a row's lock wait for whoever has it, or, with the place behind the first of them, for that one.
_WAITERS = """SELECT pid, pg_blocking_pids(pid), application_name FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""
_COMMANDS = "steerweb write"
"""The connections on which commands and reports change a session."""


@dataclass
class Lock:
    """The lock of one session, held until the end of the block that made it."""

    connection: psycopg.Connection[Any]
    looking: psycopg.Connection[Any]

    def wait_for_another(self) -> None:
        """Wait until a command wants the lock. The limit of 2 s ends that wait, and it is tried again (A8)."""
        wait_until(self._wanted, "another one's wait for the lock")

    def _wanted(self) -> bool:
        own = self.connection.info.backend_pid
        waiters = self.looking.execute(_WAITERS).fetchall()
        return any(own in holders and name == _COMMANDS for _, holders, name in waiters)


@contextmanager
def held_once(database: str, session: str, begin: Callable[[], None], happened: Callable[[], bool]) -> Iterator[Lock]:
    """Hold the session from the very moment at which it `happened`: nothing comes between. `begin` sets it off.

    PostgreSQL gives a row to those who wait for it in the order they came: the test holds it, another one comes, the
    test comes again behind it with a second connection, and then lets go with the first. Who has waited for 2 s gives
    its place up and comes again behind the test, and somebody else may have been there before: then the test lets go
    once more in the same way. `happened` reads what is committed.
    """
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
        psycopg.connect(database, autocommit=True) as looking,
    ):
        holding, coming = first, second
        holding.execute(_LOCK, [session])
        begin()
        while True:
            Lock(holding, looking).wait_for_another()
            _change_hands(holding, coming, looking, session)
            holding, coming = coming, holding
            if happened():
                break
        yield Lock(holding, looking)
        holding.rollback()


def _change_hands(
    holding: psycopg.Connection[Any], coming: psycopg.Connection[Any], looking: psycopg.Connection[Any], session: str
) -> None:
    behind = Thread(target=coming.execute, args=(_LOCK, [session]))
    behind.start()
    pid = coming.info.backend_pid
    wait_until(
        lambda: any(pid == waiter for waiter, _, _ in looking.execute(_WAITERS)), "the test's place in the queue"
    )
    holding.rollback()
    behind.join(30)
    assert not behind.is_alive()
