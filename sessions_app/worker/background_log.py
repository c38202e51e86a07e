"""The file a background command's output goes to: bounded, and written by a thread that nobody waits for (E13)."""

import contextlib
import logging
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Final

LOG_BYTES: Final = 10 * 1024 * 1024
KEPT_LOGS: Final = 32
"""Files in a folder: with a new one the oldest go whose commands have ended."""
LEFT_OUT: Final = b"\n[the rest of the output is left out]\n"
_NAME_CHARACTERS: Final = 80
# One for all: a disk that hangs takes this thread and no other.
_WRITER: Final = ThreadPoolExecutor(1, thread_name_prefix="background-logs")
_open: set[Path] = set()
_log = logging.getLogger(__name__)


class BackgroundLog:
    """A call's output in a file of its own, at `path`: at most 10 MiB and then a line that says so.

    What a full disk refuses is left out of it; the worker goes on. Everything here returns at once, and no more than
    the 10 MiB ever waits in memory.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        _open.add(path)
        self._handle = handle
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._taken = 0
        self._writing = self._over = self._refused = False

    @classmethod
    def create(cls, folder: Path, call: str) -> "BackgroundLog":
        """A new file for a call, whose id may have been used before; raises OSError. Blocking."""
        folder.mkdir(parents=True, exist_ok=True)
        _make_room(folder.absolute())
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call)[:_NAME_CHARACTERS]
        for number in count(1):
            path = folder.absolute() / (f"{name}.log" if number == 1 else f"{name}_{number}.log")
            with contextlib.suppress(FileExistsError):
                return cls(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        raise AssertionError("numbers do not end")

    def add(self, data: bytes) -> None:
        """Take a piece of output."""
        with self._lock:
            room = LOG_BYTES - self._taken
            if room < 0 or self._over:
                return
            self._waiting += data[:room]
            self._taken += len(data)
            if len(data) > room:
                self._waiting += LEFT_OUT
            self._wake()

    def close(self) -> None:
        """Nothing follows."""
        with self._lock:
            self._over = True
            self._wake()

    def discard(self) -> None:
        """The command has ended within its call, whose result has it all: no file."""
        self.close()
        _WRITER.submit(self.path.unlink, missing_ok=True)

    def _wake(self) -> None:
        if not self._writing:
            self._writing = True
            _WRITER.submit(self._write)

    def _write(self) -> None:
        """In the writer's thread: until nothing waits."""
        while True:
            with self._lock:
                piece, self._waiting = self._waiting, bytearray()
                if not piece:
                    self._writing = False
                    self._close_if_over()
                    return
            self._append(piece)

    def _close_if_over(self) -> None:
        if self._over and self._handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = -1
            _open.discard(self.path)

    def _append(self, piece: bytearray) -> None:
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            if not self._refused:
                _log.warning("output of a background command is left out: %s", error)
            self._refused = True


def _make_room(folder: Path) -> None:
    ended = sorted((path for path in folder.glob("*.log") if path not in _open), key=_written_at)
    for path in ended[: max(0, len(ended) + 1 - KEPT_LOGS)]:
        path.unlink(missing_ok=True)


def _written_at(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.lstat().st_mtime_ns
    return 0
