"""Which processes belong to one call, and the signals that end them: a census, TERM, KILL, and a census again."""

import os
import signal
from dataclasses import dataclass, field

from sessions_app.engine.text import clean
from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.procfs import Stat
from sessions_app.worker.warden.shapes import Process

SLICE_S = 0.05
"""How long one round may hunt processes that fork faster than a census looks, before the warden's loop turns again."""
QUIET_LOOKS = 20
NAMED_AT_MOST = 200
"""Processes a settlement names; a fork bomb's thousands are killed all the same."""


@dataclass(slots=True)
class Tree:
    """The processes of one call.

    `root` is the warden's own child, `init` the call's first process (the same one without a namespace); both are ours
    and never named. Members are what descends from the root (orphans stay below `init`), what an earlier census saw,
    and, with `marks` (entries of the environment), whatever carries all of them. `strays` asks for orphans that fell
    through to the warden, which happens only when somebody kills `init` outside a namespace.
    """

    root: Stat
    init: Stat
    marks: frozenset[bytes] = frozenset()
    strays: bool = False
    seen: dict[tuple[int, int], Process] = field(default_factory=dict)

    def members(self) -> list[Stat]:
        """A census: every living process of the call now, each remembered with its command."""
        living = self._living()
        for stat in living:
            self._remember(stat)
        return living

    def running(self) -> list[Process]:
        """A census that remembers nobody: what ends by itself later was not ended by us (C4)."""
        return [_process(stat) for stat in self._living()[:NAMED_AT_MOST]]

    def _living(self) -> list[Stat]:
        table = procfs.scan()
        ours = {each.pid for each in (self.root, self.init) if _same(table, each)}
        roots = ours | {stat.pid for stat in table.values() if stat.identity in self.seen}
        if self.marks:
            roots |= {pid for pid in table if self.marks <= procfs.environment(pid)}
        if self.strays:
            roots |= {pid for pid in self._strays() if pid in table}
        found = (roots | procfs.descendants(table, roots)) - ours - {os.getpid()}
        return [table[pid] for pid in sorted(found) if table[pid].alive]

    def terminate(self) -> list[Stat]:
        """Ask every process to end, stopped ones too (they hear it once they go on); those that could be asked."""
        asked: dict[tuple[int, int], Stat] = {}
        # The near way first: a stop is felt in milliseconds, and the census behind it finds whoever that missed.
        for look in (self._near, self.members):
            for stat in look():
                if stat.identity not in asked and procfs.send(stat, signal.SIGTERM, signal.SIGCONT):
                    asked[stat.identity] = stat
        return list(asked.values())

    def kill(self, *, namespaced: bool) -> list[Stat]:
        """One round of SIGKILL; who was there. In a namespace its first process takes all others along."""
        members = self.members()
        for stat in members:
            procfs.send(stat, signal.SIGKILL)
        if namespaced:
            first = self._init_known and procfs.send(self.init, signal.SIGKILL)
            return members or ([self.init] if first else [])
        if self.strays:
            for pid in self._strays():
                procfs.kill_below(pid, SLICE_S / 10)
        elif procfs.send(self.init, signal.SIGCONT):
            # A tool may have stopped its reaper; that has to go on to reap the last of them and end.
            procfs.kill_below(self.init.pid, SLICE_S)
        return members

    def quiet(self) -> bool:
        """Whether no stray is seen in many quick looks: one that hops from child to child may slip through one."""
        for _ in range(QUIET_LOOKS if self.strays else 0):
            if any((stat := procfs.read_stat(pid)) and stat.alive for pid in self._strays()):
                return False
        return True

    def named(self, surviving: list[Stat]) -> tuple[list[Process], list[Process]]:
        """(ended, surviving): everything a census ever saw, split by what is still there."""
        left = {stat.identity for stat in surviving}
        if self.init.identity in left:
            self.seen.setdefault(self.init.identity, Process(self.init.pid, "[processes that start one another]"))
        ended = [process for identity, process in self.seen.items() if identity not in left]
        survived = [process for identity, process in self.seen.items() if identity in left]
        return ended[:NAMED_AT_MOST], survived[:NAMED_AT_MOST]

    @property
    def _init_known(self) -> bool:
        """Whether `init` is found already: in a namespace it is not the root."""
        return bool(self.marks) or self.init.pid != self.root.pid

    def _near(self) -> list[Stat]:
        """What descends from the call's first process, each remembered with its command."""
        near = procfs.below(self.init.pid) if self._init_known and procfs.same(self.init) else []
        for stat in near:
            self._remember(stat)
        return near

    def _strays(self) -> list[int]:
        """The warden's own children that are no other call's."""
        return [pid for pid in procfs.children(os.getpid()) if not self._foreign(pid)]

    def _remember(self, stat: Stat) -> None:
        if stat.identity not in self.seen:
            self.seen[stat.identity] = _process(stat)

    def _foreign(self, pid: int) -> bool:
        """Whether a child of the warden is another call's: every call's first process carries its marks."""
        entries = procfs.environment(pid)
        return any(entry.startswith(b"STEERWEB_CALL=") for entry in entries) and not self.marks <= entries


def _process(stat: Stat) -> Process:
    return Process(stat.pid, clean(procfs.command(stat.pid))[0])


def _same(table: dict[int, Stat], stat: Stat) -> bool:
    return stat.pid in table and table[stat.pid].identity == stat.identity
