"""`write_file`: a whole file in the workspace, new or in place of the old one."""

import asyncio
from pathlib import Path
from typing import Any

from sessions_app.worker.tools.base import Changes, Schema, ToolContext, ToolOutcome, schema, text_argument
from sessions_app.worker.tools.beneath import place
from sessions_app.worker.tools.saving import save


class WriteFile:
    """Writes a file as a whole."""

    name = "write_file"
    description = (
        "Write a whole text file in the workspace. Missing directories are made, an existing file is replaced."
    )
    schema: Schema = schema(
        {
            "path": {"type": "string", "description": "The file, relative to the workspace."},
            "content": {"type": "string", "description": "All of its text."},
        },
        "path",
        "content",
    )
    changes: Changes = ("path", "path")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Write it in a thread; the old content stands until the new one is complete."""
        path, content = text_argument(arguments, "path"), text_argument(arguments, "content")
        return ToolOutcome("ok", await asyncio.to_thread(_write, context.workspace, path, content.encode()))


def _write(workspace: Path, path: str, content: bytes) -> str:
    with place(workspace, path, make_folders=True) as found:
        made = save(found, content, path)
        lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        return f"{'Made' if made else 'Replaced'} {found.shown}: {lines} lines, {len(content):,} bytes."
