"""One call from its start to the proof that nothing of it is left.

Three things may come first: the command's own end, a kill, or the loss of its first process. Whatever it is, the whole
tree ends with the call: TERM to all, KILL after the grace, and a census that names what is still there (E7). Whether
the command or the kill was first is read from the clock of the process that reaped it, not from the order in which the
news arrived here: a command that had finished is never called killed (C4).
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.isolation import Isolation
from sessions_app.worker.warden.output import Output
from sessions_app.worker.warden.procfs import Stat
from sessions_app.worker.warden.shapes import CallSpec, Exit, KilledBy, Patience, Process, Processes
from sessions_app.worker.warden.spawn import marks, spawn
from sessions_app.worker.warden.tree import Tree

START_S = 5.0
"""How long a start may take to be heard of: a tool that stops its reaper at once would silence it for ever."""
KILL_S = 2.0
"""How long SIGKILL may take before what is left counts as surviving."""
SURVIVORS_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How the command itself ended, and when by the monotonic clock; neither code nor signal: its reaper was killed."""

    code: int | None
    signal: int | None
    at_ns: int


class Call:
    """One running call. `run()` is its life and returns its `Exit`; raises OSError when the command cannot run."""

    def __init__(self, spec: CallSpec, worker: str, isolation: Isolation, patience: Patience) -> None:
        self.spec = spec
        self.report_reason: str | None = None
        # Declared to run on in the background: it has no more to do with its turn (E13).
        self.kept = False
        self.result: Exit | None = None
        self._worker, self._isolation, self._patience = worker, isolation, patience
        loop = asyncio.get_running_loop()
        self._running: asyncio.Future[None] = loop.create_future()
        self._command: asyncio.Future[CommandEnd] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._kill: asyncio.Future[KilledBy] = loop.create_future()
        self._main: Stat | None = None
        # The root was killed, by us or by somebody else: what it was to take along has to be looked for.
        self._lost = False
        # When the command was asked to end; None while it was not, or had ended before it could be.
        self._termed_ns: int | None = None
        self._tree: Tree | None = None
        self._output: Output | None = None
        self._status, self._status_handle = b"", -1
        # Where a kill comes first nobody asks how the start went.
        self._running.add_done_callback(lambda future: future.exception())

    @property
    def pid(self) -> int:
        """The pid of the warden's own child for this call; 0 before it started."""
        return self._tree.root.pid if self._tree else 0

    @property
    def output_tail(self) -> str:
        """The last 64 KiB of the output so far."""
        return self._output.tail.text() if self._output else ""

    @property
    def processes(self) -> Processes:
        """What was ended and what survived; empty before the end."""
        return Processes(tuple(self.result.ended), tuple(self.result.surviving)) if self.result else Processes()

    @property
    def ending(self) -> bool:
        """Whether its end has come already, by itself or by a kill."""
        return self._command.done() or self._kill.done()

    def running(self) -> list[Process]:
        """The living processes of a call that has started."""
        self._learn_first()
        return self._tree.running() if self._tree else []

    def kill(self, by: KilledBy) -> None:
        """End the call's whole tree; the first reason stands, a call that has ended already stays as it was."""
        if not self._kill.done():
            self._kill.set_result(by)

    def wake(self) -> None:
        """The worker takes output again."""
        if self._output:
            self._output.wake()

    def root_ended(self, status: int) -> None:
        """The warden has reaped this call's root; in a namespace nothing of the call is left then."""
        self._read_status()
        if not self._running.done():
            self._running.set_exception(OSError("the call's first process ended before its command ran"))
        if not self._command.done():
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            self._command.set_result(CommandEnd(None, killed, time.monotonic_ns()))
        self._lost = status != 0
        if self._tree:
            self._tree.strays = self._lost and not self._isolation.namespaced
        if not self._gone.done():
            self._gone.set_result(None)

    async def run(
        self, on_started: Callable[[int], None], forward: Callable[[bytes], None], may_read: Callable[[], bool]
    ) -> Exit:
        """Start the command, see it through, end what it leaves behind."""
        started_ns = time.monotonic_ns()
        spawned = spawn(self.spec, self._worker, self._isolation)
        loop = asyncio.get_running_loop()
        entries = frozenset(f"{name}={value}".encode() for name, value in marks(self.spec).items())
        self._tree = Tree(spawned.root, spawned.root, frozenset() if self._isolation.namespaced else entries)
        self._output = Output(spawned.output, forward, may_read)
        self._status_handle = spawned.status
        loop.add_reader(spawned.status, self._read_status)
        try:
            await _first(self._running, self._kill, timeout_s=START_S)
            self._raise_if_unable()
            self._learn_first()
            if not self._kill.done():
                on_started(spawned.root.pid)
            await self._command_or_kill()
            self._raise_if_unable()
            surviving = await self._end_tree()
        finally:
            loop.remove_reader(spawned.status)
            os.close(spawned.status)
            self._status_handle = -1
            self._output.close()
        self.result = self._exit(surviving, started_ns)
        return self.result

    async def survivors_gone(self) -> None:
        """Until those that outlived SIGKILL have ended all the same; it is sent to them again and again."""
        left = await self._kill_rest(0)
        while left:
            await _first(self._gone, timeout_s=SURVIVORS_LOOK_S)
            left = await self._kill_rest(0)

    def _raise_if_unable(self) -> None:
        """Raise what kept the command from running; a kill that came first is what counts otherwise."""
        if self._running.done() and not self._kill.done():
            self._running.result()

    async def _command_or_kill(self) -> None:
        """Until the command has ended, or a kill or the time limit has come."""
        await _first(self._command, self._kill, timeout_s=self.spec.timeout_s)
        self._read_status()
        if not self._command.done():
            self.kill("timeout")
        elif not self._kill.done():
            await _first(self._gone, self._kill, timeout_s=self._patience.linger_s)

    async def _end_tree(self) -> list[Stat]:
        """TERM, grace, KILL until nothing is left or KILL_S have passed; the survivors."""
        assert self._tree is not None
        if self._proven:
            return []
        self._learn_first()
        now_ns = time.monotonic_ns()
        asked = self._tree.terminate()
        if self._main is None or self._main.identity in {stat.identity for stat in asked}:
            self._termed_ns = now_ns
        if asked:
            await _first(self._gone, timeout_s=self._patience.grace_s)
        return await self._kill_rest(KILL_S)

    @property
    def _proven(self) -> bool:
        """Whether nothing can be left: the first process ends by itself only when it has no child any more."""
        return self._gone.done() and not self._lost

    async def _kill_rest(self, for_s: float) -> list[Stat]:
        """SIGKILL until there is nothing left, as far as can be told; the survivors when the time is over."""
        assert self._tree is not None
        deadline = time.monotonic() + for_s
        while not self._proven:
            left = self._tree.kill(namespaced=self._isolation.namespaced)
            if not left and self._gone.done() and self._tree.quiet():
                break
            if time.monotonic() > deadline:
                return left or ([] if self._gone.done() else [self._tree.init])
            await (asyncio.sleep(0.005) if self._gone.done() else _first(self._gone, timeout_s=0.01))
            self._learn_first()
        return []

    def _learn_first(self) -> None:
        """Find the call's first process (in a namespace the root's child, elsewhere the root) and its command's."""
        if self._tree is None:
            return
        if self._isolation.namespaced and self._tree.init.pid == self._tree.root.pid:
            self._tree.init = _child_of(self._tree.root) or self._tree.root
        if self._main is None and (self._tree.init.pid != self._tree.root.pid or not self._isolation.namespaced):
            self._main = _child_of(self._tree.init)

    def _read_status(self) -> None:
        """News from the call's first process."""
        if self._status_handle < 0:
            return
        with contextlib.suppress(OSError):
            data = os.read(self._status_handle, 4096)
            if not data:
                asyncio.get_running_loop().remove_reader(self._status_handle)
            self._status += data
        *lines, self._status = self._status.split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"S" and not self._running.done():
                self._running.set_result(None)
            elif word == b"F" and not self._running.done():
                number = int(numbers[0])
                self._running.set_exception(OSError(number, os.strerror(number), self.spec.argv[0]))
            elif word == b"E" and not self._command.done():
                code, killed, at_ns = (int(each) for each in numbers)
                self._command.set_result(CommandEnd(_known(code), _known(killed), at_ns))

    def _exit(self, surviving: list[Stat], started_ns: int) -> Exit:
        assert self._tree is not None
        end = self._command.result() if self._command.done() else CommandEnd(None, None, time.monotonic_ns())
        by = self._kill.result() if self._kill.done() else None
        if self._termed_ns is None or end.at_ns < self._termed_ns:
            by = None
        ended, left = self._tree.named(surviving)
        return Exit(end.code, end.signal, ended, left, by, (end.at_ns - started_ns) // 1_000_000)


def _child_of(stat: Stat) -> Stat | None:
    child = procfs.first_child(stat.pid)
    return procfs.read_stat(child) if child else None


async def _first(*futures: "asyncio.Future[Any]", timeout_s: float | None = None) -> None:
    """Until one of these is done, or the time is over."""
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _known(number: int) -> int | None:
    return None if number < 0 else number
