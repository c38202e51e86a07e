"""What the worker and its warden tell each other about calls and processes: plain values, JSON-able both ways."""

from dataclasses import dataclass, field
from typing import Any, Literal

KilledBy = Literal["stop", "timeout", "lapse", "worker"]
"""Why a call was killed: a stop (mark or worker), its own time limit, the lapsed lease, the worker's death."""


class WardenError(OSError):
    """A call that could not be started, or a warden that is not there any more; the text says which, in words."""


class TurnMarkedError(WardenError):
    """The turn is marked: the call was not started and nothing ran (E2)."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a tool: its pid on this host and its command line, at most 300 characters, clean (A6)."""

    pid: int
    command: str

    def to_json(self) -> dict[str, object]:
        """`{"pid", "command"}`, as in `ToolSettled`."""
        return {"pid": self.pid, "command": self.command}


@dataclass(frozen=True, slots=True)
class Processes:
    """What a kill found: processes that ended, and those that were still there after SIGKILL (E7)."""

    ended: tuple[Process, ...] = ()
    surviving: tuple[Process, ...] = ()

    def to_json(self) -> dict[str, list[dict[str, object]]]:
        """`{"ended": [...], "surviving": [...]}`, as in `warden_report.processes`."""
        named = {"ended": self.ended, "surviving": self.surviving}
        return {kind: [each.to_json() for each in processes] for kind, processes in named.items()}


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One process to run for one call. `env` is added to the warden's clean environment, `timeout_s` in seconds."""

    call: str
    turn: str
    session: str
    loop: str
    epoch: int
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds, the processes of a call may take to end.

    `grace_s`: between TERM and KILL (E7). `linger_s`: by themselves after their command, before they are asked to: a
    `tee` behind it still has lines to write (E13).
    """

    grace_s: float = 1.0
    linger_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Exit:
    """How a call ended: `code` or `signal` of its main command (both None when nobody could see it).

    `killed_by` is None for a command that had ended by itself before its kill reached it (C4). `ended` and `surviving`
    are what the warden killed of its tree and what outlived SIGKILL (E7).
    """

    code: int | None
    signal: int | None
    ended: list[Process]
    surviving: list[Process]
    killed_by: KilledBy | None
    duration_ms: int


@dataclass(frozen=True, slots=True)
class SurvivorsNews:
    """What had outlived a call's SIGKILL has ended at last (E7)."""

    session: str
    loop: str
    turn: str
    call: str
    ended: list[Process]


def processes_from_json(value: list[dict[str, Any]]) -> list[Process]:
    """The inverse of `Process.to_json` for a list."""
    return [Process(int(each["pid"]), str(each["command"])) for each in value]
