"""`steerweb up` as a person meets it: one sentence when it cannot start, nothing left behind when it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from steerweb.runtime import read_record
from tests.support.model_server import ModelServer, call, say
from tests.support.running import MODEL
from tests.support.services import REPOSITORY
from tests.support.waiting import wait_until

FIRST_START_S = 120
PARTS = ("bin/postgres -D", "valkey-server", "steerweb web", "steerweb worker", "steerweb warden")


def environment(**more: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    return {**ours, **more}


def up_argv(data: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "steerweb", "up", "--data", str(data), *arguments]


def refusal(argv: list[str], **env: str) -> str:
    """Run an `up` that cannot start; the one sentence it says."""
    done = subprocess.run(
        argv, env=environment(**env), cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("steerweb: ")
    return done.stderr.removeprefix("steerweb: ").strip()


class RunningUp:
    """An `up` in the background and what it printed."""

    def __init__(self, data: Path, *arguments: str, **env: str) -> None:
        self.data = data
        self.output = data.with_name(f"{data.name}.out")
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                up_argv(data, "--port", "0", *arguments),
                env=environment(**env), cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def wait_for(self, words: str, timeout_s: float = FIRST_START_S) -> str:
        """What it printed so far, once `words` are among it."""

        def printed() -> str:
            text = self.output.read_text()
            assert words in text or self.process.poll() is None, f"up ended:\n{text}"
            return text if words in text else ""

        return wait_until(printed, repr(words), timeout_s)

    def children(self) -> dict[str, psutil.Process]:
        """All its descendants by what they are."""
        found: dict[str, psutil.Process] = {}
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue  # it ended, or is being started, at this moment
            for name in PARTS:
                if name in line:
                    found[name] = process
        return found

    def wait_until_complete(self) -> dict[str, psutil.Process]:
        """All its descendants, once it is ready and every part is there."""
        self.wait_for("Ctrl-C stops everything.")
        wait_until(lambda: len(self.children()) == len(PARTS), "every part")
        return self.children()

    def url(self) -> str:
        record = read_record(self.data)
        assert record is not None
        return record.url

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(40)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    """An `up` that several tests look at."""
    running = RunningUp(tmp_path_factory.mktemp("up") / "data")
    running.wait_until_complete()
    yield running
    running.end()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_it_prints_a_link_that_signs_in_once(up: RunningUp) -> None:
    link = re.search(r"http://127\.0\.0\.1:\d+/signin/\S+", up.output.read_text())
    assert link
    assert httpx.get(link[0]).is_redirect
    assert not httpx.get(link[0]).is_redirect


def test_a_second_up_on_the_same_data_names_the_first(up: RunningUp) -> None:
    sentence = refusal(up_argv(up.data, "--port", "0"))
    assert sentence == f"steerweb is already running on {up.data}, at {up.url()} (process {up.process.pid})."


@pytest.mark.parametrize("name", ["steerweb web", "steerweb worker", "valkey-server", "bin/postgres -D"])
def test_what_dies_is_started_again(up: RunningUp, name: str) -> None:
    victim = up.wait_until_complete()[name]  # one look while something starts may miss a part
    victim.kill()
    wait_until(lambda: name in up.children() and up.children()[name].pid != victim.pid, f"another {name}")
    wait_until(lambda: answers(up.url()), "an answer")


def test_everything_ends_with_a_killed_up_and_the_next_one_goes_on_and_stops_in_order(tmp_path: Path) -> None:
    up = RunningUp(tmp_path / "data")
    processes = up.wait_until_complete()
    # With nothing left to guard, it waits a little for a database that takes its report.
    warden = processes.pop("steerweb warden")
    up.process.kill()
    up.process.wait()
    psutil.wait_procs(processes.values(), timeout=10)
    assert [name for name, process in processes.items() if process.is_running()] == []

    again = RunningUp(up.data)
    processes = again.wait_until_complete()
    assert answers(again.url())
    wait_until(lambda: not warden.is_running(), "the warden's end")
    again.end()
    assert again.process.returncode == 0
    wait_until(lambda: not any(process.is_running() for process in processes.values()), "the end of all processes")
    assert read_record(up.data) is None
    assert again.output.read_text().endswith("Stopped.\n")


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = refusal(up_argv(tmp_path / "data", "--port", str(port)))
    assert sentence.startswith(f"Port {port} is taken by another program; choose another one, such as --port ")
    assert not (tmp_path / "data" / "postgres").exists()


def can_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("mount", "sentence"),
    [
        ("mount -t tmpfs -o ro none {data}", "{data} is on a read-only disk; choose another directory with --data."),
        (
            "mount -t tmpfs -o size=1m none {data} && ! cat /dev/zero 2>/dev/null >{data}/full",
            "The disk that holds {data} is full; free some space or choose another directory with --data.",
        ),
        (
            "mount -t tmpfs -o size=100m none {data}",
            (
                "The disk that holds {data} is nearly full: 99 MiB are free and 200 MiB are needed; "
                "free some space or choose another directory with --data."
            ),
        ),
    ],
    ids=["read-only", "full", "too small"],
)
def test_a_disk_that_takes_nothing_is_named(tmp_path: Path, mount: str, sentence: str) -> None:
    if not can_mount():
        pytest.skip("needs the right to mount")
    data = tmp_path / "data"
    data.mkdir()
    script = mount.format(data=data) + ' && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *up_argv(data, "--port", "0")]
    assert refusal(argv) == sentence.format(data=data)


def test_a_database_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    argv = up_argv(tmp_path / "data", "--port", "0")
    sentence = refusal(argv, DATABASE_URL="postgresql://ana@/none?host=/nonexistent")
    assert sentence.startswith("The database of DATABASE_URL cannot be used: ")


def test_an_address_that_does_not_lead_here_is_reported(tmp_path: Path) -> None:
    wrong = RunningUp(tmp_path / "wrong", "--url", "http://127.0.0.1:9")
    try:
        text = wrong.wait_for("nobody can use it yet")
        assert "http://127.0.0.1:9/signin/" in text
        assert re.search(r"http://127\.0\.0\.1:9 does not answer \(.+\): nobody can use it yet", text)
    finally:
        wrong.end()


def test_in_the_network_it_says_that_its_address_leads_here(tmp_path: Path) -> None:
    from steerweb.up.address import lan_address

    address = lan_address()
    if address is None:
        pytest.skip("this machine is in no network")
    lan = RunningUp(tmp_path / "data", "--lan")
    try:
        text = lan.wait_for("leads here")
        assert f"http://{address}:" in text
        assert "█" in text  # the QR code of the link, also without a terminal
        assert answers(lan.url())
    finally:
        lan.end()


def steerweb(data: Path, *arguments: str, **env: str) -> str:
    """One of the commands beside a running `up`; what it printed."""
    argv = [sys.executable, "-m", "steerweb", *arguments]
    done = subprocess.run(
        argv, env=environment(STEERWEB_DATA=str(data), **env), cwd=REPOSITORY, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def rows(data: Path, query: str) -> list[tuple[Any, ...]]:
    record = read_record(data)
    assert record is not None
    with psycopg.connect(record.database_url) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.rule("J4", "E8")
def test_a_drained_worker_has_a_successor_at_once_and_ctrl_c_says_what_it_waits_for(
    tmp_path: Path, server: ModelServer
) -> None:
    server.script([call("shell", command="sleep 1000")], [say("Hello.")])
    up = RunningUp(tmp_path / "data", **server.environ())
    again = None
    try:
        up.wait_until_complete()
        name = rows(up.data, "SELECT username FROM person")[0][0]
        token = steerweb(up.data, "token", "create", "--user", name, "--name", "test")
        auto = ("new", "--model", MODEL, "--mode", "auto")
        session = steerweb(up.data, *auto, "--title", "The long one", STEERWEB_TOKEN=token)
        steerweb(up.data, "send", session, "Go.", STEERWEB_TOKEN=token)
        command = "SELECT w.id FROM running_turn r JOIN worker w ON w.id = r.worker WHERE phase = 'tool'"
        wait_until(lambda: rows(up.data, command), "the long command")
        [[first]] = rows(up.data, command)
        assert "1 turn, 1 in a command" in steerweb(up.data, "drain", "--timeout", "0")
        up.wait_for("another one starts in its place")
        wait_until(lambda: rows(up.data, "SELECT 1 FROM worker WHERE NOT draining"), "its successor")
        assert rows(up.data, command) == [(first,)], "the command goes on where it is"
        other = steerweb(up.data, *auto, STEERWEB_TOKEN=token)
        steerweb(up.data, "send", other, "Go.", STEERWEB_TOKEN=token)
        started = f"SELECT 1 FROM event WHERE type = 'TurnStarted' AND session_id = '{other}'"
        wait_until(lambda: rows(up.data, started), "a turn of another session")
        up.process.send_signal(signal.SIGINT)
        up.wait_for("The long one")
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(40) == 0
        again = RunningUp(up.data)
        again.wait_until_complete()
        query = f"SELECT facts FROM event WHERE type = 'TurnInterrupted' AND session_id = '{session}'"
        assert [b"worker_shutdown" in facts for (facts,) in rows(up.data, query)] == [True]
    finally:
        for running in filter(None, (again, up)):
            if running.process.poll() is None:
                running.end()
