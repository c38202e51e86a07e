"""A web process and a session for tests of the doors; a test that plays the worker needs no other."""

import pytest

from tests.conftest import MakeStack
from tests.support.stack import Stack
from tests.support.world import World


@pytest.fixture
def web(make_stack: MakeStack) -> Stack:
    """One web process; the test plays the worker."""
    return make_stack(webs=1, workers=0)


@pytest.fixture
def world(database: str, redis_url: str) -> World:
    """A session of ana's, who made it."""
    return World.create("ana")
