"""The whole way, through real processes: an agent asks, and a worker tells the device."""

import pytest

from tests.conftest import MakeStack
from tests.support.push_service import PushService
from tests.support.running import Running

pytestmark = pytest.mark.usefixtures("database", "redis_url")


@pytest.mark.parametrize("broker", [True, False], ids=["with Redis", "without"])
def test_a_workers_own_thread_tells_the_device(make_stack: MakeStack, service: PushService, broker: bool) -> None:
    stack = make_stack(webs=0, workers=2, env={"STEERWEB_PUSH_SERVICES": service.origin})
    service.subscribe("ana")
    if not broker:
        stack.redis.stop()
    session = Running.create("ana", model="demo:", mode="ask")
    session.submit("write a program")
    asked = session.until("GateOpened")
    [message] = service.until(1)
    assert (message.data["kind"], message.data["gate"]) == ("approval", asked.data["gate"])
    assert message.data["body"].startswith("May it ")
    session.stop()
    if not broker:
        stack.redis.start()
