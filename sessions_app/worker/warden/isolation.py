"""How calls are kept together on this machine: in PID namespaces where the kernel allows it, by adoption elsewhere.

Probed once at start, by doing the real thing. As root a PID namespace is enough; anybody else needs a user namespace
around it, in which the tools keep their own user id. Where both are refused (most containers) every call has a
child-subreaper and a marker in its environment.
"""

import os
import subprocess
from dataclasses import dataclass
from typing import Final, Literal

Mode = Literal["namespace", "user-namespace", "marker"]

_OWN_PIDS: Final = ("--pid", "--fork", "--kill-child", "--mount-proc", "--")
_PREFIXES: Final[dict[Mode, tuple[str, ...]]] = {
    "namespace": ("unshare", *_OWN_PIDS),
    "user-namespace": ("unshare", "--user", "--map-current-user", *_OWN_PIDS),
    "marker": (),
}
_WORDS: Final[dict[Mode, str]] = {
    "namespace": "every command runs in a process namespace of its own",
    "user-namespace": "every command runs in a process and user namespace of its own",
    "marker": "every command has a reaper of its own and a marker in its environment",
}


@dataclass(frozen=True, slots=True)
class Isolation:
    """One way of keeping a call's processes together. `words` say which, and why not a better one, for people."""

    mode: Mode
    words: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """What comes before a call's first process on its command line."""
        return _PREFIXES[self.mode]

    @property
    def namespaced(self) -> bool:
        """Whether the death of the call's first process is the death of all of them."""
        return self.mode != "marker"


def choose(wanted: str | None = None) -> Isolation:
    """The best way that works here, or the `wanted` one if it does; raises ValueError for an unknown or refused one."""
    if wanted and wanted not in _PREFIXES:
        raise ValueError(f"STEERWEB_ISOLATION is {wanted!r}; it may be {', '.join(_PREFIXES)}")
    modes: list[Mode] = ["namespace", "user-namespace"] if os.geteuid() == 0 else ["user-namespace"]
    refused = ""
    for mode in modes:
        if wanted not in (None, "", mode):
            continue
        problem = _problem(mode)
        if problem is None:
            return Isolation(mode, _WORDS[mode])
        refused = problem
    if wanted and wanted != "marker":
        raise ValueError(f"STEERWEB_ISOLATION is {wanted!r}: {refused or 'that needs root'}")
    return Isolation("marker", _WORDS["marker"] + (f" (no process namespaces here: {refused})" if refused else ""))


def _problem(mode: Mode) -> str | None:
    """Why this mode does not work here, in the system's own words; None when it does."""
    try:
        done = subprocess.run(
            [*_PREFIXES[mode], "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return done.stderr.decode("utf-8", "replace").strip()[:200] or f"unshare ended with {done.returncode}"
