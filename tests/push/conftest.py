"""A push service on this machine that the server may use."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.support.push_service import PushService


@pytest.fixture
def service(settings: Settings) -> Iterator[PushService]:
    made = PushService()
    settings.STEERWEB_PUSH_SERVICES = frozenset({made.origin})
    yield made
    made.close()
