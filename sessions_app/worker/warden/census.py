"""Ending every process of a worker on this host, from anywhere on it: the proof a fence or a sweep needs (E9, J6)."""

import os
import signal
import time
from typing import Final

from sessions_app.engine.text import clean
from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.procfs import Stat
from sessions_app.worker.warden.shapes import Process, Processes

KILL_S: Final = 3.0
_LOOK_S: Final = 0.01


def kill_marked(worker_id: str) -> Processes:
    """Kill everything that carries the worker's marker or descends from what does, and say what ended and what did not.

    Blocks for up to 3 s. Spares the caller and what it descends from. Sees only processes whose environment this user
    may read, so the proof holds for workers of the same user, or as root.
    """
    mark = f"STEERWEB_WORKER={worker_id}".encode()
    named: dict[tuple[int, int], Process] = {}
    deadline = time.monotonic() + KILL_S
    while True:
        left = _marked(mark)
        for stat in left:
            if b"STEERWEB_INIT=1" not in procfs.environment(stat.pid):
                named.setdefault(stat.identity, Process(stat.pid, clean(procfs.command(stat.pid))[0]))
        for stat in left:
            procfs.send(stat, signal.SIGKILL)
        if not left or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    still = {stat.identity for stat in left}
    return Processes(
        ended=tuple(process for identity, process in named.items() if identity not in still),
        surviving=tuple(process for identity, process in named.items() if identity in still),
    )


def _marked(mark: bytes) -> list[Stat]:
    table = procfs.scan()
    marked = {pid for pid in table if mark in procfs.environment(pid)}
    spared, pid = set[int](), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    found = (marked | procfs.descendants(table, marked)) - spared
    return [table[pid] for pid in sorted(found) if table[pid].alive]
