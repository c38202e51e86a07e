"""The API of a real web process: who waits where, and who goes away."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from sessions_app.ids import new_id
from tests.doors.callers import token_of
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from tests.support.world import World

MOST = 16 * 1024 * 1024
"""Bytes of a body that the web server keeps."""


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
def test_of_a_body_that_no_door_takes_nothing_is_stored_beyond_what_one_might(web: Stack) -> None:
    world, size = World.create("ana"), 3 * MOST
    where = urlsplit(web.url)
    lines = (
        f"POST /api/v1/sessions/{world.session}/files HTTP/1.1", f"Host: {where.netloc}", f"Content-Length: {size}",
        "Content-Type: multipart/form-data; boundary=x", "Connection: close", "", "",
    )  # fmt: skip
    with socket.create_connection((where.hostname or "", where.port or 0)) as raw:
        raw.sendall("\r\n".join(lines).encode() + b"x" * (size - 1))  # nobody has signed in
        assert largest_open_file(web.web.pid) <= MOST
        raw.sendall(b"x")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert (json.loads(body)["code"], json.loads(body)["size"]) == ("too_large", size)
    with client_of(web, token_of("ana")) as client:  # one of unknown length, and then another on the same connection
        unannounced = client.post(f"/sessions/{world.session}/inputs", content=(b"a" * 65536 for _ in range(257)))
        assert (unannounced.status_code, unannounced.json()["size"]) == (413, 257 * 65536)
        assert client.get(f"/sessions/{world.session}/state").status_code == 200


def largest_open_file(pid: int | None) -> int:
    """Of those that a process has open, in bytes; the last of a body may be in the connection's buffers yet."""
    return max(each.stat().st_size for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_file())


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
