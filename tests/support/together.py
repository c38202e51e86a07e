"""Real concurrency: functions in threads of their own, let go at the same moment."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def together(functions: Sequence[Callable[[], T]], offsets_s: Sequence[float] = ()) -> list[T]:
    """The results in the functions' order; the first exception of any of them is raised.

    All wait for each other first. A function with an offset then begins so much later, to the microsecond: it spins.
    """
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], T], offset_s: float) -> T:
        barrier.wait(timeout=30)
        begin = time.perf_counter() + offset_s
        while time.perf_counter() < begin:
            pass
        return function()

    with ThreadPoolExecutor(len(functions)) as threads:
        offsets = [*offsets_s, *[0.0] * (len(functions) - len(offsets_s))]
        futures = [threads.submit(run, function, offset) for function, offset in zip(functions, offsets, strict=True)]
        return [future.result(timeout=60) for future in futures]
