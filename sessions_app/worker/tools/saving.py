"""Writing a file as a whole: a reader sees the old content or the new one, never half of either."""

import contextlib
import os
import secrets
from typing import Final

from sessions_app.worker.tools.base import ToolError
from sessions_app.worker.tools.beneath import Place, require_regular

WRITE_LIMIT: Final = 8 * 1024 * 1024


def save(found: Place, content: bytes, path: str, limit: int = WRITE_LIMIT) -> bool:
    """Put `content` in place of the file, keeping mode and owner; True when there was none. May raise ToolError."""
    if not found.name:
        raise ToolError(f"{path} is a directory")
    if len(content) > limit:
        raise ToolError(f"{len(content):,} bytes are too much for one file; the limit is {limit:,}")
    before = _status(found)
    if before is not None:
        require_regular(before, path)
    temporary = f".{found.name[:200]}.{secrets.token_hex(4)}"
    handle = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=found.folder
    )
    try:
        with os.fdopen(handle, "wb") as file:
            if before is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, before.st_mode & 0o7777)
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.rename(temporary, found.name, src_dir_fd=found.folder, dst_dir_fd=found.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=found.folder)
        raise
    return before is None


def _status(found: Place) -> os.stat_result | None:
    try:
        return os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
