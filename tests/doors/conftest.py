"""A session for tests of the doors."""

import pytest

from tests.support.world import World


@pytest.fixture
def world(database: str, redis_url: str) -> World:
    """A session of ana's, who made it."""
    return World.create("ana")
