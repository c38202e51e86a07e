"""Taking hold of a data directory: one `up` at a time, and the secret key that stays with the data."""

import fcntl
import os
import secrets
from pathlib import Path

from steerweb import runtime
from steerweb.services.errors import ServiceError, disk_sentence
from steerweb.services.places import usable_directory

LOCK_NAME = "up.lock"
KEY_NAME = "secret.key"
FREE_MIB = 16


class Claim:
    """The lock on a data directory, held until the process ends, however it ends."""

    def __init__(self, data: Path) -> None:
        """Take the lock; ServiceError with the first `up`'s address when there is one."""
        usable_directory(data, FREE_MIB)
        self.data = data
        try:
            self._lock = os.open(data / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            raise ServiceError(disk_sentence(problem, data)) from problem
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise ServiceError(self._who_runs()) from problem
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _who_runs(self) -> str:
        if record := runtime.read_record(self.data):
            return f"steerweb is already running on {self.data}, at {record.url} (process {record.pid})."
        pid = os.pread(self._lock, 32, 0).decode() or "unknown"
        return f"steerweb is just starting or stopping on {self.data} (process {pid})."

    def secret_key(self) -> str:
        """The key that signs cookies: made once per data directory, readable by its owner only."""
        path = self.data / KEY_NAME
        try:
            if path.exists() and (key := path.read_text().strip()):
                return key
            key = secrets.token_urlsafe(48)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(key + "\n")
                os.fsync(file.fileno())
        except OSError as problem:
            raise ServiceError(disk_sentence(problem, path)) from problem
        return key
