"""Looking at processes through /proc and signalling exactly the ones that were seen. Standard library only."""

import os
import signal
import time
from collections.abc import Iterable
from typing import NamedTuple

COMMAND_CHARACTERS = 300


KERNEL = 2
"""The parent of the kernel's own threads, which have no command line either."""


class Stat(NamedTuple):
    """One process as /proc shows it at one moment; `started` is in clock ticks since boot."""

    pid: int
    parent: int
    state: str
    started: int

    @property
    def identity(self) -> tuple[int, int]:
        """What stays the same about it, and is no other's when its pid recurs."""
        return self.pid, self.started

    @property
    def alive(self) -> bool:
        """Whether it can still do anything: a zombie cannot."""
        return self.state not in "ZX"


def read_stat(pid: int) -> Stat | None:
    """The process with this pid now, or None."""
    # The name before the last parenthesis may itself hold spaces and parentheses.
    fields = _read(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    return Stat(pid, int(fields[1]), fields[0].decode(), int(fields[19])) if len(fields) > 19 else None


def scan() -> dict[int, Stat]:
    """Every process that is visible from here, by pid; zombies too. A few milliseconds for some hundred processes."""
    table = {}
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and (stat := read_stat(int(entry.name))) is not None:
                table[stat.pid] = stat
    return table


def descendants(table: dict[int, Stat], roots: Iterable[int]) -> set[int]:
    """The pids below `roots` (without them) in one scan's parent links."""
    children: dict[int, list[int]] = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    waiting, found = list(roots), set[int]()
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def children(pid: int) -> list[int]:
    """The children of a process, oldest first, zombies too; much cheaper than a scan."""
    path = f"/proc/{pid}/task/{pid}/children"
    listed = [int(each) for each in _read(path, 1024 * 1024).split()]
    if listed or os.access(path, os.F_OK):
        return listed
    # A kernel without CONFIG_PROC_CHILDREN; where the process is gone the scan finds none either.
    return sorted(each.pid for each in scan().values() if each.parent == pid)


def first_child(pid: int) -> int | None:
    """The oldest child of a process, or None."""
    return next(iter(children(pid)), None)


def below(pid: int) -> list[Stat]:
    """The living processes below a process, parents first, by way of `children`."""
    found: list[Stat] = []
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            stat = read_stat(child)
            if stat is not None and stat.alive:
                found.append(stat)
                waiting.append(child)
    return found


def kill_below(pid: int, for_s: float) -> bool:
    """SIGKILL everything below a process, as fast as it can be found, for a time; whether nothing was left.

    Against processes that fork and exit faster than `scan` looks: their orphans come back as children of the reaper.
    """
    until = time.monotonic() + for_s
    while True:
        left = below(pid)
        for stat in left:
            send(stat, signal.SIGKILL)
        if not left or time.monotonic() > until:
            return not left


def environment(pid: int) -> frozenset[bytes]:
    """The `NAME=value` entries a process was started with; empty where it is gone or not ours to read."""
    return frozenset(filter(None, _read(f"/proc/{pid}/environ", 4 * 1024 * 1024).split(b"\0")))


def begins_namespace(pid: int) -> bool:
    """Whether it is the first process of a namespace below this one; also of one that is dying."""
    lines = _read(f"/proc/{pid}/status", 8192).splitlines()
    numbers = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == b"1"


def command(pid: int) -> str:
    """The command line of a process, cut to 300 characters; its name in brackets where there is none."""
    text = _read(f"/proc/{pid}/cmdline", 8 * COMMAND_CHARACTERS).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    if not text:
        text = f"[{_read(f'/proc/{pid}/comm', 64).decode('utf-8', 'replace').strip()}]"
    return text if len(text) <= COMMAND_CHARACTERS else text[: COMMAND_CHARACTERS - 1] + "…"


def same(stat: Stat) -> bool:
    """Whether this very process, not a later one with its pid, is still alive."""
    now = read_stat(stat.pid)
    return now is not None and now.identity == stat.identity and now.alive


def send(stat: Stat, *signals: signal.Signals) -> bool:
    """Signal exactly this process; False when it was gone or is not ours to signal."""
    try:
        handle = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return False
    except OSError:
        # Kernels and sandboxes without pidfds: what is left is the instant between the look and the signal.
        handle = -1
    sent = False
    try:
        # Looked at after the handle is held: a pid that was reused in between is somebody else's.
        for each in signals if same(stat) else ():
            if handle < 0:
                os.kill(stat.pid, each)
            else:
                signal.pidfd_send_signal(handle, each)
            sent = True
    except OSError:
        return sent  # the first signal may end it before the second
    finally:
        if handle >= 0:
            os.close(handle)
    return sent


def _read(path: str, limit: int) -> bytes:
    """Up to `limit` bytes of a file of /proc; empty when it is gone or refused. Plain calls: a scan opens hundreds."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    data = b""
    try:
        while len(data) < limit and (piece := os.read(handle, limit - len(data))):
            data += piece
    except OSError:
        return data
    finally:
        os.close(handle)
    return data
