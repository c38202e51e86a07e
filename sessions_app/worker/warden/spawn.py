"""Starting a call's first process: clean environment, no descriptor of ours, and bound to the warden's life."""

import ctypes
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.isolation import Isolation, user_name
from sessions_app.worker.warden.procfs import Stat
from sessions_app.worker.warden.shapes import CallSpec

_INIT: Final = Path(__file__).with_name("init.py")
_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_PRCTL: Final = ctypes.CDLL(None, use_errno=True).prctl


@dataclass(frozen=True, slots=True)
class Spawned:
    """A started first process, `root`, and the read ends of its status and output pipes."""

    root: Stat
    status: int
    output: int


def adopt_orphans() -> None:
    """Make this process the parent of what its children orphan."""
    _PRCTL(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def keep_private() -> None:
    """Keep other processes of this user, such as tools, out of this one's memory and environment."""
    _PRCTL(_SET_DUMPABLE, 0, 0, 0, 0)


def spawn(spec: CallSpec, worker: str, isolation: Isolation) -> Spawned:
    """Start a call's first process; raises OSError (no such directory, no more processes)."""
    status_in, status_out = os.pipe()
    output_in, output_out = os.pipe()
    warden = os.getpid()
    # A namespace ends with its first process. Elsewhere that process must live to end the others: it gets a TERM.
    at_death = signal.SIGKILL if isolation.namespaced else signal.SIGTERM

    def bind() -> None:
        _PRCTL(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _PRCTL(_SET_PDEATHSIG, int(at_death), 0, 0, 0)
        if os.getppid() != warden:
            os._exit(1)

    told = [str(status_out), str(output_out), "0" if isolation.namespaced else str(warden)]
    try:
        popen = subprocess.Popen(
            [*isolation.prefix, sys.executable, "-I", "-S", str(_INIT), *told, *spec.argv],
            cwd=spec.cwd,
            env=environment(spec, worker) | {"STEERWEB_INIT": isolation.mode},
            stdin=subprocess.DEVNULL,
            # Only the command writes to its output: unshare has words of its own when its child is killed.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(status_out, output_out),
            start_new_session=True,
            # Safe here: the warden has one thread, and what runs before exec takes no lock.
            preexec_fn=bind,
        )
    except BaseException:
        os.close(status_in)
        os.close(output_in)
        raise
    finally:
        os.close(status_out)
        os.close(output_out)
    for handle in (status_in, output_in):
        os.set_blocking(handle, False)
    # The warden reaps every child itself, adopted ones too, and Popen must not wait for this one.
    popen.returncode = 0
    # Not reaped before the loop runs again, so its entry in /proc is there even when it has ended.
    root = procfs.read_stat(popen.pid) or Stat(popen.pid, warden, "X", 0)
    return Spawned(root, status_in, output_in)


def environment(spec: CallSpec, worker: str) -> dict[str, str]:
    """Everything a tool's process is told: nothing of the worker's own environment but a search path."""
    return {
        "PATH": search_path(),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": user_name(),
        **spec.env,
        **{name: value.replace("\0", "") for name, value in marks(spec).items()},
        "STEERWEB_WORKER": worker,
    }


def marks(spec: CallSpec) -> dict[str, str]:
    """The markers by which a call's processes are found; a call's id alone may recur in another session."""
    return {"STEERWEB_TURN": spec.turn, "STEERWEB_CALL": spec.call}


@lru_cache(maxsize=1)
def search_path() -> str:
    """The worker's PATH without steerweb's own virtual environment: a tool's `python` is the machine's."""
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else None
    given = os.environ.get("PATH", "").split(os.pathsep)
    kept = [each for each in given if each.startswith("/") and each != own]
    return os.pathsep.join(kept or ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
