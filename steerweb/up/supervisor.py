"""Keeping the parts alive, and stopping them in order.

A part that dies is started again after a growing delay. Its death is seen at once: the supervisor waits on the
processes' own descriptors, with a timeout for what is due. Everything happens in the main thread, as children die with
the thread that started them (PR_SET_PDEATHSIG).
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol

from steerweb.services import Postgres, ServiceError, Valkey
from steerweb.services.process import Child, last_words

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 10.0
BLIND_S = 0.5  # between two looks where the kernel has no process descriptors
STEADY_S = 30.0  # after this time a death is a first one again
TICK_S = 15.0


class StopAsked(BaseException):
    """Ctrl-C or SIGTERM, raised where the main thread is; later ones are only counted."""


class Part(Protocol):
    """Something that is kept running."""

    @property
    def name(self) -> str:
        """How people call it."""

    @property
    def pid(self) -> int | None:
        """Its process."""

    @property
    def leaving_fd(self) -> int | None:
        """Readable once its process takes no more work but goes on with what it has; None: that never happens."""

    def replace(self) -> None:
        """Let the process that is leaving go on by itself, and start another in its place."""

    def start(self) -> None:
        """Start it; ServiceError with a sentence where that is impossible now."""

    def running(self) -> bool:
        """Whether its process is there."""

    def ask_to_stop(self) -> None:
        """Begin its orderly end."""

    def stop(self) -> None:
        """See to its end."""

    def last_words(self) -> str:
        """The last line it wrote, or nothing."""


class Program:
    """A part that is one of our own commands.

    `asked` tells how often people have asked for the end. A second request is handed on, and gives it `hurried_s` (0:
    it is killed at once); a third kills it. With `leaving` (read end of a pipe whose other end its processes have) it
    is replaced as soon as it takes no more work, and ends beside its successor.
    """

    def __init__(
        self,
        name: str,
        child: Child,
        patience_s: float,
        asked: Callable[[], int],
        *,
        hurried_s: float = 0.0,
        leaving: int | None = None,
    ) -> None:
        self._name = name
        self._child = child
        self._before: list[Child] = []
        self._patience_s, self._hurried_s = patience_s, hurried_s
        self._asked = asked
        self.leaving_fd = leaving

    @property
    def name(self) -> str:
        """How people call it."""
        return self._name

    @property
    def pid(self) -> int | None:
        """Its process."""
        return self._child.pid

    @property
    def pids(self) -> list[int]:
        """Its process, and those that are on their way out."""
        return [child.pid for child in self._all() if child.pid is not None and child.running()]

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self._child.start()

    def replace(self) -> None:
        """Let the process that is leaving go on by itself, and start another in its place."""
        if self.leaving_fd is not None:
            os.read(self.leaving_fd, 1)  # one byte per process that leaves
        leaving, self._child = self._child, self._child.another()
        self._before = [child for child in (*self._before, leaving) if child.running()]
        self.start()

    def running(self) -> bool:
        """Whether its process is there."""
        return self._child.running()

    def ask_to_stop(self) -> None:
        """SIGTERM: a worker hands its turns over, a web process closes its sockets."""
        for child in self._all():
            child.send(signal.SIGTERM)

    def stop(self) -> None:
        """Wait for its end as long as its patience lasts, less when somebody is in a hurry; then SIGKILL."""
        until = time.monotonic() + self._patience_s
        hurried = False
        while not all(child.wait(0.1) for child in self._all()):
            if self._asked() > 1 and not hurried:
                hurried, until = True, min(until, time.monotonic() + self._hurried_s)
                if self._hurried_s:
                    self.ask_to_stop()
            if time.monotonic() > until or self._asked() > 2:
                for child in self._all():
                    child.stop(signal.SIGKILL, 5)

    def last_words(self) -> str:
        """The last line of its log."""
        return last_words(self._child)

    def _all(self) -> list[Child]:
        return [*self._before, self._child]


class Service:
    """A part that is one of the embedded servers."""

    leaving_fd: Final = None

    def __init__(self, server: Postgres | Valkey) -> None:
        self._server = server

    @property
    def name(self) -> str:
        """How people call it."""
        return self._server.name

    @property
    def pid(self) -> int | None:
        """Its process."""
        return self._server.pid

    def replace(self) -> None:
        """A server never leaves by itself."""

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._server.start()

    def running(self) -> bool:
        """Whether its process is there."""
        return self._server.running()

    def ask_to_stop(self) -> None:
        """Nothing: `stop` takes milliseconds."""

    def stop(self) -> None:
        """Shut it down."""
        self._server.stop()

    def last_words(self) -> str:
        """The last line of its log."""
        return self._server.last_words()


@dataclass(slots=True)
class _Kept:
    part: Part
    started_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    due_at: float | None = None


class Supervisor:
    """The parts in the order they were started; `run()` returns only by `StopAsked`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._kept: list[_Kept] = []
        self._asked = 0

    def watch_signals(self) -> None:
        """Let Ctrl-C, SIGTERM and a closed terminal stop everything in order."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._asked += 1
        if self._asked == 1:
            raise StopAsked

    def asked(self) -> int:
        """How often a stop was asked for."""
        return self._asked

    def start(self, part: Part) -> None:
        """Start a part and keep it running from now on."""
        kept = _Kept(part, time.monotonic())
        self._kept.append(kept)
        part.start()

    def died(self) -> str | None:
        """What to say about the first part that does not run, None when all do."""
        for kept in self._kept:
            if not kept.part.running():
                return f"{kept.part.name} ended: {kept.part.last_words() or 'it wrote no reason'}"
        return None

    def run(self, tick: Callable[[], None]) -> None:
        """Restart what dies, until StopAsked; `tick` is called every quarter of a minute or so."""
        next_tick = time.monotonic() + TICK_S
        while True:
            for kept in self._kept:
                self._look_after(kept)
            now = time.monotonic()
            if now >= next_tick:
                tick()
                next_tick = now + TICK_S
            self._wait(min([kept.due_at for kept in self._kept if kept.due_at is not None] + [next_tick]) - now)

    def stop(self) -> None:
        """Stop everything in the reverse order; parts of one kind (workers) together."""
        self._asked = max(self._asked, 1)
        rest = [kept.part for kept in self._kept]
        while rest:
            kind = rest[-1].name.split()[0]
            together = [part for part in rest if part.name.split()[0] == kind]
            for part in together:
                part.ask_to_stop()
            for part in together:
                part.stop()
            rest = [part for part in rest if part not in together]

    def _look_after(self, kept: _Kept) -> None:
        part, now = kept.part, time.monotonic()
        if kept.due_at is None and part.leaving_fd is not None and _readable(part.leaving_fd):
            self._say(f"{part.name} is drained: it finishes what it runs, and another one starts in its place.")
            kept.started_at = now
            part.replace()
        elif kept.due_at is None:
            if part.running():
                return
            if now - kept.started_at > STEADY_S:
                kept.delay_s = FIRST_DELAY_S
            words = part.last_words()
            self._say(f"{part.name} ended{f' ({words})' if words else ''}; starting it again in {kept.delay_s:.1f} s.")
            kept.due_at = now + kept.delay_s
            kept.delay_s = min(kept.delay_s * 2, LONGEST_DELAY_S)
        elif now >= kept.due_at:
            kept.due_at, kept.started_at = None, now
            try:
                part.start()
            except ServiceError as problem:
                self._say(str(problem))
                kept.due_at = time.monotonic() + kept.delay_s
                kept.delay_s = min(kept.delay_s * 2, LONGEST_DELAY_S)
            else:
                self._say(f"{part.name} runs again.")

    def _wait(self, timeout_s: float) -> None:
        """Sleep until a running part ends or the time is over."""
        with contextlib.ExitStack() as stack:
            descriptors = []
            for kept in self._kept:
                if kept.due_at is None and kept.part.pid is not None:
                    try:
                        descriptor = os.pidfd_open(kept.part.pid)
                    except ProcessLookupError:
                        return
                    except OSError:
                        timeout_s = min(timeout_s, BLIND_S)
                        continue
                    stack.callback(os.close, descriptor)
                    descriptors.append(descriptor)
                    if kept.part.leaving_fd is not None:
                        descriptors.append(kept.part.leaving_fd)
            select.select(descriptors, [], [], max(timeout_s, 0))


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])
