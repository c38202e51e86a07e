"""Running one process of a call in the warden's care, so that a stop ends all of it (E6, E7)."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sessions_app.worker.tools.base import ToolContext, ToolError
from sessions_app.worker.warden.running import RunningCall, retrieve
from sessions_app.worker.warden.shapes import CallSpec, Exit, Process, TurnMarkedError, WardenError


@dataclass(frozen=True, slots=True)
class Kept:
    """A call that runs on in the background, and what ran of it when that was declared (E13)."""

    call: RunningCall
    processes: list[Process]


async def run_process(
    spec: CallSpec, context: ToolContext, on_output: Callable[[bytes], None], enough: asyncio.Event | None = None
) -> Exit | None:
    """Start a process, see it through or have it killed when `context.stop` (or `enough`) is set; how it ended.

    None: the turn was marked before it began, nothing ran. Raises ToolError when it cannot be started.
    """
    call = await _start(spec, context, on_output)
    if call is None:
        return None
    with _own(call):
        await _ended_or(call, context.stop, enough)
        return await (call.wait() if call.ended else call.stop())


async def run_or_keep(
    spec: CallSpec, context: ToolContext, on_output: Callable[[bytes], None], settle_s: float
) -> Exit | Kept | None:
    """The same, but what still runs after `settle_s` is kept, and then the caller's to hand to the keeper (E13).

    Where a mark reaches the warden first the call ends by it.
    """
    call = await _start(spec, context, on_output)
    if call is None:
        return None
    with _own(call):
        await _ended_or(call, context.stop, timeout_s=settle_s)
        if context.stop.is_set() and not call.ended:
            return await call.stop()
        processes = await call.keep()
        if processes is None:
            return await call.wait()
    return Kept(call, processes)


async def _start(spec: CallSpec, context: ToolContext, on_output: Callable[[bytes], None]) -> RunningCall | None:
    if context.stop.is_set():
        return None
    try:
        return await context.warden.start_call(spec, on_output)
    except TurnMarkedError:
        return None
    except WardenError as error:
        raise ToolError(f"{spec.argv[0]} could not be started: {error}") from error


@contextmanager
def _own(call: RunningCall) -> Iterator[None]:
    """A task that is cancelled in here leaves no process behind that nobody waits for."""
    try:
        yield
    except BaseException:
        call.kill()
        raise


async def _ended_or(call: RunningCall, *events: asyncio.Event | None, timeout_s: float | None = None) -> None:
    """Until the call has ended, one of the events is set or the time is over."""
    ending = asyncio.ensure_future(call.wait())
    ending.add_done_callback(retrieve)
    signs = [asyncio.ensure_future(event.wait()) for event in events if event is not None]
    try:
        await asyncio.wait([ending, *signs], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (ending, *signs):
            each.cancel()
