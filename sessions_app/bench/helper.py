"""Other processes of the measurement: modules of this package, asked and answering in lines of JSON."""

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from sessions_app.bench.stage import module_line
from steerweb.services import ServiceError
from steerweb.services.process import Identity, launcher_argv

LONGEST_S: Final = 90.0
"""A helper that has not ended by itself after so long, or what it is given, is ended; then whoever waits for its line
hears of it."""


class Helper:
    """One process; a context manager that ends it. `pass_fds` stay open in it under the same numbers."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        env: Mapping[str, str],
        log: Path,
        pass_fds: Sequence[int] = (),
        longest_s: float = LONGEST_S,
    ) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                launcher_argv(module_line(f"sessions_app.bench.{module}", *arguments), Identity.SELF, signal.SIGKILL),
                env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, pass_fds=tuple(pass_fds),
            )  # fmt: skip
        self._limit = threading.Timer(longest_s, self._process.kill)
        self._limit.daemon = True
        self._limit.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def answer(self) -> Any:
        """The next line it says; ServiceError with its last words where it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServiceError(f"a part of the measurement ended:\n{self._log.read_text(errors='replace')[-2000:]}")
        return orjson.loads(line)

    def ask(self, question: object) -> Any:
        """Say one line and wait for the next."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(question) + b"\n")
        self._process.stdin.flush()
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.cancel()
        self._process.kill()
        self._process.communicate()


def say(answer: object) -> None:
    """A helper's line to whoever started it."""
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


def hear() -> Any:
    """The next line from there; `None` once nobody asks any more."""
    line = sys.stdin.buffer.readline()
    return orjson.loads(line) if line else None
