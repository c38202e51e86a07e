"""The course of `up`: claim the data, take the port, start the services, migrate, start web and workers, watch."""

import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from steerweb import runtime
from steerweb.services import ServiceError
from steerweb.services.process import Child
from steerweb.up.address import bind, in_brackets, lan_address, local_host, why_not_ours
from steerweb.up.announce import say, show_ready
from steerweb.up.at_work import at_work, stopping
from steerweb.up.claim import Claim
from steerweb.up.options import Options, parse
from steerweb.up.preparing import Preparation, Prepared, mark_prepared
from steerweb.up.servers import start_servers
from steerweb.up.supervisor import Program, StopAsked, Supervisor

READY_S = 60
ADDRESS_S = 5  # how long an address of --lan or --url may take to answer before it is reported
ENDS_S = 25.0  # after its grace a worker ends what still runs, and writes the ends of those turns
HURRIED_S = 12.0  # the same after a second Ctrl-C, which leaves no grace
WEB_PATIENCE_S = 6.0
LONGEST_LOG = 32 * 1024 * 1024


class Up:
    """One run of `up`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.began = time.monotonic()
        self.instance = secrets.token_hex(8)
        self.logs = options.data / "logs"
        self.supervisor = Supervisor(say)
        self.programs: list[Program] = []
        self._unreachable: str | None = None

    def run(self) -> None:
        """Start everything, watch it until asked to stop, stop it. ServiceError where it cannot start."""
        claim = Claim(self.options.data)
        listener = bind(self.options.host, self.options.port)
        self.port = int(listener.getsockname()[1])
        self.key = os.environ.get("STEERWEB_SECRET_KEY") or claim.secret_key()
        self.logs.mkdir(mode=0o700, exist_ok=True)
        self.supervisor.watch_signals()
        try:
            self._start(listener)
            self.supervisor.run(self._tick)
        except StopAsked:
            say(stopping(self._at_work(), runtime.grace_s()))
        finally:
            self.supervisor.stop()
            runtime.remove_record(self.options.data)
        say("Stopped.")

    @property
    def local_url(self) -> str:
        """The address by which this machine reaches the web process."""
        return f"http://{in_brackets(local_host(self.options.host))}:{self.port}"

    def _public_url(self) -> str:
        """The address people open: that of --url, the one in the network with --lan, else this machine's."""
        if self.options.url:
            return self.options.url
        if self.options.lan:
            found = lan_address()
            if found is None:
                raise ServiceError("This machine is in no network; leave --lan out, or name an address with --host.")
            return f"http://{found}:{self.port}"
        return self.local_url

    def _start(self, listener: socket.socket) -> None:
        self.url = self._public_url()
        say(f"steerweb keeps its data in {self.options.data}")
        self.servers = start_servers(self.options.data, self._log, self.supervisor)
        self._write_record()
        preparation = Preparation(self._environment(), self._log("prepare"))
        if not self.servers.prepared:
            prepared = preparation.finish()
            mark_prepared(self.options.data)
        self._start_web(listener)
        self._wait_until_ready()
        if self.servers.prepared:
            prepared = preparation.finish()
        # After web, as what a person waits for is the page; a worker is there before the first message is typed.
        for number in range(1, self.options.workers + 1):
            self._start_worker(f"worker {number}")
        self._announce(prepared)

    def _announce(self, prepared: Prepared) -> None:
        for sentence in prepared.done:
            say(sentence)
        reachable = self.options.lan or self.options.url is not None
        seconds = time.monotonic() - self.began
        show_ready(self.url, self.local_url, self.options.data, prepared.sign_in, for_phone=reachable, seconds=seconds)
        if reachable:
            self._check_address(ADDRESS_S)

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "DATABASE_URL": self.servers.database_url,
            "REDIS_URL": self.servers.redis_url,
            "STEERWEB_SECRET_KEY": self.key,
            "STEERWEB_DATA": str(self.options.data),
            "STEERWEB_INSTANCE": self.instance,
            "PYTHONUNBUFFERED": "1",
        }
        if self.options.url:
            environment["STEERWEB_URL"] = self.options.url
        return environment

    def _write_record(self) -> None:
        pid = os.getpid()
        record = runtime.Record(
            url=self.url,
            web_url=self.local_url,
            database_url=self.servers.database_url,
            redis_url=self.servers.redis_url,
            secret_key=self.key,
            instance=self.instance,
            pid=pid,
            started=runtime.process_started(pid) or 0,
        )
        runtime.write_record(record, self.options.data)

    def _start_web(self, listener: socket.socket) -> None:
        if listener.family == socket.AF_INET:
            descriptor = listener.fileno()
            self._start_program("web", ["web", "--fd", str(descriptor)], WEB_PATIENCE_S, (descriptor,))
        else:
            listener.close()
            address = ["--host", self.options.host, "--port", str(self.port)]
            self._start_program("web", ["web", *address], WEB_PATIENCE_S)

    def _start_worker(self, name: str) -> None:
        """A worker says through a pipe that it was drained, for another to take its place while it finishes (J4)."""
        leaving, says = os.pipe()
        environment = {runtime.LEAVING_FD: str(says)}
        self._start_program(name, ["worker"], runtime.grace_s() + ENDS_S, (says,), environment, HURRIED_S, leaving)

    def _start_program(
        self,
        name: str,
        arguments: list[str],
        patience_s: float,
        pass_fds: tuple[int, ...] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        hurried_s: float = 0.0,
        leaving: int | None = None,
    ) -> None:
        child = Child(
            runtime.command_line(*arguments),
            log=self._log(name.replace(" ", "-")),
            # Not SIGTERM: an orderly end needs the database, which ends at the same moment.
            death_signal=signal.SIGKILL,
            env={**self._environment(), **environment},
            pass_fds=pass_fds,
        )
        program = Program(name, child, patience_s, self.supervisor.asked, hurried_s=hurried_s, leaving=leaving)
        self.programs.append(program)
        self.supervisor.start(program)

    def _at_work(self) -> list[str] | None:
        """The sessions in which a command runs."""
        workers = [pid for program in self.programs if program.leaving_fd is not None for pid in program.pids]
        return at_work(self.servers.database_url, workers) if workers else []

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + READY_S
        while problem := why_not_ours(self.local_url, self.instance, timeout_s=2):
            if ended := self.supervisor.died():
                raise ServiceError(f"{ended} (logs: {self.logs})")
            if time.monotonic() > until:
                raise ServiceError(f"{self.local_url} {problem} (logs: {self.logs})")
            time.sleep(0.05)

    def _check_address(self, patience_s: float) -> None:
        """Say whether the address for phones leads here, once it is known."""
        until = time.monotonic() + patience_s
        while problem := why_not_ours(self.url, self.instance, direct=self.options.lan):
            if time.monotonic() > until:
                if self._unreachable != problem:
                    say(f"{self.url} {problem}: nobody can use it yet. It is tried again until it leads here.")
                self._unreachable = problem
                return
            time.sleep(0.5)
        self._unreachable = None
        say(f"{self.url} leads here. If a phone cannot open it, a firewall between the two is in the way.")

    def _tick(self) -> None:
        if self._unreachable:
            self._check_address(0)
        for path in self.logs.glob("*.log"):
            _shorten(path)

    def _log(self, name: str) -> Path:
        path = self.logs / f"{name}.log"
        _shorten(path)
        return path


def _shorten(path: Path) -> None:
    """Keep a log and one older piece of it; its writer appends, so it goes on at the new end."""
    if path.exists() and path.stat().st_size > LONGEST_LOG:
        shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)


def run(options: Options) -> int:
    """Run `up`; its exit status. A problem is one sentence on standard error."""
    try:
        Up(options).run()
    except ServiceError as problem:
        sys.stderr.write(f"steerweb: {problem}\n")
        return 1
    return 0


def main(argv: list[str]) -> None:
    """`steerweb up` from a command line."""
    raise SystemExit(run(parse(argv)))
