"""The one error of the embedded services; its text is one sentence a person can act on."""

import errno
from pathlib import Path


class ServiceError(Exception):
    """A service cannot run; `str()` is the sentence to show, without a traceback."""


def disk_sentence(problem: OSError, path: Path) -> str:
    """Say in one sentence what the disk below `path` refused."""
    if problem.errno == errno.EROFS:
        return f"{path} is on a read-only disk; choose another directory with --data."
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {path} is full; free some space or choose another directory with --data."
    if problem.errno in (errno.EACCES, errno.EPERM):
        return f"{path} cannot be written by this user; choose another directory with --data."
    return f"{path} cannot be used ({problem.strerror or problem}); choose another directory with --data."


def sentence_from_log(tail: str, path: Path) -> str | None:
    """The sentence for a disk problem that a server wrote into its log; None where the log tells of none."""
    if "No space left on device" in tail or "Disk quota exceeded" in tail:
        return disk_sentence(OSError(errno.ENOSPC, ""), path)
    if "Read-only file system" in tail:
        return disk_sentence(OSError(errno.EROFS, ""), path)
    return None
