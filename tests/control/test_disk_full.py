"""A full disk in the middle of a transaction: a clear error, nothing half-written, and all is well afterwards (A1)."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from sessions_app.engine.errors import Refused
from sessions_app.log import chain
from tests.support.world import World

FILL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON event FOR EACH ROW WHEN (NEW.type = 'TurnInterrupted')
    EXECUTE FUNCTION full_disk();
"""
"""The server's own error, at the third event of a stop's end; a disk that is really full cannot be had everywhere."""


@contextmanager
def full(database: str) -> Iterator[None]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(FILL)
        yield
        connection.execute("DROP TRIGGER full_disk ON event; DROP FUNCTION full_disk()")


@pytest.mark.rule("A1", "M")
@pytest.mark.usefixtures("redis_url")
def test_nothing_of_the_transaction_is_written_and_the_same_report_lands_later(database: str) -> None:
    world = World.create()
    world.start()
    world.plan("a")
    world.start_tool("a")
    world.submit("next")
    world.stop(queue="hold")
    before = world.types()
    with full(database):
        with pytest.raises(Refused) as refused:
            world.end()
        assert (refused.value.code, refused.value.retry_after) == ("unavailable", 10)
        assert "disk is full" in refused.value.detail
        assert world.types() == before
        assert list(chain.verify(world.session)) == []
        assert world.state()["turn"]["mark"] is not None, "the stop stands"
    world.end()
    assert world.types(len(before)) == ["ToolSettled", "TurnInterrupted", "InputHeld", "LoopIdle", "SessionIdle"]
    assert list(chain.verify(world.session)) == []
