"""A worker that starts with a setting that one provider cannot use: everything else of it works."""

import pytest

from tests.conftest import MakeStack
from tests.support.running import Running


@pytest.mark.rule("J1", "J6")
def test_an_address_that_is_none_costs_its_providers_turns_and_nothing_else(make_stack: MakeStack) -> None:
    environment = {"OPENAI_BASE_URL": "http://host:port/v1", "STEERWEB_DEMO_SPEED": "50"}
    stack = make_stack(webs=0, env=environment)
    asked, demo = Running.create(), Running.create(model="demo:")
    asked.submit("Hello?")
    demo.submit("Hello?")
    error = asked.until("TurnFailed").data["error"]
    assert error["code"] == "model_unknown"
    what = "OpenAI cannot be used as it is set up where the worker runs (OPENAI_BASE_URL): "
    assert error["detail"].startswith(what)
    demo.until("TurnDone")
    assert stack.worker.running()
