"""A real Redis-compatible server for one data directory: Valkey on a unix socket, with an append-only file.

It is only the bell and the broker: what it loses costs latency, never an event. So a file it cannot read is set aside
instead of standing in the way of a start.
"""

import signal
import socket
import time
from contextlib import closing
from pathlib import Path

from steerweb.services.binaries import find_valkey
from steerweb.services.errors import ServiceError, disk_sentence, sentence_from_log
from steerweb.services.places import drop_socket_directory, end_leftover, socket_directory, usable_directory
from steerweb.services.process import Child, last_words

FREE_MIB = 16
UNREADABLE = ("Bad file format", "Unexpected end of file reading the append only file", "Error reading the append only")


class Valkey:
    """One server: `start()`, `url()`, `running()`, `stop()`; start again after a crash and it has its data.

    `fsync=False` is for tests and keeps no file. `sockets` is an existing directory to use instead of a chosen one.
    """

    name = "Valkey"

    def __init__(self, data: Path, *, log: Path, fsync: bool = True, sockets: Path | None = None) -> None:
        self.data = data
        self.log = log
        self._fsync = fsync
        self._child: Child | None = None
        self._fixed_sockets = sockets
        self._sockets: Path | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id."""
        return self._child.pid if self._child else None

    def start(self, timeout_s: float = 30) -> None:
        """Start it and wait until it answers (some 75 ms); ServiceError with one sentence."""
        usable_directory(self.data, FREE_MIB)
        directory = self.data / "valkey"
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            raise ServiceError(disk_sentence(problem, directory)) from problem
        end_leftover(directory / "valkey.pid", "valkey", directory, signal.SIGTERM)
        if self._sockets is None:
            self._sockets = self._fixed_sockets or socket_directory(self.data, "kv")
        self._child = Child(
            self._argv(directory),
            log=self.log,
            death_signal=signal.SIGTERM,
            cwd=directory,
        )
        until = time.monotonic() + timeout_s
        if not self._ready(self._child, until):
            tail = self._child.tail()
            if not any(words in tail for words in UNREADABLE):
                raise ServiceError(sentence_from_log(tail, self.data) or f"Valkey did not start (log: {self.log})")
            _set_aside(directory / "appendonlydir")
            if not self._ready(self._child, until):
                raise ServiceError(f"Valkey did not start, with an empty directory either (log: {self.log})")

    def url(self) -> str:
        """The URL as redis-py has it: `unix:///path`."""
        return f"unix://{self._socket()}"

    def running(self) -> bool:
        """Whether the server process is there."""
        return self._child is not None and self._child.running()

    def stop(self, timeout_s: float = 10) -> None:
        """Let it write its file and end, within milliseconds; then SIGKILL."""
        if self._child is not None and self._child.running():
            self._child.stop(signal.SIGTERM, timeout_s)
        if self._sockets is not None and not self._fixed_sockets:
            drop_socket_directory(self._sockets)
            self._sockets = None

    def last_words(self) -> str:
        """The last line the server wrote since its start."""
        return last_words(self._child)

    def _socket(self) -> Path:
        if self._sockets is None:
            raise ServiceError("Valkey has not been started.")
        return self._sockets / "valkey.sock"

    def _argv(self, directory: Path) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket()),
            "unixsocketperm": "700",
            "dir": str(directory),
            "pidfile": str(directory / "valkey.pid"),
            "appendonly": "yes" if self._fsync else "no",
            "appendfsync": "everysec",
            "save": "",
        }
        return [find_valkey(), *(part for name, value in options.items() for part in (f"--{name}", value))]

    def _ready(self, child: Child, until: float) -> bool:
        """Start it; False when it ended before it answered or did not answer in time."""
        child.start()
        while child.running() and time.monotonic() < until:
            if _answers(self._socket()):
                return True
            time.sleep(0.01)
        if child.running():
            child.stop(signal.SIGTERM, 5)
        return False


def _answers(path: Path) -> bool:
    """Whether a server answers on a socket; asked by hand, as importing a client would double the start of `up`."""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(2)
        try:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            # While it still loads its file the answer is -LOADING.
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _set_aside(files: Path) -> None:
    number = 1
    while (target := files.with_name(f"{files.name}.unreadable-{number}")).exists():
        number += 1
    if files.exists():
        files.rename(target)
