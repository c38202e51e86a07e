"""`search`: lines that match a regular expression, in the files of the workspace; a process, so that a stop ends it."""

import asyncio
from typing import Any, Final

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
from sessions_app.worker.tools.beneath import place
from sessions_app.worker.tools.supervised import run_process
from sessions_app.worker.tools.transcript import decode

MATCHES: Final = 200
LINE_CHARACTERS: Final = 400
TIMEOUT_S: Final = 60
RAW_BYTES: Final = 4 * 1024 * 1024


class Search:
    """Searches with grep: extended regular expressions, no binary files, no `.git`."""

    name = "search"
    description = (
        "Search the text files of the workspace for lines that match an extended regular expression (grep -E); the "
        f"answer is `file:line:text`, {MATCHES} matches at most."
    )
    schema: Schema = schema(
        {
            "pattern": {"type": "string", "description": "The extended regular expression."},
            "path": {
                "type": "string",
                "description": "A file or directory to search; all of the workspace by default.",
            },
            "glob": {"type": "string", "description": "Only files with names like this, such as `*.py`."},
            "ignore_case": {"type": "boolean", "description": "Take upper and lower case as the same."},
        },
        "pattern",
    )
    changes: Changes | None = None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run grep until it ends, there are enough matches, or the turn is stopped."""
        argv = ["grep", "-HrnsIE", "-D", "skip", "--exclude-dir=.git", *_options(arguments)]
        with place(context.workspace, text_argument(arguments, "path", ".")) as found:
            argv += ["-e", text_argument(arguments, "pattern"), "--", f"./{found.shown}" if found.shown != "." else "."]
        matches = _Matches()
        end = await run_process(context.spec(argv, context.workspace, TIMEOUT_S), context, matches.add, matches.enough)
        if end is None:
            return ToolOutcome("interrupted", "The turn was stopped before the search began.")
        text, replaced = matches.text()
        if end.killed_by == "timeout":
            raise ToolError(f"the search took more than {TIMEOUT_S} s; narrow it with `path` or `glob`")
        if end.killed_by is not None and not matches.enough.is_set():
            return ToolOutcome("interrupted", text, ended=end.ended, surviving=end.surviving, replaced=replaced)
        if end.code == 2 and (not text or text.startswith("grep:")):
            raise ToolError(text or "the search failed: is the path there and readable?")
        return ToolOutcome("ok", text or "No line matches.", surviving=end.surviving, replaced=replaced)


class _Matches:
    """Collects grep's lines until there are enough."""

    def __init__(self) -> None:
        self.enough = asyncio.Event()
        self._raw = bytearray()
        self._lines = 0

    def add(self, data: bytes) -> None:
        if self.enough.is_set():
            return
        self._raw += data
        self._lines += data.count(b"\n")
        if self._lines > MATCHES or len(self._raw) > RAW_BYTES:
            self.enough.set()

    def text(self) -> tuple[str, bool]:
        text, replaced = decode(bytes(self._raw))
        # Only line feeds end a match; other separators that Python knows may stand in the text.
        lines = [line.removeprefix("./") for line in text.split("\n") if line]
        shown = [line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + " …" for line in lines[:MATCHES]]
        if self.enough.is_set():
            shown.append(f"[more than {len(shown)} lines match; narrow the search]")
        return "\n".join(shown), replaced


def _options(arguments: dict[str, Any]) -> list[str]:
    if not text_argument(arguments, "pattern"):
        raise BadArgumentsError("`pattern` is empty")
    glob = text_argument(arguments, "glob", "")
    return [*(["-i"] if flag_argument(arguments, "ignore_case") else []), *([f"--include={glob}"] if glob else [])]
