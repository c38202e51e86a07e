"""The embedded PostgreSQL and Valkey: start, crash, recovery, and what a crash leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from steerweb.services import Postgres, ServiceError, Valkey
from steerweb.services.identity import SHARED
from steerweb.services.process import Identity, can_run, launcher_argv
from tests.support.waiting import wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Postgres]:
    server = Postgres(tmp_path / "data", log=tmp_path / "postgres.log", fsync=False)
    yield server
    server.stop()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = Valkey(tmp_path / "data", log=tmp_path / "valkey.log")
    yield server
    server.stop()


def remember(server: Postgres) -> None:
    with psycopg.connect(server.url("postgres")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 'still here' AS text")


def remembered(server: Postgres) -> str:
    with psycopg.connect(server.url("postgres")) as connection:
        row = connection.execute("SELECT text FROM kept").fetchone()
    assert row is not None
    return str(row[0])


def test_postgres_keeps_its_data_over_a_kill_and_a_stop(postgres: Postgres) -> None:
    postgres.start()
    remember(postgres)
    assert postgres.pid is not None
    os.kill(postgres.pid, signal.SIGKILL)
    wait_until(lambda: not postgres.running(), "the server's end")
    postgres.start()
    assert remembered(postgres) == "still here"
    postgres.stop()
    postgres.start()
    assert remembered(postgres) == "still here"


def test_postgres_listens_on_no_port_and_only_its_owner_enters_the_directory_of_its_socket(postgres: Postgres) -> None:
    postgres.start()
    with psycopg.connect(postgres.url("postgres")) as connection:
        row = connection.execute("SELECT current_setting('listen_addresses')").fetchone()
        assert row == ("",)
        sockets = Path(connection.info.host)
    assert sockets.stat().st_mode & 0o077 == 0
    postgres.stop()
    assert not sockets.exists()


def test_a_pid_file_that_names_a_stranger_does_not_stand_in_the_way(postgres: Postgres, tmp_path: Path) -> None:
    postgres.start()
    remember(postgres)
    postgres.stop()
    cluster = (tmp_path / "data" / "postgres").resolve()
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        (cluster / "postmaster.pid").write_text(f"{stranger.pid}\n{cluster}\n1700000000\n5432\n/tmp\n\n  1 2\nready\n")
        postgres.start()
        assert remembered(postgres) == "still here"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_left_by_a_crash_is_ended_before_a_new_one_starts(postgres: Postgres, tmp_path: Path) -> None:
    postgres.start()
    remember(postgres)
    successor = Postgres(tmp_path / "data", log=tmp_path / "second.log", fsync=False)
    successor.start()
    try:
        assert not postgres.running()
        assert remembered(successor) == "still here"
    finally:
        successor.stop()


def test_an_interrupted_first_start_is_begun_again(postgres: Postgres, tmp_path: Path) -> None:
    half = tmp_path / "data" / "postgres" / "base" / "1"
    half.mkdir(parents=True)
    (half / "1234").write_text("half")
    postgres.start()
    assert postgres.running()


def test_data_of_another_version_is_named_and_left_alone(postgres: Postgres, tmp_path: Path) -> None:
    postgres.start()
    postgres.stop()
    (tmp_path / "data" / "postgres" / "PG_VERSION").write_text("14\n")
    with pytest.raises(ServiceError, match=r"was written by PostgreSQL 14 and this is PostgreSQL \d+"):
        postgres.start()


@as_root
@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["reachable", "below a private directory"])
def test_as_nobody_where_namespaces_are_refused(tmp_path: Path, mode: int) -> None:
    if not can_run(["true"], Identity.NOBODY):
        pytest.skip("this machine has no user nobody")
    home = tmp_path / "home"
    home.mkdir(mode=mode)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if str(parent).startswith("/tmp/") and mode == 0o755:
            parent.chmod(0o755)
    server = Postgres(home / "data", log=tmp_path / "postgres.log", fsync=False, identity=Identity.NOBODY)
    try:
        server.start()
        remember(server)
        assert server.pid is not None
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0
        server.stop()
        server.start()
        assert remembered(server) == "still here"
    finally:
        server.stop()
        cluster = (home / "data" / "postgres").resolve()
        if cluster.is_relative_to(SHARED):
            subprocess.run(["rm", "-r", str(cluster)], check=True)


def test_valkey_keeps_its_data_over_a_kill(valkey: Valkey) -> None:
    valkey.start()
    with redis.Redis.from_url(valkey.url()) as client:
        client.set("kept", "still here")
    assert valkey.pid is not None
    os.kill(valkey.pid, signal.SIGKILL)
    wait_until(lambda: not valkey.running(), "the server's end")
    valkey.start()
    with redis.Redis.from_url(valkey.url()) as client:
        assert client.get("kept") == b"still here"


def test_a_file_valkey_cannot_read_is_set_aside(valkey: Valkey, tmp_path: Path) -> None:
    valkey.start()
    valkey.stop()
    files = tmp_path / "data" / "valkey" / "appendonlydir"
    for path in files.glob("*.incr.aof"):
        path.write_bytes(b"this is no append-only file\r\n" * 9)
    valkey.start()
    assert valkey.running()
    assert files.with_name("appendonlydir.unreadable-1").exists()


PARENT = """
import sys
from pathlib import Path
from steerweb.services import Postgres, Valkey
folder = Path(sys.argv[1])
servers = [Postgres(folder, log=folder / "pg.log", fsync=False), Valkey(folder, log=folder / "kv.log")]
for server in servers:
    server.start()
print(*[server.pid for server in servers], flush=True)
sys.stdin.read()
"""


def test_both_servers_end_when_their_starter_is_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.communicate()
    wait_until(lambda: not any(alive(pid) for pid in pids), "the end of both servers")


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_child_whose_parent_is_gone_already_does_not_start(tmp_path: Path) -> None:
    argv = launcher_argv(["touch", str(tmp_path / "started")], Identity.SELF, signal.SIGKILL)
    argv[argv.index(str(os.getpid()))] = "1"
    assert subprocess.run(argv, check=False).returncode == 70
    assert not (tmp_path / "started").exists()
