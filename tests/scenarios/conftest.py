"""One real worker and one scripted model server for all tests of a file: sessions are separate, starting is not."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conftest import note_stack, point_at
from tests.support import services
from tests.support.model_server import ModelServer
from tests.support.stack import Stack, stack_folder


@pytest.fixture(scope="module")
def shared_server() -> Iterator[ModelServer]:
    """The scripted model server of this file."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def worker(
    request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker, shared_server: ModelServer
) -> Iterator[Stack]:
    """A stack with a worker and without a web process, on a database of this file."""
    with services.clone() as url, django_db_blocker.unblock(), point_at(url):
        name = request.module.__name__.rpartition(".")[2]
        stack = Stack(url, services.clean_redis(), stack_folder(f"shared-{name}"), shared_server.environ())
        note_stack(request.node, stack)
        try:
            stack.start_worker()
            yield stack
        finally:
            stack.stop()


@pytest.fixture
def server(worker: Stack, shared_server: ModelServer) -> Iterator[ModelServer]:
    """The model server, with nothing of the tests before; at the end no history was ever refused."""
    shared_server.forget()
    yield shared_server
    assert shared_server.violations == []
