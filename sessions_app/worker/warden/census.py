"""Ending every process of a worker on this host, from anywhere on it: the proof a fence or a sweep needs (E9, J6)."""

import os
import signal
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from sessions_app.engine.text import clean
from sessions_app.log.secrets import mask
from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.procfs import Stat
from sessions_app.worker.warden.shapes import Process, Processes

KILL_S: Final = 3.0
_LOOK_S: Final = 0.01
_HUNT_S: Final = 0.05


def kill_marked(
    worker_id: str, turn: str | None = None, call: str | None = None, *, for_s: float = KILL_S
) -> Processes:
    """Kill everything that carries the worker's marker or descends from what does, and say what ended and what did not.

    With `turn` only what also carries that turn's marker: the worker may live and have other turns (E9); with `call`
    only what carries that call's, too. Blocks for up to `for_s`; 0: looks once. Spares the caller and what it descends
    from. Sees only processes whose environment this user may read, so the proof holds for workers of the same user, or
    as root.
    """
    marks = {f"STEERWEB_WORKER={worker_id}".encode()}
    if turn is not None:
        marks.add(f"STEERWEB_TURN={turn}".encode())
    if call is not None:
        marks.add(f"STEERWEB_CALL={call}".encode())
    named: dict[tuple[int, int], Process] = {}
    roles: dict[tuple[int, int], bytes | None] = {}
    deadline = time.monotonic() + for_s
    while True:
        left = _marked(marks, roles)
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


def is_there(named: Mapping[str, Any]) -> bool:
    """Whether a process that was named as `{pid, command}` lives still; a later one with its pid has other words.

    One that hangs while it ends has none any more, and counts; so does a later one where the words were erased.
    """
    stat = procfs.read_stat(int(named["pid"]))
    if stat is None or not stat.alive:
        return False
    now = procfs.command(stat.pid)
    dying = now.startswith("[") and stat.parent != procfs.KERNEL
    return dying or not isinstance(named["command"], str) or mask(clean(now)[0]) == named["command"]


def _role(pid: int, environment: Collection[bytes]) -> bytes | None:
    """What a process of ours is to a call: the isolation it stands for; None for a tool's own process.

    A namespace's first process that another has killed, as a dying warden does, waits for those below it: what it was
    stands in no environment any more.
    """
    entries = (entry.partition(b"=") for entry in environment)
    mode = next((mode for name, _, mode in entries if name == b"STEERWEB_INIT"), None)
    return b"namespace" if mode is None and not environment and procfs.begins_namespace(pid) else mode


def _end(stat: Stat, role: bytes | None) -> None:
    """End one process; a reaper outside a namespace ends by itself, once nothing is left below it: the proof."""
    if role != b"marker":
        procfs.send(stat, signal.SIGKILL)
        return
    if procfs.send(stat, signal.SIGCONT):
        procfs.kill_below(stat.pid, _HUNT_S)


def _marked(marks: set[bytes], roles: dict[tuple[int, int], bytes | None]) -> list[Stat]:
    """What carries the marks and what descends from it; parents first as far as pids tell: none sees a child go.

    Also what is in `roles` from before: a process that is dying has no marks any more, and may wait for one below it.
    What is new gets its role, by the same look at it that has found it.
    """
    table = procfs.scan()
    environments = {pid: procfs.environment(pid) for pid in table}
    marked = {pid for pid, stat in table.items() if stat.identity in roles or marks <= environments[pid]}
    spared, pid = set[int](), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    found = (marked | procfs.descendants(table, marked)) - spared
    left = [table[pid] for pid in sorted(found) if table[pid].alive]
    for stat in left:
        roles.setdefault(stat.identity, _role(stat.pid, environments[stat.pid]))
    return left
