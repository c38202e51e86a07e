"""`shell`: a command line in the workspace, with live output, a time limit, and an end that takes everything along.

A command that is declared to run in the background outlives its call and its turn instead (E13).
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from sessions_app.worker.background_log import BackgroundLog
from sessions_app.worker.tools.base import (
    BadArgumentsError,
    Changes,
    Outcome,
    Schema,
    ToolContext,
    ToolError,
    ToolOutcome,
    flag_argument,
    number_argument,
    schema,
    text_argument,
)
from sessions_app.worker.tools.supervised import Kept, run_or_keep, run_process
from sessions_app.worker.tools.transcript import Transcript
from sessions_app.worker.warden.shapes import CallSpec, Exit

DEFAULT_TIMEOUT_S: Final = 600
LONGEST_TIMEOUT_S: Final = 24 * 3600
BACKGROUND_SETTLE_S: Final = 2.0
"""How long a background command may take to fail, or to say where it listens, before its call settles."""
MOST_IN_BACKGROUND: Final = 16
"""How many commands of one session run on at a time."""
NOT_RUN: Final = "The turn was stopped before the command began; nothing was run."


class Shell:
    """Runs a command line with bash, or sh where there is none."""

    name = "shell"
    description = (
        "Run a command line in the workspace with bash. Standard output and standard error come back together; the "
        "middle of a very long output is left out. Input is empty, there is no terminal. Every process the command "
        "leaves behind is ended with it. For a server or a watcher set `background` and run it in the foreground of "
        "the command line, without `&`: it then runs on after the call and the turn."
    )
    schema: Schema = schema(
        {
            "command": {"type": "string", "description": "The command line."},
            "timeout_s": {
                "type": "integer",
                "minimum": 1,
                "maximum": LONGEST_TIMEOUT_S,
                "description": f"Seconds after which the command is ended; {DEFAULT_TIMEOUT_S} by default, none in the "
                "background.",
            },
            "background": {
                "type": "boolean",
                "description": f"The call returns after {BACKGROUND_SETTLE_S:g} s and the command runs on, its output "
                "in a file that the result names.",
            },
        },
        "command",
    )
    changes: Changes = ("command", "command")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Run the command to its end, its time limit or the turn's stop, or until it has settled in the background."""
        command = text_argument(arguments, "command")
        background = flag_argument(arguments, "background")
        timeout_s: int | None = number_argument(arguments, "timeout_s", DEFAULT_TIMEOUT_S, 1, LONGEST_TIMEOUT_S)
        if not command.strip():
            raise BadArgumentsError("`command` is empty")
        if background and arguments.get("timeout_s") is None:
            timeout_s = None
        transcript = Transcript(context.emit)
        spec = context.spec([*_shell(), "-c", command], context.workspace, timeout_s)
        if background:
            return await _in_background(spec, context, transcript)
        return _outcome(await run_process(spec, context, transcript.add), spec, transcript)


async def _in_background(spec: CallSpec, context: ToolContext, transcript: Transcript) -> ToolOutcome:
    """An ordinary result for a command that ends soon; any other is kept, and heard of in its log from then on."""
    if len(context.keeper.running(context.session)) >= MOST_IN_BACKGROUND:
        raise ToolError(
            f"{MOST_IN_BACKGROUND} commands of this session run in the background, which is all it may have. Nothing "
            "was run. A person can end one, or one can be told to end itself."
        )
    # Before anything runs: where there can be no log, the model is told so, and nothing has to be ended.
    log = await asyncio.to_thread(BackgroundLog.create, context.scratch_home / "background", context.call)
    takers = [log.add, transcript.add]

    def take(data: bytes) -> None:
        for taker in takers:
            taker(data)

    try:
        end = await run_or_keep(spec, context, take, BACKGROUND_SETTLE_S)
    except BaseException:
        log.discard()
        raise
    if not isinstance(end, Kept):
        log.discard()
        return _outcome(end, spec, transcript)
    takers.remove(transcript.add)
    context.keeper.keep(spec, end.call, log)
    output, replaced = transcript.finish()
    note = (
        f"[It runs on in the background, its output goes to the file {log.path}, and it ends when a person stops it or "
        "the session's worker ends.]"
    )
    return ToolOutcome("ok", _with_note(output, note), replaced=replaced, background=end.processes)


def _outcome(end: Exit | None, spec: CallSpec, transcript: Transcript) -> ToolOutcome:
    if end is None:
        return ToolOutcome("interrupted", NOT_RUN)
    output, replaced = transcript.finish()
    outcome, note = _judge(end, spec.timeout_s)
    return ToolOutcome(outcome, _with_note(output, note), end.code, end.ended, end.surviving, replaced)


def _with_note(output: str, note: str) -> str:
    return f"{output.rstrip()}\n{note}".lstrip() if note else output


def _judge(end: Exit, timeout_s: float | None) -> tuple[Outcome, str]:
    """The outcome (a command that ended before its kill was not interrupted, C4) and what the output does not say."""
    if end.killed_by == "timeout":
        return "error", f"[ended after its time limit of {timeout_s:g} s]"
    if end.killed_by is not None:
        return "interrupted", ""
    if end.signal is not None:
        return "error", f"[ended by signal {end.signal}]"
    return ("ok" if end.code == 0 else "error"), ""


def _shell() -> list[str]:
    bash = Path("/bin/bash")
    return [str(bash), "--noprofile", "--norc"] if bash.exists() else ["/bin/sh"]
