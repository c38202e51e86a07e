"""How calls are kept together on this machine: in PID namespaces where the kernel allows it, by adoption elsewhere.

Probed once at start, by doing the real thing. As root a PID namespace is enough; anybody else needs a user namespace
around it, in which the tools keep their own user id. Where both are refused (most containers) every call has a
child-subreaper and a marker in its environment.
"""

import contextlib
import os
import pwd
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
    "namespace": "commands run as {user}, each in a process namespace of its own",
    "user-namespace": "commands run as {user}, each in a process and user namespace of its own",
    "marker": "commands run as {user}, each with a reaper of its own and a marker in its environment",
}


@dataclass(frozen=True, slots=True)
class Isolation:
    """One way of keeping a call's processes together. `words` say which, as which user, and why not a better way."""

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
            return Isolation(mode, _WORDS[mode].format(user=user_name()))
        refused = problem
    if wanted and wanted != "marker":
        raise ValueError(f"STEERWEB_ISOLATION is {wanted!r}: {refused or 'that needs root'}")
    words = _WORDS["marker"].format(user=user_name())
    return Isolation("marker", f"{words} (no process namespaces here: {refused})" if refused else words)


def user_name() -> str:
    """Who the commands run as: the name of this process's user, or its number where it has none."""
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


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
