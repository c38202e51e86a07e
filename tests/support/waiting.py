"""Waiting for a condition instead of for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
STEP_S: Final = 0.02
PATIENCE_S: Final = 60
"""How long is hung; how fast things are is measured elsewhere."""


class NeverHappened(AssertionError):
    """A condition did not come true in time; the text says which."""


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """The first truthy value of `condition`; NeverHappened with `what` after `timeout_s`."""
    until = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > until:
            raise NeverHappened(f"{what} did not happen within {timeout_s:g} s")
        _pause()
    return value


async def wait_until_async(condition: Callable[[], Awaitable[T]], what: str, timeout_s: float = PATIENCE_S) -> T:
    """The same for an async condition."""
    until = time.monotonic() + timeout_s
    while not (value := await condition()):
        if time.monotonic() > until:
            raise NeverHappened(f"{what} did not happen within {timeout_s:g} s")
        await asyncio.sleep(STEP_S)
    return value


def stays_true(condition: Callable[[], bool], what: str, for_s: float) -> None:
    """Assert that `condition` holds during all of `for_s`, as for a file that must not grow any more."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        assert condition(), f"{what} did not stay true for {for_s:g} s"
        _pause()


def _pause() -> None:
    time.sleep(STEP_S)
