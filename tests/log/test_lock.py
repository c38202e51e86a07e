"""The session's lock, and the clock that is read under it."""

import threading

import psycopg
import pytest

from sessions_app.log import db
from sessions_app.log.append import Locked, lock
from tests.support.waiting import wait_until
from tests.support.world import World

_WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.rule("A1", "A7")
@pytest.mark.usefixtures("redis_url")
@pytest.mark.parametrize("changes", [False, True])
def test_who_waited_for_the_lock_has_a_time_from_after_the_wait(database: str, changes: bool) -> None:
    world = World.create("ana")
    got: list[Locked] = []

    def take() -> None:
        with db.cursor("write") as cur:
            got.append(lock(cur, world.session))

    with psycopg.connect(database) as first, psycopg.connect(database, autocommit=True) as looks:
        first.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", [world.session])
        if changes:
            first.execute("UPDATE session SET active_at = now() WHERE id = %s", [world.session])
        thread = threading.Thread(target=take)
        thread.start()
        wait_until(lambda: looks.execute(_WAITS).fetchone(), "the second wait for the lock")
        row = looks.execute("SELECT clock_timestamp()").fetchone()
        first.commit()
        thread.join()
    assert row is not None and got[0].at > row[0]
