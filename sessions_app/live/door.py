"""What both sockets do before they are open: the handshake, a credential, and an inbox of bounded size."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import psycopg
from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from sessions_app.engine.errors import Refused
from sessions_app.live import access, commands, frames
from sessions_app.live.hub import Hub
from sessions_app.live.lanes import refusal
from sessions_app.live.lifetime import enter_hub, leave_hub
from sessions_app.live.wire import Wire, wire_for
from sessions_app.people.principals import Principal

INBOX_FRAMES: Final = 512
INBOX_BYTES: Final = 16 * 1024 * 1024

CODES: Final[Mapping[str, int]] = {
    "unauthenticated": frames.NOT_SIGNED_IN,
    "not_allowed": frames.NOT_ALLOWED,
    "session_not_found": frames.NOT_FOUND,
    "invalid": frames.BAD_REQUEST,
}

log = logging.getLogger(__name__)
security = logging.getLogger("steerweb.security")


class Door(AsyncConsumer):  # type: ignore[misc]  # channels publishes no types
    """A websocket that authenticates, then runs `admitted`; the work of one socket is one task, ended with it."""

    hub: Hub | None = None
    wire: Wire | None = None
    work: asyncio.Task[None] | None = None

    async def admitted(self, principal: Principal) -> None:
        """Serve somebody whose credential is good, until cancelled. `Refused` closes the socket with its number."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        stopping = True
        self.inbox: asyncio.Queue[str | bytes] = asyncio.Queue(INBOX_FRAMES)
        self.inbox_bytes = 0
        try:
            await super().__call__(scope, receive, send)
            stopping = False
        finally:
            await self._over(stopping)

    async def dispatch(self, message: Mapping[str, Any]) -> None:
        """Channels' own visits a thread for every message, to tidy database connections that this loop never has."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    # What the server says

    async def websocket_connect(self, message: Mapping[str, Any]) -> None:
        secure = self.scope.get("scheme") in ("wss", "https")
        why = access.handshake_refusal(self.scope["headers"], secure)
        if why is not None:
            security.warning("socket %s from %s refused: %s", self.scope["path"], self.scope.get("client"), why)
            await self.base_send({"type": "websocket.close"})
            raise StopConsumer
        await self.base_send({"type": "websocket.accept"})
        self.wire = wire_for(self.base_send)
        self.work = asyncio.create_task(self._serve(self.wire))

    async def websocket_receive(self, message: Mapping[str, Any]) -> None:
        frame = message["text"] if message.get("text") is not None else message["bytes"]
        self.inbox_bytes += len(frame)
        if self.wire is None:
            return
        if self.inbox.full() or self.inbox_bytes > INBOX_BYTES:
            self.wire.close(frames.FLOOD)
        else:
            self.inbox.put_nowait(frame)

    async def websocket_disconnect(self, message: Mapping[str, Any]) -> None:
        raise StopConsumer

    # The work

    async def next_frame(self) -> str | bytes:
        """The next frame of the client."""
        frame = await self.inbox.get()
        self.inbox_bytes -= len(frame)
        return frame

    async def _serve(self, wire: Wire) -> None:
        try:
            principal = await self._principal()
            if principal is None:
                wire.close(frames.NOT_SIGNED_IN)
                return
            await self.admitted(principal)
        except Refused as refused:
            wire.send([refusal(None, refused)])
            wire.close(CODES.get(refused.code, frames.TRY_AGAIN))
        except (psycopg.Error, OSError) as error:
            log.warning("socket %s ends: %s", self.scope["path"], error)
            wire.close(frames.TRY_AGAIN)
        except Exception:
            # Nobody awaits this task before the client leaves: without an answer it would wait for ever.
            log.exception("socket %s ends", self.scope["path"])
            wire.close(frames.BROKEN)

    async def _principal(self) -> Principal | None:
        headers = self.scope["headers"]
        if access.has_credential(headers):
            return await access.principal_of(headers)
        with contextlib.suppress(TimeoutError, Refused):
            async with asyncio.timeout(access.FIRST_FRAME_S):
                message = commands.read_object(await self.next_frame())
                if message.get("t") == "auth" and isinstance(message.get("token"), str):
                    return await access.principal_of_token(message["token"], headers)
        return None

    def enter(self) -> Hub:
        """The hub, until this socket ends."""
        self.hub = enter_hub()
        return self.hub

    async def _over(self, stopping: bool) -> None:
        """The socket has ended, or the process is ending: end its work, then let go of the hub."""
        if self.work is not None:
            self.work.cancel()
            await asyncio.gather(self.work, return_exceptions=True)
        if self.wire is not None:
            self.wire.release()
        if self.hub is not None:
            hub, self.hub = self.hub, None
            await leave_hub(hub, at_once=stopping)


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all of it until one raises or this is cancelled; then end the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
