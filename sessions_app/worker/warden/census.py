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
_HUNT_S: Final = 0.05


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
            _end(stat, named)
        if not left or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    still = {stat.identity for stat in left}
    return Processes(
        ended=tuple(process for identity, process in named.items() if identity not in still),
        surviving=tuple(process for identity, process in named.items() if identity in still),
    )


def _end(stat: Stat, named: dict[tuple[int, int], Process]) -> None:
    """End one process; a reaper outside a namespace ends by itself, once nothing is left below it: the proof."""
    role = next((entry for entry in procfs.environment(stat.pid) if entry.startswith(b"STEERWEB_INIT=")), None)
    if role == b"STEERWEB_INIT=marker":
        procfs.send(stat, signal.SIGCONT)
        procfs.kill_below(stat.pid, _HUNT_S)
        return
    if role is None:
        named.setdefault(stat.identity, Process(stat.pid, clean(procfs.command(stat.pid))[0]))
    procfs.send(stat, signal.SIGKILL)


def _marked(mark: bytes) -> list[Stat]:
    """What carries the mark and what descends from it, deepest first as far as pids tell."""
    table = procfs.scan()
    marked = {pid for pid in table if mark in procfs.environment(pid)}
    spared, pid = set[int](), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    found = (marked | procfs.descendants(table, marked)) - spared
    return [table[pid] for pid in sorted(found, reverse=True) if table[pid].alive]
