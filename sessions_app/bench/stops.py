"""The stop: from the frame that one client sends until another one, on another socket, has the terminal event, and
until the work is dead.

A shell call runs `while true` and has a child that left its session and process group (`setsid`); it is dead once both
have exited. The kernel tells that through their descriptors: looking into /proc in a loop would take one of two cores.
A model's stream is dead once the model's server sees its connection closed.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from websockets.asyncio.client import ClientConnection, connect

from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.model import NAME, Model
from sessions_app.bench.stage import Stage
from sessions_app.ids import new_id

RUNS_S: Final = 0.4
"""How long the work runs before it is stopped: some systems lose a command that has got going."""
ONE_S: Final = 30.0
"""How long one try may take."""
BUDGET_S: Final = 30.0
"""No further try begins after so long; a slow machine has fewer tries."""
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Stop:
    """From the frame's sending: to the terminal event at the other client, and to the end of the work."""

    terminal_ms: Spread
    ended_ms: Spread


@dataclass(frozen=True, slots=True)
class Stops:
    """A shell call with an escaped child, and a model's stream."""

    shell: Stop
    stream: Stop


def measure(stage: Stage, model: Model, *, quick: bool) -> Stops:
    """Measure on a stage whose worker asks `model`."""
    stage.start_web()
    stage.start_worker()
    return asyncio.run(_measure(stage, model, 3 if quick else 30))


async def _measure(stage: Stage, model: Model, tries: int) -> Stops:
    session = stage.new_session("stops", NAME)
    address = f"ws://127.0.0.1:{stage.port}/ws/sessions/{session}/"
    headers = {"Authorization": f"Bearer {stage.token}"}
    async with (
        model.serving(),
        connect(address, additional_headers=headers) as sender,
        connect(address, additional_headers=headers) as other,
    ):
        clients = _Clients(sender, other)
        try:
            await _try(lambda: _stream(clients, model))  # the first turn loads the provider's library
            return Stops(
                await _tries(tries, lambda: _shell(clients)), await _tries(tries, lambda: _stream(clients, model))
            )
        finally:
            await clients.close()


async def _tries(count: int, once: Callable[[], Awaitable[tuple[float, float]]]) -> Stop:
    until = time.monotonic() + BUDGET_S
    found = [await _try(once)]
    while len(found) < count and time.monotonic() < until:
        found.append(await _try(once))
    return Stop(spread_of([terminal for terminal, _ in found]), spread_of([ended for _, ended in found]))


async def _try(once: Callable[[], Awaitable[tuple[float, float]]]) -> tuple[float, float]:
    async with asyncio.timeout(ONE_S):
        return await once()


class _Clients:
    """The client that sends, whose frames are read and dropped, and the one that watches."""

    def __init__(self, sender: ClientConnection, other: ClientConnection) -> None:
        self._sender, self._other = sender, other
        self._awaited: dict[str, asyncio.Future[float]] = {}
        self._reading = [asyncio.ensure_future(self._drop()), asyncio.ensure_future(self._read())]

    async def send(self, kind: str, **fields: Any) -> None:
        await self._sender.send(orjson.dumps({"t": kind, "id": new_id(), **fields}).decode())

    def expect(self, what: str) -> asyncio.Future[float]:
        """When (time.perf_counter) the other client reads the next event of a type, or the next `delta`."""
        return self._awaited.setdefault(what, asyncio.get_running_loop().create_future())

    async def _drop(self) -> None:
        async for _ in self._sender:
            pass

    async def _read(self) -> None:
        async for text in self._other:
            now = time.perf_counter()
            frame = orjson.loads(text)
            awaited = self._awaited.pop(frame.get("type") or frame["t"], None)
            if awaited is not None and not awaited.done():
                awaited.set_result(now)

    async def close(self) -> None:
        for reading in self._reading:
            reading.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)


async def _stop(clients: _Clients, ends: list[asyncio.Future[float]]) -> tuple[float, float]:
    """Stop what runs: seconds to the terminal event, and to the end of the work."""
    terminal, idle = clients.expect("TurnInterrupted"), clients.expect("SessionIdle")
    sent = time.perf_counter()
    await clients.send("interrupt")
    times = await terminal - sent, max(await asyncio.gather(*ends)) - sent
    await idle
    return times


async def _shell(clients: _Clients) -> tuple[float, float]:
    mark = f"steerweb-bench-{new_id()}"
    command = f"setsid sh -c ': {mark}; while :; do sleep 1; done' & while true; do date >> ticks; sleep 0.2; done"
    await clients.send("submit", text=f"tool {command}")
    found: list[int] = []
    while len(found) < 2:
        await asyncio.sleep(_LOOK_S)
        found = await asyncio.to_thread(_shells_with, mark)
    await asyncio.sleep(RUNS_S)
    return await _stop(clients, _deaths(found))


async def _stream(clients: _Clients, model: Model) -> tuple[float, float]:
    model.expect()
    delta = clients.expect("delta")
    await clients.send("submit", text="words 50")
    await delta
    await asyncio.sleep(RUNS_S)
    return await _stop(clients, [model.gone_at])


def _shells_with(mark: str) -> list[int]:
    """The command's own shell and the escaped one, by the mark in their command lines; empty until both run."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(mark.encode() in word for word in words) and words[0].rpartition(b"/")[2] in (b"bash", b"sh"):
            # The escaped one's last argument begins with the mark; before its exec it looks like its parent.
            found[words[-2].startswith(b": ")] = int(path.parent.name)
    return list(found.values()) if len(found) == 2 else []


def _deaths(pids: list[int]) -> list[asyncio.Future[float]]:
    """When (time.perf_counter) each of these processes ends; they are watched from now on."""
    loop = asyncio.get_running_loop()
    deaths: list[asyncio.Future[float]] = []
    for pid in pids:
        deaths.append(loop.create_future())
        descriptor = os.pidfd_open(pid)
        loop.add_reader(descriptor, _died, loop, descriptor, deaths[-1])
    return deaths


def _died(loop: asyncio.AbstractEventLoop, descriptor: int, death: asyncio.Future[float]) -> None:
    death.set_result(time.perf_counter())
    loop.remove_reader(descriptor)
    os.close(descriptor)
