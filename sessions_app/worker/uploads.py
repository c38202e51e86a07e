"""The files of a turn's messages: in the workspace before the step that reads them, and images for the model's eyes.

A file that lies there already is left alone: the agent may have changed it. One that was erased is removed (A3).
"""

import contextlib
import errno
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from sessions_app.engine.files import FILE_BYTES, IMAGES, UPLOADS, File
from sessions_app.engine.transcript_types import Entry, UserEntry
from sessions_app.log import files
from sessions_app.worker.tools.base import ToolError
from sessions_app.worker.tools.beneath import Place
from sessions_app.worker.tools.saving import save

IMAGE_BYTES: Final = 3_750_000
"""The largest image that Anthropic takes, before base64; others take more."""
IMAGES_BYTES: Final = 12_000_000
IMAGES_AT_ONCE: Final = 20
"""What one request shows at most, the newest first: every request of a conversation sends its images again."""
_log = logging.getLogger(__name__)


class Uploads:
    """What one turn knows of its session's files. `images` is false once a provider has refused them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._said: dict[str, str] = {}
        self._bytes: dict[str, bytes] = {}
        self._stuck: set[str] = set()
        self.images = True

    def bring(self, workspace: Path, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], dict[str, bytes]]:
        """Put the files of these entries into the workspace: the entries, saying where each lies, and the images to
        show, by id. Blocks."""
        entries = self._known(tuple(entries))
        shown = self._shown(entries)
        told = tuple(self._told(workspace, entry) if isinstance(entry, UserEntry) else entry for entry in entries)
        return told, shown

    def _known(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The entries, a file without its bytes having no name: several events name it, and one of them was erased."""
        named = {
            file.id
            for entry in entries
            if isinstance(entry, UserEntry)
            for file in entry.files
            if file.name is not None
        }
        gone = named - files.kept(self._session, named) if named else named
        return tuple(_without(gone, entry) if isinstance(entry, UserEntry) else entry for entry in entries)

    def _told(self, workspace: Path, entry: UserEntry) -> UserEntry:
        if not entry.files:
            return entry
        lines = "\n".join(self._line(workspace, file) for file in entry.files)
        return replace(entry, text=f"{entry.text}\n\n{lines}")

    def _line(self, workspace: Path, file: File) -> str:
        if file.id not in self._said or file.name is None:
            self._said[file.id] = self._placed(workspace, file)
        return self._said[file.id]

    def _placed(self, workspace: Path, file: File) -> str:
        """Put it there where it is not; what the model is told of it."""
        about = f"{file.type}, {file.size:,} bytes"
        if file.name is None:
            return self._erased(workspace, file, about)
        try:
            with _folder(workspace, make=True) as folder:
                name = Path(file.path).name
                if not _there(folder, name):
                    content = self._content(file)
                    if content is None:
                        return self._erased(workspace, file, about)
                    _write(folder, ".gitignore", b"*\n")
                    _write(folder, name, content)
        except (ToolError, OSError) as error:
            return f"[Attached file: {file.name} ({about}) could not be put into the workspace: {error}]"
        return f"[Attached file: {file.path} ({about})]"

    def _erased(self, workspace: Path, file: File, about: str) -> str:
        """Remove its copy; what the model is told of it, and the log of what stays."""
        left = _remove(workspace, file.id)
        if not left:
            return f"[Attached file: erased ({about})]"
        if file.id not in self._stuck:
            _log.warning("the copy of the erased file %s could not be removed from %s: %s", file.id, workspace, left)
            self._stuck.add(file.id)
        return f"[Attached file: erased ({about}); what lies in {UPLOADS} of it could not be removed]"

    def _content(self, file: File) -> bytes | None:
        if file.id in self._bytes:
            return self._bytes[file.id]
        found = files.content(self._session, file.id)
        return None if found is None else found[2]

    def _shown(self, entries: tuple[Entry, ...]) -> dict[str, bytes]:
        """The newest images, as many as one request may hold."""
        shown: dict[str, bytes] = {}
        left = IMAGES_BYTES
        seen = [file for entry in entries if isinstance(entry, UserEntry) for file in entry.files]
        for file in reversed(seen if self.images else []):
            if len(shown) == IMAGES_AT_ONCE:
                break
            if file.name is None or file.type not in IMAGES or file.size > min(left, IMAGE_BYTES) or file.id in shown:
                continue
            content = self._content(file)
            if content is not None:
                shown[file.id] = content
                left -= file.size
        self._bytes = shown
        return dict(shown)


def _without(gone: set[str], entry: UserEntry) -> UserEntry:
    if gone.isdisjoint(file.id for file in entry.files):
        return entry
    return replace(entry, files=tuple(replace(file, name=None) if file.id in gone else file for file in entry.files))


@contextlib.contextmanager
def _folder(workspace: Path, *, make: bool = False) -> Iterator[int]:
    """The folder of the files, open. No link leads there: this one is written to unasked, another is somebody's own."""
    with contextlib.ExitStack() as opened:
        folder, path = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), Path()
        opened.callback(os.close, folder)
        for part in Path(UPLOADS).parts:
            path /= part
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            try:
                folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    raise ToolError(f"{path} is a symbolic link or a file, not a folder") from error
                raise
            opened.callback(os.close, folder)
        yield folder


def _there(folder: int, name: str) -> bool:
    return os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False)


def _write(folder: int, name: str, content: bytes) -> None:
    if not _there(folder, name):
        path = f"{UPLOADS}/{name}"
        save(Place(folder, name, path), content, path, FILE_BYTES)


def _remove(workspace: Path, id: str) -> str:
    """Remove a file whatever it was called, its name being erased too, also what a writer left that was killed.

    Answers why something is left, in words that hold no name; "" where nothing is.
    """
    left = ""
    try:
        with _folder(workspace) as folder:
            for name in os.listdir(folder):  # noqa: PTH208 (a path has no open folder)
                if name.removeprefix(".").startswith(f"{id}-"):
                    left = _unlink(folder, name) or left
    except FileNotFoundError:
        return ""
    except ToolError as error:
        return str(error)
    except OSError as error:
        return error.strerror or "unknown"
    return left


def _unlink(folder: int, name: str) -> str:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or "unknown"
    return ""
