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
_WAITERS = """SELECT pid, pg_blocking_pids(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@dataclass
class Lock:
    """The lock of one session, held until the end of the block that made it."""

    connection: psycopg.Connection[Any]
    looking: psycopg.Connection[Any]

    def waiting(self) -> set[int]:
        """The server's processes that wait for this lock's holder."""
        own = self.connection.info.backend_pid
        return {pid for pid, holders in self.looking.execute(_WAITERS).fetchall() if own in holders}

    def wait_for_another(self) -> None:
        """Wait until somebody wants the lock. The limit of 2 s ends that wait, and they ask again (A8)."""
        wait_until(self.waiting, "another one's wait for the lock")


@contextmanager
def held_after_the_next(database: str, session: str, begin: Callable[[], None]) -> Iterator[Lock]:
    """Let exactly one transaction of others have the session, the one that `begin` sets off, and hold it from then on.

    PostgreSQL gives a row to those who wait for it in the order they came: the test holds it, the other one comes, the
    test comes again behind it with a second connection, and then lets go with the first.
    """
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database) as second,
        psycopg.connect(database, autocommit=True) as looking,
    ):
        first.execute(_LOCK, [session])
        begin()
        held = Lock(first, looking)
        held.wait_for_another()
        behind = Thread(target=second.execute, args=(_LOCK, [session]))
        behind.start()
        wait_until(lambda: second.info.backend_pid in _all_waiting(looking), "the test's place behind the other one")
        first.rollback()
        behind.join(30)
        assert not behind.is_alive()
        yield Lock(second, looking)
        second.rollback()


def _all_waiting(looking: psycopg.Connection[Any]) -> set[int]:
    return {pid for pid, _ in looking.execute(_WAITERS).fetchall()}
