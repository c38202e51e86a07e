"""A process that cannot die: what survives SIGKILL in earnest is a stuck disk, here it is the kernel's freezer."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.waiting import wait_until

_FREEZER = Path("/sys/fs/cgroup/freezer")


@contextlib.contextmanager
def frost(*pids: int) -> Iterator[Callable[[], None]]:
    """Keep processes from dying until the function it gives is called, or the block ends; skips where none can."""
    if not (_FREEZER / "tasks").exists() or os.geteuid() != 0:
        pytest.skip("no freezer here")
    group = _FREEZER / f"steerweb-{uuid4()}"
    group.mkdir()
    state = group / "freezer.state"

    def thaw() -> None:
        state.write_text("THAWED")

    try:
        for pid in pids:
            (group / "tasks").write_text(str(pid))
        state.write_text("FROZEN")
        wait_until(lambda: state.read_text().strip() == "FROZEN", "the frost")
        yield thaw
    finally:
        thaw()
        for left in (group / "tasks").read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (_FREEZER / "tasks").write_text(left)
        with contextlib.suppress(OSError):
            group.rmdir()
