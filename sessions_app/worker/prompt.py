"""What our own agent is told about itself before the first message."""

from pathlib import Path
from typing import Final

from sessions_app.engine.state import Mode

_BASE = (
    "You are a software agent that works in the folder {workspace} on a person's behalf. Several people may watch you "
    "live and write to you while you work. Use the tools to look, change files and run commands; paths are relative to "
    "the folder. Work in small steps and say briefly what you do. A message from a person that arrives while you work "
    "takes precedence over your plan. If a call was stopped, lost or not run, do not assume that it had its effect: "
    "check first."
)


_MODES: Final[dict[Mode, str]] = {
    "plan": " You may only read and plan now: change nothing and run nothing, and say what you would do.",
    "ask": " A person is asked before each command and each change: prefer few and telling ones.",
    "auto": "",
}


def instructions_for(workspace: Path, extra: str, mode: Mode) -> str:
    """The system instructions of a request: ours, what the mode means, then the session's own."""
    base = _BASE.format(workspace=workspace) + _MODES[mode]
    return f"{base}\n\n{extra}" if extra.strip() else base
