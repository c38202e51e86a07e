"""`shell`: a command line in the workspace, with live output, a time limit, and an end that takes everything along."""

from pathlib import Path
from typing import Any, Final

from sessions_app.worker.tools.base import (
    BadArgumentsError,
    Changes,
    Outcome,
    Schema,
    ToolContext,
    ToolOutcome,
    number_argument,
    schema,
    text_argument,
)
from sessions_app.worker.tools.supervised import run_process
from sessions_app.worker.tools.transcript import Transcript
from sessions_app.worker.warden.shapes import Exit

DEFAULT_TIMEOUT_S: Final = 600
LONGEST_TIMEOUT_S: Final = 24 * 3600
NOT_RUN: Final = "The turn was stopped before the command began; nothing was run."


class Shell:
    """Runs a command line with bash, or sh where there is none."""

    name = "shell"
    description = (
        "Run a command line in the workspace with bash. Standard output and standard error come back together; the "
        "middle of a very long output is left out. Input is empty, there is no terminal. Every process the command "
        "leaves behind is ended with it."
    )
    schema: Schema = schema(
        {
            "command": {"type": "string", "description": "The command line."},
            "timeout_s": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_TIMEOUT_S,
                "description": f"Seconds after which the command is ended; {DEFAULT_TIMEOUT_S} by default.",
            },
        },
        "command",
    )
    changes: Changes = ("command", "command")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run the command to its end, its time limit or the turn's stop."""
        command = text_argument(arguments, "command")
        timeout_s = number_argument(arguments, "timeout_s", DEFAULT_TIMEOUT_S, 1, LONGEST_TIMEOUT_S)
        if not command.strip():
            raise BadArgumentsError("`command` is empty")
        transcript = Transcript(context.emit)
        spec = context.spec([*_shell(), "-c", command], context.workspace, timeout_s)
        end = await run_process(spec, context, transcript.add)
        if end is None:
            return ToolOutcome("interrupted", NOT_RUN)
        output, replaced = transcript.finish()
        outcome, note = _judge(end, timeout_s)
        if note:
            output = f"{output.rstrip()}\n{note}".lstrip()
        return ToolOutcome(outcome, output, end.code, end.ended, end.surviving, replaced)


def _judge(end: Exit, timeout_s: int) -> tuple[Outcome, str]:
    """The outcome (a command that ended before its kill was not interrupted, C4) and what the output does not say."""
    if end.killed_by == "timeout":
        return "error", f"[ended after its time limit of {timeout_s} s]"
    if end.killed_by is not None:
        return "interrupted", ""
    if end.signal is not None:
        return "error", f"[ended by signal {end.signal}]"
    return ("ok" if end.code == 0 else "error"), ""


def _shell() -> list[str]:
    bash = Path("/bin/bash")
    return [str(bash), "--noprofile", "--norc"] if bash.exists() else ["/bin/sh"]
