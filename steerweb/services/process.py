"""One child process: started in its own session, dying with its parent, its output in a log file."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

LAUNCHER = Path(__file__).with_name("child.py")
TAIL_BYTES = 4096


class Identity(StrEnum):
    """Who a child runs as (see child.py)."""

    SELF = "self"
    NAMESPACE = "namespace"
    NOBODY = "nobody"


def launcher_argv(argv: Sequence[str], identity: Identity, death_signal: int) -> list[str]:
    """`argv` behind the launcher; start it from a thread that lives as long as the child should."""
    return [sys.executable, "-I", "-S", str(LAUNCHER), identity, str(int(death_signal)), str(os.getpid()), *argv]


def can_run(argv: Sequence[str], identity: Identity) -> bool:
    """Whether a program runs to success as `identity` on this machine."""
    done = subprocess.run(
        launcher_argv(argv, identity, 0),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        timeout=20,
        check=False,
    )
    return done.returncode == 0


class Child:
    """A child process that can be started again; all output goes to the end of `log`.

    `death_signal` is what it gets when this process dies; `pass_fds` stay open in it under the same numbers.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        death_signal: signal.Signals,
        identity: Identity = Identity.SELF,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.argv = list(argv)
        self.log = log
        self._death_signal = death_signal
        self._identity = identity
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._pass_fds = tuple(pass_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    def another(self) -> "Child":
        """One like it, not started yet, that may run beside it."""
        return Child(
            self.argv, log=self.log, death_signal=self._death_signal, identity=self._identity, env=self._env,
            cwd=self._cwd, pass_fds=self._pass_fds,
        )  # fmt: skip

    @property
    def pid(self) -> int | None:
        """The process id of the latest start, also after its end; None before the first."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it; the previous one must have ended."""
        with self.log.open("ab") as output:
            self._log_from = output.tell()
            self._process = subprocess.Popen(
                launcher_argv(self.argv, self._identity, self._death_signal),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                pass_fds=self._pass_fds,
                start_new_session=True,  # a Ctrl-C in the terminal reaches only the supervisor, which stops in order
            )

    def poll(self) -> int | None:
        """The exit status (negative: the signal), None while it runs."""
        return self._process.poll() if self._process else None

    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; whether it came in time."""
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, first: signal.Signals, timeout_s: float) -> bool:
        """Ask with `first`, and end it with SIGKILL after `timeout_s`; whether it ended by itself."""
        self.send(first)
        if self.wait(timeout_s):
            return True
        self.send(signal.SIGKILL)
        self.wait(10)
        return False

    def tail(self) -> str:
        """The end of what this start has written to the log."""
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(min(self._log_from, size), size - TAIL_BYTES))
            return file.read().decode(errors="replace")


def last_words(child: Child | None) -> str:
    """Why a child has ended: the signal that killed it, else the last line it wrote since its start, or nothing."""
    status = child.poll() if child else None
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    lines = child.tail().strip().splitlines() if child and child.pid else []
    return lines[-1].strip() if lines else ""
