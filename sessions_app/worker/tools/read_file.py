"""`read_file`: some lines of a file in the workspace."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from sessions_app.worker.tools.base import (
    READ_LIMIT,
    Changes,
    Schema,
    ToolContext,
    ToolError,
    ToolOutcome,
    number_argument,
    schema,
    text_argument,
)
from sessions_app.worker.tools.beneath import open_file
from sessions_app.worker.tools.transcript import decode, without_cut_end

DEFAULT_LINES: Final = 2000
SCAN_LIMIT: Final = 256 * 1024 * 1024
_BLOCK: Final = 256 * 1024


class ReadFile:
    """Reads lines, never more than a model can use at once."""

    name = "read_file"
    description = "Read lines of a text file in the workspace. A note at the end says whether more follow."
    schema: Schema = schema(
        {
            "path": {"type": "string", "description": "The file, relative to the workspace."},
            "offset": {"type": "integer", "minimum": 1, "description": "The first line to read, 1 by default."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": DEFAULT_LINES,
                "description": f"How many lines to read at most; {DEFAULT_LINES} by default.",
            },
        },
        "path",
    )
    changes: Changes | None = None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Read the lines in a thread."""
        path = text_argument(arguments, "path")
        offset = number_argument(arguments, "offset", 1, 1, 2**31)
        limit = number_argument(arguments, "limit", DEFAULT_LINES, 1, DEFAULT_LINES)
        text, replaced = await asyncio.to_thread(_read, context.workspace, path, offset, limit)
        return ToolOutcome("ok", text, replaced=replaced)


def _read(workspace: Path, path: str, offset: int, limit: int) -> tuple[str, bool]:
    """(text with a note where more follows, replaced); raises ToolError."""
    with open_file(workspace, path) as (handle, status):
        kept, line, more = _window(handle, path, offset, limit)
    if not kept:
        if offset > 1 and (status.st_size or line > 1):
            raise ToolError(f"{path} ends before line {offset}")
        return "[the file is empty]", False
    text, replaced = decode(kept)
    if not more:
        return text, replaced
    if kept.endswith(b"\n"):
        return f"{text}[more lines follow; go on with offset {line}]", replaced
    return f"{text}\n[line {line} goes on; one result holds {READ_LIMIT:,} bytes at most]", replaced


def _window(handle: int, path: str, offset: int, limit: int) -> tuple[bytes, int, bool]:
    """(the lines' bytes, the number of the line where it stopped, whether more follows)."""
    kept = bytearray()
    line, scanned = 1, 0
    while block := os.read(handle, _BLOCK):
        scanned += len(block)
        if scanned > SCAN_LIMIT:
            raise ToolError(f"{path} is too large to read this way; use the shell, for instance `sed -n`")
        for piece in _lines(block):
            if line == offset + limit:
                return bytes(kept), line, True
            if line >= offset:
                if len(kept) + len(piece) > READ_LIMIT:
                    return _fitted(kept, piece), line, True
                kept += piece
            line += piece.endswith(b"\n")
    return bytes(kept), line, False


def _fitted(kept: bytearray, piece: bytes) -> bytes:
    """What of the lines fits into a result: whole lines, or the beginning of a single one that is too long."""
    whole = kept.rfind(b"\n") + 1
    return bytes(kept[:whole]) if whole else without_cut_end(bytes(kept + piece)[:READ_LIMIT])


def _lines(block: bytes) -> list[bytes]:
    """Pieces that end with a line feed, and the rest; a carriage return ends nothing."""
    *whole, rest = block.split(b"\n")
    return [each + b"\n" for each in whole] + ([rest] if rest else [])
