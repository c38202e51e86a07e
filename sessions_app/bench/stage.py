"""The product to be measured: its servers, web and worker in a temporary directory, started as `up` starts them."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx
import psycopg

from steerweb import runtime
from steerweb.services import Postgres, ServiceError, Valkey
from steerweb.services.process import Child
from steerweb.up.address import bind
from steerweb.up.preparing import Preparation

READY_S: Final = 60.0
_LOOK_S: Final = 0.02
_FOREIGN: Final = ("STEERWEB_", "DATABASE_URL", "REDIS_URL", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")


def own_environment() -> dict[str, str]:
    """This process's environment without what names other servers, a running `up` or a model's provider."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


def module_line(module: str, *arguments: str) -> list[str]:
    """The argv that runs a module of ours as the product's own commands are run."""
    return [*runtime.command_line()[:-1], module, *arguments]


class Stage:
    """PostgreSQL and Valkey with a prepared database; a context manager. Web and worker start when they are needed.

    `environment` is what its processes get beside the servers' addresses. ServiceError where something cannot start.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="steerweb-bench-"))
        self.postgres = Postgres(self.folder, log=self.folder / "postgres.log")
        self.valkey = Valkey(self.folder, log=self.folder / "valkey.log")
        self.person = self.token = ""
        self.port = 0
        self._key = secrets.token_hex(32)
        self._more = dict(environment or {})
        self._children: list[Child] = []
        self._web: Child | None = None
        self._worker: Child | None = None

    def __enter__(self) -> Self:
        try:
            self.postgres.start()
            self.postgres.ensure_database()
            self.valkey.start()
            prepared = Preparation(self.environment(), self.folder / "prepare.log").finish()
            self.person = prepared.sign_in.person if prepared.sign_in else ""
            self.token = self.run("token", "create", "--user", self.person, "--name", "bench").strip()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def web_pid(self) -> int:
        """The web process, once it has started."""
        if self._web is None or self._web.pid is None:
            raise RuntimeError("the web process has not started")
        return self._web.pid

    def environment(self) -> dict[str, str]:
        """What every process of the product is told here."""
        return {
            **own_environment(),
            "DATABASE_URL": self.postgres.url(),
            "REDIS_URL": self.valkey.url(),
            "STEERWEB_SECRET_KEY": self._key,
            "STEERWEB_DATA": str(self.folder),
            "STEERWEB_LOG": "WARNING",
            "PYTHONUNBUFFERED": "1",
            **self._more,
        }

    def run(self, *arguments: str) -> str:
        """Run one of our commands to its end; what it printed."""
        done = subprocess.run(
            runtime.command_line(*arguments),
            env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ServiceError(f"`steerweb {arguments[0]}` failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start_web(self) -> None:
        """Start the web process, unless it runs, and wait until it answers."""
        if self._web is not None:
            return
        listener = bind("127.0.0.1", 0)
        self.port = int(listener.getsockname()[1])
        with listener:
            self._web = self._start("web", ["web", "--fd", str(listener.fileno())], (listener.fileno(),))
        self._wait(self._web, self._answers)

    def start_worker(self) -> None:
        """Start the worker process, unless it runs, and wait until it has a lease."""
        if self._worker is None:
            worker = self._worker = self._start("worker", ["worker"])
            self._wait(worker, lambda: self._has_lease(worker))

    def new_session(self, title: str, model: str = "demo:") -> str:
        """A new session of the stage's one person, made through REST; its id. Nobody is asked for approval."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.port}/api/v1/sessions",
            json={"title": title, "model": model, "mode": "auto"},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30,
        )
        answer.raise_for_status()
        return str(answer.json()["id"])

    def close(self) -> None:
        """End everything and remove the directory."""
        for child in reversed(self._children):
            child.send(signal.SIGTERM)
        for child in reversed(self._children):
            if not child.wait(5):
                child.stop(signal.SIGKILL, 5)
        self.valkey.stop()
        self.postgres.stop()
        remove(self.folder)

    def _start(self, name: str, arguments: list[str], pass_fds: tuple[int, ...] = ()) -> Child:
        child = Child(
            runtime.command_line(*arguments),
            log=self.folder / f"{name}.log",
            death_signal=signal.SIGKILL,
            env=self.environment(),
            pass_fds=pass_fds,
        )
        child.start()
        self._children.append(child)
        return child

    def _wait(self, child: Child, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + READY_S
        while not ready():
            if not child.running() or time.monotonic() > until:
                raise ServiceError(f"{child.log.stem} did not start:\n{child.tail()}")
            time.sleep(_LOOK_S)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health/live", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def _has_lease(self, worker: Child) -> bool:
        with psycopg.connect(self.postgres.url()) as connection:
            query = "SELECT 1 FROM worker WHERE pid = %s AND alive_until > now()"
            return connection.execute(query, [worker.pid]).fetchone() is not None


def remove(data: Path) -> None:
    """Remove a data directory, also where PostgreSQL's files lie elsewhere (see `reachable_cluster`)."""
    cluster = data / "postgres"
    if cluster.is_symlink():
        shutil.rmtree(cluster.resolve(), ignore_errors=True)
    shutil.rmtree(data, ignore_errors=True)
