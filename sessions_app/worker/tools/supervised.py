"""Running one process of a call in the warden's care, so that a stop ends all of it (E6, E7)."""

import asyncio
from collections.abc import Callable

from sessions_app.worker.tools.base import ToolContext, ToolError
from sessions_app.worker.warden.shapes import CallSpec, Exit, TurnMarkedError, WardenError


async def run_process(
    spec: CallSpec, context: ToolContext, on_output: Callable[[bytes], None], enough: asyncio.Event | None = None
) -> Exit | None:
    """Start a process, see it through or have it killed when `context.stop` (or `enough`) is set; how it ended.

    None: the turn was marked before it began, nothing ran. Raises ToolError when it cannot be started.
    """
    if context.stop.is_set():
        return None
    try:
        call = await context.warden.start_call(spec, on_output)
    except TurnMarkedError:
        return None
    except WardenError as error:
        raise ToolError(f"{spec.argv[0]} could not be started: {error}") from error
    ending = asyncio.ensure_future(call.wait())
    signs = [asyncio.ensure_future(event.wait()) for event in (context.stop, enough) if event is not None]
    try:
        await asyncio.wait([ending, *signs], return_when=asyncio.FIRST_COMPLETED)
        return await (ending if ending.done() else call.stop())
    finally:
        if not ending.done():
            call.kill()  # this task was cancelled: nobody waits for the process, but it may not stay
        ending.cancel()
        for sign in signs:
            sign.cancel()
