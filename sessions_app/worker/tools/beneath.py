"""Opening files below the workspace and nowhere else, whatever `..` and symbolic links say.

Every component is opened relative to the one before it and never followed by the kernel; links are resolved here, so
nothing that changes in between can lead outside.
"""

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sessions_app.worker.tools.base import ToolError

MAX_LINKS: Final = 40
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place:
    """A directory below the workspace, open as `folder`, and a `name` in it that is no link ("" for the root itself).

    `shown` is the path relative to the workspace, with links resolved.
    """

    def __init__(self, folder: int, name: str, shown: str) -> None:
        self.folder, self.name, self.shown = folder, name, shown


@contextlib.contextmanager
def place(workspace: Path, path: str, *, make_folders: bool = False) -> Iterator[Place]:
    """Find where `path` leads; raises ToolError when that is outside, or a directory on the way is missing."""
    trail: list[tuple[int, str]] = [(os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), "")]
    try:
        name = _walk(trail, _parts(workspace, path), workspace, path, make_folders=make_folders)
        shown = "/".join([*(each for _, each in trail[1:]), *([name] if name else [])])
        yield Place(trail[-1][0], name, shown or ".")
    except OSError as error:
        raise ToolError(f"{path}: {_words(error)}") from error
    finally:
        for folder, _ in trail:
            os.close(folder)


@contextlib.contextmanager
def open_file(workspace: Path, path: str) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file, open for reading; raises ToolError for anything else: a FIFO or device would never end."""
    with place(workspace, path) as found:
        if not found.name:
            raise ToolError(f"{path} is a directory")
        # O_NONBLOCK: opening a FIFO must not wait for its writer.
        handle = os.open(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found.folder)
        try:
            status = os.fstat(handle)
            require_regular(status, path)
            yield handle, status
        finally:
            os.close(handle)


def require_regular(status: os.stat_result, path: str) -> None:
    """Raises ToolError unless this is an ordinary file."""
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path} is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path} is no ordinary file (a device, a pipe or a socket)")


def _parts(workspace: Path, path: str) -> deque[str]:
    if not path.strip():
        raise ToolError("the path is empty")
    if "\0" in path:
        raise ToolError("the path holds a NUL character")
    wanted = _below(workspace, Path(path))
    if wanted is None:
        raise ToolError(f"{path} is outside the workspace; paths are relative to it")
    return deque(wanted.parts)


def _below(workspace: Path, path: Path) -> Path | None:
    """The path relative to the workspace; an absolute one may name that as given or with its links resolved."""
    if not path.is_absolute():
        return path
    for root in (workspace, workspace.resolve()):
        if path.is_relative_to(root):
            return path.relative_to(root)
    return None


def _walk(trail: list[tuple[int, str]], parts: deque[str], workspace: Path, path: str, *, make_folders: bool) -> str:
    """Go along `parts`, leaving the way in `trail`; the last component's name, "" when the way itself ends there."""
    links = 0
    while parts:
        part = parts.popleft()
        if part == "..":
            if len(trail) == 1:
                raise ToolError(f"{path} is outside the workspace")
            os.close(trail.pop()[0])
            continue
        folder = trail[-1][0]
        target = _link_target(folder, part)
        if target is not None:
            links += 1
            if links > MAX_LINKS:
                raise ToolError(f"{path}: too many symbolic links")
            parts = _resolve(trail, target, parts, workspace, path)
        elif not parts:
            return part
        else:
            trail.append((_enter(folder, part, make_folders=make_folders), part))
    return ""


def _resolve(trail: list[tuple[int, str]], target: str, rest: deque[str], workspace: Path, path: str) -> deque[str]:
    """The components to go along after a link; an absolute one starts again at the workspace if it leads there."""
    leads = _below(workspace, Path(target))
    if leads is None:
        raise ToolError(f"{path} is a symbolic link that leads outside the workspace")
    while target.startswith("/") and len(trail) > 1:
        os.close(trail.pop()[0])
    return deque([*leads.parts, *rest])


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _enter(folder: int, name: str, *, make_folders: bool) -> int:
    if make_folders:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return os.open(name, _DIRECTORY, dir_fd=folder)


def _words(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "no such file or directory"
    return (error.strerror or str(error)).lower()
