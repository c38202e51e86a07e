"""One call as its worker sees it: output as it comes, its end, and the wish to end it."""

import asyncio
from collections.abc import Callable
from typing import Any

from sessions_app.worker.warden.shapes import Exit, Process, TurnMarkedError, WardenError, processes_from_json
from sessions_app.worker.warden.wire import Header


class RunningCall:
    """A call in the warden's care."""

    def __init__(self, send: Callable[[Header], None], key: int, on_output: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self._send, self._key, self._on_output = send, key, on_output
        self._started: asyncio.Future[None] = loop.create_future()
        self._kept: asyncio.Future[list[Process]] = loop.create_future()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        for future in (self._started, self._exit):
            future.add_done_callback(retrieve)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be heard of it."""
        return self._exit.done()

    async def wait(self) -> Exit:
        """How it ended, when it has; raises WardenError when the warden is gone (its tools are then dead too)."""
        return await asyncio.shield(self._exit)

    def kill(self) -> None:
        """Ask for the kill and return at once."""
        self._send({"op": "kill", "key": self._key})

    async def stop(self) -> Exit:
        """Ask for the kill and wait for the end; a call that had ended by itself says so in `killed_by` (C4)."""
        self.kill()
        return await self.wait()

    async def keep(self) -> list[Process] | None:
        """Declare that it runs on in the background, out of reach of its turn's marks (E13); what runs of it now.

        None: it had ended, or its end had begun, and is not kept; `wait` says how it ended.
        """
        self._send({"op": "keep", "key": self._key})
        news: list[asyncio.Future[Any]] = [self._kept, self._exit]
        await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        return self._kept.result() if self._kept.done() else None

    async def started(self) -> None:
        """Until the command runs; raises WardenError when it cannot."""
        await asyncio.shield(self._started)

    def hear(self, header: Header, body: bytes) -> bool:
        """News of this call; whether it is the last."""
        match header["op"]:
            case "output":
                # Not from here: whatever it raises must not cost the line to the warden.
                asyncio.get_running_loop().call_soon(self._on_output, body)
                return False
            case "started":
                self.pid = int(header["pid"])
                self._settle(None)
                return False
            case "kept":
                if not self._kept.done():
                    self._kept.set_result(processes_from_json(header["processes"]))
                return False
            case "failed":
                kind = TurnMarkedError if header["code"] == "marked" else WardenError
                self.fail(kind(str(header["error"])))
            case "exited":
                self._settle(None)
                if not self._exit.done():
                    self._exit.set_result(_exit(header))
                self._send({"op": "confirmed", "key": self._key})
        return True

    def fail(self, error: WardenError) -> None:
        """Nothing more will be heard of this call."""
        self._settle(error)
        if not self._exit.done():
            self._exit.set_exception(error)

    def _settle(self, error: WardenError | None) -> None:
        if self._started.done():
            return
        if error is None:
            self._started.set_result(None)
        else:
            self._started.set_exception(error)


def _exit(header: Header) -> Exit:
    return Exit(
        code=header["code"],
        signal=header["signal"],
        ended=processes_from_json(header["ended"]),
        surviving=processes_from_json(header["surviving"]),
        killed_by=header["killed_by"],
        duration_ms=int(header["duration_ms"]),
    )


def retrieve(future: "asyncio.Future[None] | asyncio.Future[Exit]") -> None:
    """A failure that nobody waits for is no news for the log."""
    if not future.cancelled():
        future.exception()
