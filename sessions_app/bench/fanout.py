"""Fan-out: many watchers of one session at fifty deltas a second, against two ways of doing it without us.

Ours goes the whole way that a worker's deltas go: Redis, hub, socket door. The floor is a plain `websockets` server
that broadcasts a frame of the same size, which hears of nothing and remembers nothing. Stock is a Channels group of
channels_redis under Daphne. The watchers are the same process each time. A time is from just before the publishing to
the watcher's read; CPU is the serving process's alone. Last comes a model's whole way: from the token at the model's
server through a running turn to all the watchers.
"""

import asyncio
import importlib
import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from sessions_app.bench.figures import Spread
from sessions_app.bench.helper import Helper
from sessions_app.bench.model import NAME, Model
from sessions_app.bench.stage import Stage
from sessions_app.bench.stock import GROUP
from sessions_app.bench.watchers import instant
from sessions_app.ids import new_id
from sessions_app.log import bell
from steerweb.up.address import bind

PER_S: Final = 50
WARM_UP: Final = 10
ARRIVE_S: Final = 5.0
"""How long after the last delta a frame may come before it counts as lost."""
TURN_S: Final = 30.0
FILLER: Final = " and so on, it says"


@dataclass(frozen=True, slots=True)
class Flow:
    """One way: frames that reached watchers, those that did not in time, what they took, and the server's CPU time."""

    frames: int
    lost: int
    took_ms: Spread | None
    cpu_s_per_1000: float


@dataclass(frozen=True, slots=True)
class Fanout:
    """`stock` is None where channels_redis is not installed; `model`'s frames are tokens."""

    watchers: int
    per_s: int
    ours: Flow
    bare: Flow
    stock: Flow | None
    model: Flow


@dataclass(frozen=True, slots=True)
class _Size:
    watchers: int
    deltas: int

    @property
    def frames(self) -> int:
        return self.watchers * self.deltas


def measure(stage: Stage, model: Model, *, quick: bool) -> Fanout:
    """Measure on a stage whose worker asks `model`."""
    size = _Size(40, 50) if quick else _Size(200, 250)
    stage.start_web()
    ours, bare = _ours(stage, size), _bare(stage, size)
    stock = _stock(stage, size) if importlib.util.find_spec("channels_redis") else None
    stage.start_worker()
    return Fanout(size.watchers, PER_S, ours, bare, stock, asyncio.run(_through_a_turn(stage, model, size)))


@contextmanager
def _watchers(stage: Stage, port: int, path: str, size: _Size) -> Iterator[Helper]:
    arguments = (str(port), path, stage.token or "none", str(size.watchers))
    with Helper("watchers", *arguments, env=stage.environment(), log=stage.folder / "watchers.log") as watchers:
        watchers.answer()
        yield watchers


def _flow(watchers: Helper, pid: int, size: _Size, publish: Callable[[int], object]) -> Flow:
    """`publish` so many deltas, after a few to warm up."""
    publish(WARM_UP)
    watchers.ask({"expected": WARM_UP * size.watchers, "within_s": ARRIVE_S})
    watchers.ask("begin")
    before = cpu_s(pid)
    publish(size.deltas)
    return _result(watchers.ask({"expected": size.frames, "within_s": ARRIVE_S}), cpu_s(pid) - before)


def _result(told: Any, cpu: float) -> Flow:
    took = None if told["took"] is None else Spread.from_json(told["took"])
    return Flow(told["came"], told["lost"], took, round(cpu / max(told["came"] + told["old"], 1) * 1000, 4))


def _paced(count: int, send: Callable[[], object]) -> None:
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / PER_S - time.monotonic()))
        send()


def _ours(stage: Stage, size: _Size) -> Flow:
    session = stage.new_session("fan-out")
    delta = {**_delta(), "offset": 0}
    bell.configure(stage.valkey.url())

    def send() -> None:
        text = f"{instant()}{FILLER}"
        bell.delta(session, {**delta, "text": text})
        delta["offset"] += len(text)

    with _watchers(stage, stage.port, f"/ws/sessions/{session}/", size) as watchers:
        return _flow(watchers, stage.web_pid, size, lambda count: _paced(count, send))


def _bare(stage: Stage, size: _Size) -> Flow:
    text = orjson.dumps({**_delta(), "text": f"@{FILLER}"}).decode()
    with bind("127.0.0.1", 0) as listener:
        port, descriptor = listener.getsockname()[1], listener.fileno()
        server = Helper(
            "broadcast", str(descriptor), env=stage.environment(), log=stage.folder / "bare.log", pass_fds=[descriptor]
        )
    with server:
        server.answer()
        with _watchers(stage, port, "/", size) as watchers:
            asked = {"text": text, "per_s": PER_S}
            return _flow(watchers, server.pid, size, lambda count: server.ask({**asked, "count": count}))


def _stock(stage: Stage, size: _Size) -> Flow:
    with bind("127.0.0.1", 0) as listener:
        port, descriptor = listener.getsockname()[1], listener.fileno()
        arguments = (str(descriptor), stage.valkey.url())
        server = Helper(
            "stock", *arguments, env=stage.environment(), log=stage.folder / "stock.log", pass_fds=[descriptor]
        )
    with server, _watchers(stage, port, "/", size) as watchers:
        return _flow(watchers, server.pid, size, lambda count: asyncio.run(_group_send(stage.valkey.url(), count)))


async def _group_send(redis_url: str, count: int) -> None:
    layer = importlib.import_module("channels_redis.core").RedisChannelLayer(hosts=[redis_url])
    logging.getLogger("channels_redis").setLevel(logging.WARNING)  # it tells of every message it drops
    delta = _delta()
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / PER_S - time.monotonic()))
        text = orjson.dumps({**delta, "text": f"{instant()}{FILLER}"}).decode()
        await layer.group_send(GROUP, {"type": "delta", "text": text})
    await layer.close_pools()


async def _through_a_turn(stage: Stage, model: Model, size: _Size) -> Flow:
    """A running turn streams to the watchers for as long as the others were measured."""
    session = stage.new_session("fan-out of a turn", NAME)
    async with model.serving():
        model.allow(WARM_UP)
        with _watchers(stage, stage.port, f"/ws/sessions/{session}/", size) as watchers:
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {stage.token}"}, timeout=30) as client:
                address = f"http://127.0.0.1:{stage.port}/api/v1/sessions/{session}/inputs"
                (await client.post(address, json={"text": f"words {PER_S}"})).raise_for_status()
            await model.said_all(TURN_S)
            warm = {"expected": WARM_UP * size.watchers, "within_s": ARRIVE_S}
            await asyncio.to_thread(watchers.ask, warm)
            await asyncio.to_thread(watchers.ask, "begin")
            before = cpu_s(stage.web_pid)
            model.allow(size.deltas)
            await model.said_all(TURN_S)
            told = await asyncio.to_thread(watchers.ask, {"expected": size.frames, "within_s": ARRIVE_S})
            cpu = cpu_s(stage.web_pid) - before
            model.finish.set()
    return _result(told, cpu)


def _delta() -> dict[str, Any]:
    return {
        "t": "delta", "loop": new_id(), "turn": new_id(), "step": 1, "attempt": 1, "kind": "text", "offset": 1000,
    }  # fmt: skip


def cpu_s(pid: int) -> float:
    """The CPU time a process has used, all its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
