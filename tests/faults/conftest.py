"""What the tests of faults share."""

from collections.abc import Iterator

import pytest

from tests.support.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A scripted model server; at the end no history was ever refused."""
    with ModelServer() as server:
        yield server
        assert server.violations == []
