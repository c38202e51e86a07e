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


def kill_marked(worker_id: str, turn: str | None = None) -> Processes:
    """Kill everything that carries the worker's marker or descends from what does, and say what ended and what did not.

    With `turn` only what also carries that turn's marker: the worker may live and have other turns (E9).
    Blocks for up to 3 s. Spares the caller and what it descends from. Sees only processes whose environment this user
    may read, so the proof holds for workers of the same user, or as root.
    """
    marks = {f"STEERWEB_WORKER={worker_id}".encode()}
    if turn is not None:
        marks.add(f"STEERWEB_TURN={turn}".encode())
    named: dict[tuple[int, int], Process] = {}
    deadline = time.monotonic() + KILL_S
    while True:
        left = _marked(marks)
        roles = {stat.identity: _role(stat) for stat in left}
        for stat in left:
            if roles[stat.identity] is None:
                named.setdefault(stat.identity, Process(stat.pid, clean(procfs.command(stat.pid))[0]))
        for stat in left:
            _end(stat, roles[stat.identity])
        if not left or time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    still = {stat.identity for stat in left}
    return Processes(
        ended=tuple(process for identity, process in named.items() if identity not in still),
        surviving=tuple(process for identity, process in named.items() if identity in still),
    )


def _role(stat: Stat) -> bytes | None:
    """What a process of ours is to a call: the isolation it stands for; None for a tool's own process."""
    entries = (entry.partition(b"=") for entry in procfs.environment(stat.pid))
    return next((mode for name, _, mode in entries if name == b"STEERWEB_INIT"), None)


def _end(stat: Stat, role: bytes | None) -> None:
    """End one process; a reaper outside a namespace ends by itself, once nothing is left below it: the proof."""
    if role != b"marker":
        procfs.send(stat, signal.SIGKILL)
        return
    if procfs.send(stat, signal.SIGCONT):
        procfs.kill_below(stat.pid, _HUNT_S)


def _marked(marks: set[bytes]) -> list[Stat]:
    """What carries the marks and what descends from it; parents first as far as pids tell: none sees a child go."""
    table = procfs.scan()
    marked = {pid for pid in table if marks <= procfs.environment(pid)}
    spared, pid = set[int](), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    found = (marked | procfs.descendants(table, marked)) - spared
    return [table[pid] for pid in sorted(found) if table[pid].alive]
