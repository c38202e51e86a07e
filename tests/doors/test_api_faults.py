"""The API of a real web process whose database goes away and comes back."""

import httpx
import pytest

from tests.conftest import MakeStack
from tests.doors.callers import token_of
from tests.doors.test_api_live import client_of
from tests.support.waiting import wait_until
from tests.support.world import World


@pytest.mark.rule("M")
def test_a_database_that_is_away_is_unavailable_and_comes_back(make_stack: MakeStack) -> None:
    web = make_stack(webs=1, workers=0)
    world, token = World.create("ana"), token_of("ana")
    path = f"/sessions/{world.session}/inputs"
    with client_of(web, token) as client:
        assert client.post(path, json={"text": "one"}).status_code == 202
        web.postgres.stop()
        try:
            for answer in (
                client.post(path, json={"text": "two"}),
                client.get(f"/sessions/{world.session}/events"),
                client.get("/me"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
                assert answer.json()["retry_after"] > 0
                assert int(answer.headers["Retry-After"]) >= 1
            assert httpx.get(f"{web.url}/health/live").status_code == 200
            assert httpx.get(f"{web.url}/health/ready", timeout=20).json()["database"] is False
        finally:
            web.postgres.start()

        def accepted() -> bool:
            return client.post(path, json={"text": "three"}, headers={"Idempotency-Key": "3"}).status_code == 202

        wait_until(accepted, "an accepted input")
        ready = httpx.get(f"{web.url}/health/ready", timeout=20)
        assert (ready.status_code, ready.json()["database"]) == (200, True)
    assert [event.data["text"] for event in world.events("InputQueued")] == ["one", "three"]
