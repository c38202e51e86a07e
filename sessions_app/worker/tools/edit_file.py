"""`edit_file`: one exact passage of a file replaced by another."""

import asyncio
import os
from pathlib import Path
from typing import Any

from sessions_app.worker.tools.base import (
    BadArgumentsError,
    Changes,
    Schema,
    ToolContext,
    ToolError,
    ToolOutcome,
    flag_argument,
    schema,
    text_argument,
)
from sessions_app.worker.tools.beneath import open_file, place
from sessions_app.worker.tools.saving import WRITE_LIMIT, save


class EditFile:
    """Replaces text that must be there exactly once, unless all of it is asked for."""

    name = "edit_file"
    description = (
        "Replace a passage of a text file in the workspace. `old_text` must match exactly, with its white space, and "
        "occur once; give more lines around it, or set `all` to replace every occurrence."
    )
    schema: Schema = schema(
        {
            "path": {"type": "string", "description": "The file, relative to the workspace."},
            "old_text": {"type": "string", "description": "The text to replace, exactly as it stands in the file."},
            "new_text": {"type": "string", "description": "The text to put there."},
            "all": {"type": "boolean", "description": "Replace every occurrence; false by default."},
        },
        "path",
        "old_text",
        "new_text",
    )
    changes: Changes = ("path", "path")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Edit in a thread; the file is replaced as a whole."""
        path = text_argument(arguments, "path")
        old, new = text_argument(arguments, "old_text"), text_argument(arguments, "new_text")
        if not old:
            raise BadArgumentsError("`old_text` is empty; use write_file to make a file")
        if old == new:
            raise BadArgumentsError("`old_text` and `new_text` are the same; nothing would change")
        every = flag_argument(arguments, "all")
        return ToolOutcome(
            "ok", await asyncio.to_thread(_edit, context.workspace, path, old.encode(), new.encode(), every)
        )


def _edit(workspace: Path, path: str, old: bytes, new: bytes, every: bool) -> str:
    content = _content(workspace, path)
    count = content.count(old)
    if count == 0:
        raise ToolError(_absence(content, old, path))
    if count > 1 and not every:
        lines = ", ".join(str(line) for line in _lines_of(content, old))
        raise ToolError(
            f"`old_text` occurs {count} times in {path} (lines {lines}): add lines around it until it is unique, or "
            "set `all`"
        )
    with place(workspace, path) as found:
        save(found, content.replace(old, new), path)
        return f"Edited {found.shown}: {count} {'passage' if count == 1 else 'passages'} replaced."


def _content(workspace: Path, path: str) -> bytes:
    with open_file(workspace, path) as (handle, status):
        if status.st_size > WRITE_LIMIT:
            raise ToolError(f"{path} has {status.st_size:,} bytes; the limit for editing is {WRITE_LIMIT:,}")
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(WRITE_LIMIT + 1)


def _absence(content: bytes, old: bytes, path: str) -> str:
    """Why a passage was not found, as far as that can be seen."""
    said = f"`old_text` does not occur in {path}"
    if b"\r\n" in content and old.replace(b"\n", b"\r\n") in content:
        return f"{said}: its lines end with \\r\\n; edit line by line, or with the shell"
    squeezed = b" ".join(old.split())
    if squeezed and squeezed in b" ".join(content.split()):
        return f"{said}: the same words are there with other white space; read the file again and copy it exactly"
    return f"{said}; read the file again and copy the passage exactly"


def _lines_of(content: bytes, old: bytes) -> list[int]:
    """The line numbers of the first occurrences, ten at most."""
    lines: list[int] = []
    at = content.find(old)
    while at >= 0 and len(lines) < 10:
        lines.append(content.count(b"\n", 0, at) + 1)
        at = content.find(old, at + len(old))
    return lines
