"""The whole product as real processes against a test's database: web, worker and the services beneath them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import psycopg

from steerweb.services import Postgres, Valkey
from steerweb.services.process import Child
from tests.support import early, services
from tests.support.waiting import wait_until

START_S = 60


def free_port() -> int:
    """A TCP port of the loopback that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """Web and worker processes on one database; `url` is the first web's address.

    Any part can be killed, frozen and started again: `stack.web`, `stack.worker` (the first of `webs`, `workers`),
    `stack.postgres`, `stack.redis`.
    """

    def __init__(self, database: str, redis_url: str, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.database = database
        self.redis_url = redis_url
        self.env = {**os.environ, "DATABASE_URL": database, "REDIS_URL": redis_url, "PYTHONUNBUFFERED": "1"}
        self.env |= {"STEERWEB_GRACE_S": "1", **env}
        self.urls: list[str] = []
        self.webs: list[Child] = []
        self.workers: list[Child] = []

    @property
    def postgres(self) -> Postgres:
        """The PostgreSQL beneath: `stop()`, `start()`, `pid`."""
        return services.postgres()

    @property
    def redis(self) -> Valkey:
        """The Valkey beneath: `stop()`, `start()` (empty again), `pid`."""
        return services.valkey()

    @property
    def url(self) -> str:
        """The first web's address, such as `http://127.0.0.1:40123`."""
        return self.urls[0]

    @property
    def web(self) -> Child:
        """The first web process."""
        return self.webs[0]

    @property
    def worker(self) -> Child:
        """The first worker process."""
        return self.workers[0]

    def start_web(self, env: Mapping[str, str] | None = None) -> str:
        """Start one more web process; its address once it answers."""
        port = free_port()
        web = self._child(["web", "--host", "127.0.0.1", "--port", str(port)], f"web-{len(self.webs)}.log", env)
        web.start()
        self.webs.append(web)
        self.urls.append(f"http://127.0.0.1:{port}")
        self.wait_web(len(self.webs) - 1)
        return self.urls[-1]

    def wait_web(self, number: int = 0) -> None:
        """Wait until a web process answers, as after `stack.web.start()`."""

        def answers() -> bool:
            assert self.webs[number].running(), f"the web process ended:\n{self.webs[number].tail()}"
            try:
                return httpx.get(self.urls[number] + "/health/live", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(answers, f"an answer of {self.urls[number]}", START_S)

    def start_worker(self, env: Mapping[str, str] | None = None) -> Child:
        """Start one more worker process and wait until it has a lease."""
        worker = self._child(["worker"], f"worker-{len(self.workers)}.log", env)
        worker.start()
        self.workers.append(worker)
        self.wait_worker(len(self.workers) - 1)
        return worker

    def wait_worker(self, number: int = 0) -> None:
        """Wait until a worker process has a lease, as after `stack.worker.start()`."""
        worker = self.workers[number]
        wait_until(lambda: self._has_lease(worker), f"the lease of worker {number}", START_S)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one of steerweb's commands beside the stack."""
        command = [sys.executable, "-m", "steerweb", *arguments]
        return subprocess.run(
            command, env=self.env, cwd=services.REPOSITORY, capture_output=True, text=True, timeout=60
        )

    def kill_worker(self, number: int = 0) -> None:
        """SIGKILL a worker process and wait for its end."""
        self.workers[number].stop(signal.SIGKILL, 10)

    def freeze_worker(self, number: int = 0) -> None:
        """SIGSTOP a worker process."""
        self.workers[number].send(signal.SIGSTOP)

    def thaw_worker(self, number: int = 0) -> None:
        """SIGCONT a worker process."""
        self.workers[number].send(signal.SIGCONT)

    def stop(self) -> None:
        """End every process; a worker that does not end by itself is killed after 5 s."""
        for worker in self.workers:
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
        for web in self.webs:
            web.send(signal.SIGTERM)
        for child in (*self.workers, *self.webs):
            if not child.wait(5):
                child.stop(signal.SIGKILL, 5)

    def logs(self) -> dict[str, str]:
        """The end of every process's log by its name, for the report of a failed test."""
        return {path.name: path.read_text(errors="replace")[-6000:] for path in sorted(self.folder.glob("*.log"))}

    def _child(self, arguments: list[str], log: str, env: Mapping[str, str] | None) -> Child:
        return Child(
            [sys.executable, "-m", "steerweb", *arguments],
            log=self.folder / log,
            death_signal=signal.SIGKILL,
            env={**self.env, **(env or {})},
            cwd=services.REPOSITORY,
        )

    def _has_lease(self, worker: Child) -> bool:
        assert worker.running(), f"the worker process ended:\n{worker.tail()}"
        with psycopg.connect(self.database) as connection:
            query = "SELECT 1 FROM worker WHERE pid = %s AND alive_until > now()"
            return connection.execute(query, [worker.pid]).fetchone() is not None


def stack_folder(name: str) -> Path:
    """A new folder for the logs of one stack."""
    folder = early.ROOT / "stacks" / name
    folder.mkdir(parents=True)
    return folder
