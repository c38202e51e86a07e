"""Cold start: `steerweb up` from its command line to "Ready", which it prints once its page answers."""

import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from sessions_app.bench.stage import own_environment, remove
from steerweb import runtime
from steerweb.services import ServiceError
from steerweb.services.process import Child

READY_S: Final = 120.0
BUDGET_S: Final = 40.0
"""No further start begins after so long; a slow machine has fewer of them."""
_LOOK_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds: the first start, on an empty directory, and the median of `later` further ones."""

    first_s: float
    later_s: float
    later: int


def measure(*, quick: bool) -> Starts:
    """Start and stop `up` a few times on one new directory."""
    folder = Path(tempfile.mkdtemp(prefix="steerweb-bench-"))
    until = time.monotonic() + BUDGET_S
    try:
        first = _start(folder)
        later = [_start(folder)]
        while not quick and len(later) < 3 and time.monotonic() < until:
            later.append(_start(folder))
    finally:
        remove(folder / "data")
        remove(folder)
    return Starts(round(first, 2), round(median(later), 2), len(later))


def _start(folder: Path) -> float:
    up = Child(
        runtime.command_line("up", "--host", "127.0.0.1", "--port", "0", "--data", str(folder / "data")),
        log=folder / "up.log",
        death_signal=signal.SIGTERM,
        env={**own_environment(), "PYTHONUNBUFFERED": "1"},
    )
    began = time.monotonic()
    up.start()
    try:
        while "\nReady after " not in up.tail():
            if not up.running() or time.monotonic() > began + READY_S:
                raise ServiceError(f"`steerweb up` did not start:\n{up.tail()}")
            time.sleep(_LOOK_S)
        return time.monotonic() - began
    finally:
        up.stop(signal.SIGINT, 60)
