"""The fast way out is really taken under Daphne, keeps order, sees what waits, and closes with the right codes."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from steerweb.services.process import Child
from tests.support import services
from tests.support.stack import free_port
from tests.support.waiting import PATIENCE_S, wait_until

BIG = 256 * 1024


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Daphne with the tiny application."""
    port, folder = free_port(), tmp_path_factory.mktemp("daphne")
    arguments = ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "tests.live.wire_app:app"]
    server = Child(
        [sys.executable, *arguments], log=folder / "daphne.log", death_signal=signal.SIGKILL, cwd=services.REPOSITORY
    )
    server.start()
    address = f"ws://127.0.0.1:{port}/"

    def answers() -> bool:
        assert server.running(), server.tail()
        try:
            with connect(address):
                return True
        except OSError:
            return False

    wait_until(answers, "an answer of Daphne")
    yield address
    server.stop(signal.SIGTERM, 5)


def order(socket: ClientConnection, **what: Any) -> None:
    socket.send(orjson.dumps(what).decode())


def tell(socket: ClientConnection) -> dict[str, Any]:
    order(socket, tell=True)
    told: dict[str, Any] = orjson.loads(socket.recv(timeout=PATIENCE_S))
    return told


@pytest.mark.rule("L3")
def test_frames_go_straight_to_the_socket_under_daphne(address: str) -> None:
    with connect(address) as socket:
        before = tell(socket)
        order(socket, send=[200] * 100)
        assert [int(socket.recv(timeout=PATIENCE_S)[:9]) for _ in range(100)] == list(range(100))
        after = tell(socket)
    assert before["wire"] == "DaphneWire"
    assert after["direct_sends"] - before["direct_sends"] == 101
    assert (after["buffered_sends"] - before["buffered_sends"], after["waiting"]) == (0, 0)


@pytest.mark.rule("L3")
@pytest.mark.parametrize("size", [9, 125, 126, 65_535, 65_536, 3 * 1024 * 1024])
def test_frames_of_every_size_class_arrive_whole(address: str, size: int) -> None:
    with connect(address, max_size=None) as socket:
        order(socket, send=[size, size])
        assert [len(socket.recv(timeout=PATIENCE_S)) for _ in range(2)] == [size, size]


@pytest.mark.rule("L3")
def test_both_ways_out_keep_one_order(address: str) -> None:
    with connect(address) as socket:
        order(socket, mixed=500)
        assert [orjson.loads(socket.recv(timeout=PATIENCE_S))["n"] for _ in range(500)] == list(range(500))


@pytest.mark.rule("L3")
def test_what_a_client_has_not_taken_is_seen_and_comes_in_order_later(address: str) -> None:
    sent = 200
    with connect(address, max_size=None, max_queue=1) as socket, connect(address) as other:
        before = tell(other)["buffered_sends"]
        order(socket, send=[BIG] * sent)
        wait_until(lambda: tell(other)["buffered_sends"] > before, "a full socket")
        order(socket, tell=True)
        frames = [socket.recv(timeout=PATIENCE_S) for _ in range(sent + 1)]
    assert [int(frame[:9]) for frame in frames[:sent]] == list(range(sent))
    told = orjson.loads(frames[sent])
    assert told["waiting"] > 0
    assert told["taken"] + told["waiting"] >= sent * BIG


@pytest.mark.rule("L3")
@pytest.mark.parametrize("code", [4401, 4403, 4404, 4408, 1013])
def test_close_codes_reach_the_client(address: str, code: int) -> None:
    with connect(address) as socket:
        order(socket, close=code)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == code


@pytest.mark.scenario("D49")
@pytest.mark.parametrize("size", [8 * 1024 * 1024 + 1, 20 * 1024 * 1024])
def test_a_frame_over_the_limit_closes_with_1009_and_one_below_does_not(address: str, size: int) -> None:
    with connect(address, max_size=None) as socket:
        socket.send('{"tell":"' + "x" * (8 * 1024 * 1024 - 20) + '"}')
        assert orjson.loads(socket.recv(timeout=PATIENCE_S))["wire"] == "DaphneWire"
        with contextlib.suppress(ConnectionClosed):  # the server may close before it has read all of it
            socket.send("x" * size)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
