"""Directories of the services: checked data directories, private socket directories, and what a crash left in them."""

import hashlib
import os
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path

from steerweb.services.errors import ServiceError, disk_sentence

MIB = 1024 * 1024


def usable_directory(path: Path, free_mib: int) -> None:
    """Make `path` (mode 0700 when new) and prove that it takes data; ServiceError with one sentence otherwise."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path, prefix=".probe-")
        try:
            os.write(handle, b"\0" * 65536)
            os.fsync(handle)
        finally:
            os.close(handle)
            Path(name).unlink()
        free = shutil.disk_usage(path).free
    except OSError as problem:
        raise ServiceError(disk_sentence(problem, path)) from problem
    if free < free_mib * MIB:
        raise ServiceError(
            f"The disk that holds {path} is nearly full: {free // MIB} MiB are free and {free_mib} MiB are needed; "
            "free some space or choose another directory with --data."
        )


def _is_private(path: Path, owner: int) -> bool:
    facts = path.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == owner and not facts.st_mode & 0o077


def socket_directory(data: Path, purpose: str, owner: int | None = None) -> Path:
    """A short 0700 directory for the sockets of `data`, the same at every start, emptied of what a crash left.

    `owner` (a uid, only as root) gets it. It lies in /tmp, since paths of sockets are limited to some 100 bytes and
    XDG_RUNTIME_DIR goes away at logout while `up` may go on; a name that somebody else took is not used.
    """
    uid = os.geteuid() if owner is None else owner
    digest = hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:12]
    path = Path("/tmp") / f"steerweb-{uid}-{digest}-{purpose}"  # noqa: S108  (mode and owner are checked below)
    try:
        path.mkdir(mode=0o700)
        if owner is not None:
            os.chown(path, owner, -1)
    except FileExistsError:
        if not _is_private(path, uid):
            path = Path(tempfile.mkdtemp(prefix="steerweb-", dir="/tmp"))
            if owner is not None:
                os.chown(path, owner, -1)
    except OSError as problem:
        raise ServiceError(disk_sentence(problem, path)) from problem
    clear_sockets(path)
    return path


def clear_sockets(path: Path) -> None:
    """Remove what a crashed server left in its socket directory."""
    for leftover in path.iterdir():
        leftover.unlink(missing_ok=True)


def drop_socket_directory(path: Path) -> None:
    """Take a socket directory away after its server has stopped."""
    shutil.rmtree(path, ignore_errors=True)


def _serves(pid: int, program: str, directory: Path) -> bool:
    """Whether a live process runs `program` with `directory` as its working directory."""
    try:
        name = Path(f"/proc/{pid}/exe").readlink().name
        return name.startswith(program) and Path(f"/proc/{pid}/cwd").readlink() == directory.resolve()
    except OSError:
        return False


def end_leftover(pid_file: Path, program: str, directory: Path, stop: signal.Signals, timeout_s: float = 20) -> None:
    """Make way for a new server on `directory`: end the one a crashed supervisor left, and remove a stale pid file.

    The pid in the file may by now belong to any process, which the server itself cannot tell from its own past: only a
    process that runs `program` in `directory` is touched. The caller holds the lock on the data directory.
    """
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        pid_file.unlink(missing_ok=True)
        return
    until = time.monotonic() + timeout_s
    while _serves(pid, program, directory):
        # Asked once it may be in the middle of its shutdown; after half the time it is ended for good.
        try:
            os.kill(pid, stop if time.monotonic() < until - timeout_s / 2 else signal.SIGKILL)
        except ProcessLookupError:
            break
        if time.monotonic() > until:
            raise ServiceError(f"An earlier {program} (process {pid}) still uses {directory} and does not end.")
        time.sleep(0.1)
    pid_file.unlink(missing_ok=True)
