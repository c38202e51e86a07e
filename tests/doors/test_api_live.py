"""The API of a real web process: who waits where, who goes away, and what a database that is away does."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from sessions_app.ids import new_id
from tests.doors.callers import token_of
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from tests.support.world import World


def client_of(stack: Stack, token: str, timeout_s: float = 30) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{stack.url}/api/v1", headers=headers, timeout=timeout_s)


def stop_of(world: World) -> str:
    return f"/sessions/{world.session}/interrupt"


@pytest.mark.rule("E9", "E11")
def test_a_stop_is_not_queued_behind_stops_that_wait(web: Stack) -> None:
    stuck, other, token = World.create("ana"), World.create("ana"), token_of("ana")
    stuck.start()
    other.start()
    with client_of(web, token) as client, ThreadPoolExecutor(max_workers=30) as pool:
        waiting = [pool.submit(client.post, stop_of(stuck), json={"wait": 20}) for _ in range(25)]
        wait_until(lambda: stuck.events("InterruptRequested"), "the mark")
        answer = client.post(stop_of(other), json={"wait": 0}, timeout=3)
        assert (answer.status_code, answer.json()["turns"]) == (202, [other.turn])
        assert client.get("/sessions/" + other.session + "/state", timeout=3).status_code == 200
        stuck.end()
        answers = [future.result().json() for future in waiting]
    assert sorted(answer["stopped"] for answer in answers) == [False] * 24 + [True]


@pytest.mark.rule("E2", "E4")
def test_a_client_that_goes_away_changes_nothing(web: Stack) -> None:
    world, token = World.create("ana"), token_of("ana")
    world.start()
    with client_of(web, token, timeout_s=0.5) as client, pytest.raises(httpx.ReadTimeout):
        client.post(stop_of(world), json={"wait": 10}, headers={"Idempotency-Key": "gone"})
    assert world.state()["turn"]["mark"] is not None
    world.end()
    with client_of(web, token) as client:
        again = client.post(stop_of(world), json={"wait": 10}, headers={"Idempotency-Key": "gone"})
    assert (again.status_code, again.json()["stopped"]) == (200, True)


@pytest.mark.rule("B1", "M")
def test_large_bodies_pass_the_real_server(web: Stack) -> None:
    world, limit = World.create("ana"), 1024 * 1024
    with client_of(web, token_of("ana")) as client:
        path = f"/sessions/{world.session}/inputs"
        assert client.post(path, json={"text": "a" * limit}).status_code == 202
        over = client.post(path, json={"text": "a" * (limit + 1)})
        assert (over.status_code, over.json()["code"], over.json()["size"]) == (413, "too_large", limit + 1)
        unannounced = client.post(path, content=(b"a" * 65536 for _ in range(129)))
        assert (unannounced.status_code, unannounced.json()["code"]) == (413, "too_large")


@pytest.mark.rule("M")
def test_a_database_that_is_away_is_unavailable_and_comes_back(web: Stack) -> None:
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


@pytest.mark.rule("M")
def test_bursts_of_reads_and_commands_are_not_limited(web: Stack) -> None:
    world = World.create("ana")
    with client_of(web, token_of("ana")) as client, ThreadPoolExecutor(max_workers=8) as pool:
        reads = [pool.submit(client.get, f"/sessions/{world.session}/state") for _ in range(50)]
        commands = [
            pool.submit(client.post, f"/sessions/{world.session}/steers", json={"text": f"{new_id()}"})
            for _ in range(10)
        ]
        assert {future.result().status_code for future in reads} == {200}
        assert {future.result().status_code for future in commands} == {202}
