"""A client's commands on their way to `control`: in order, with stops on a lane of their own that overtakes (E11)."""

import asyncio
import logging
from typing import Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.live import commands, frames
from sessions_app.live.client import Client
from sessions_app.live.commands import Command
from sessions_app.live.frames import Frame
from sessions_app.live.threads import Pool, in_thread

MOST_WAITING: Final = 256
"""Commands of one client that may wait for their turn; the next is refused, and can be sent again."""

log = logging.getLogger(__name__)


class Lane:
    """Commands of one client that are carried out one after the other."""

    def __init__(self, session: str, client: Client, pool: Pool) -> None:
        self._session = session
        self._client = client
        self._pool = pool
        self._queue: asyncio.Queue[Command] = asyncio.Queue(MOST_WAITING)

    def put(self, command: Command) -> None:
        """Queue a command. Refused when too many wait: `rate_limited`; a stop, which never is, `unavailable`."""
        try:
            self._queue.put_nowait(command)
        except asyncio.QueueFull:
            code = "unavailable" if self._pool is Pool.STOPS else "rate_limited"
            raise Refused(code, "Too many commands of yours wait already.", retry_after=1) from None

    async def run(self) -> None:
        """Carry commands out until cancelled. What a client gets is the receipt; the outcome comes as events."""
        while True:
            command = await self._queue.get()
            self._client.send(await self._answer(command))

    async def _answer(self, command: Command) -> Frame:
        try:
            principal = self._client.principal
            result = await in_thread(self._pool, commands.execute, principal, self._session, command)
        except Refused as refused:
            return refusal(command.id, refused)
        except (psycopg.Error, OSError) as error:
            log.warning("command %s %s failed: %s", command.verb, command.id, error)
            return frames.error(command.id, "unavailable", "The database does not answer.", {}, 2)
        except Exception:
            # A bug of ours must cost the client one command, not its connection, and the others nothing.
            log.exception("command %s %s failed", command.verb, command.id)
            return frames.error(command.id, "unavailable", "This command failed; the server's log says why.", {})
        return frames.ack(command.id, result)


def refusal(command: str | None, refused: Refused) -> Frame:
    """A refusal as a frame."""
    return frames.error(command, refused.code, refused.detail, refused.data, refused.retry_after)
