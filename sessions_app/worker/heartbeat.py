"""A worker's one heartbeat (J2): it renews the lease in the database, then the warden's, while turns can move."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.log import phases

BEAT_S: Final = 2.0
TURNS_WITHIN_S: Final = 3.0
_log = logging.getLogger(__name__)


class Heartbeat:
    """Beats from a thread of its own, so that a busy loop cannot delay it, and asks the loop first, so that a stuck
    loop ends it. `renew` is given the monotonic time from before the beat (A7); `give_up` gets the reason; `drain` is
    called at every beat once somebody wants the worker drained (J4)."""

    def __init__(
        self,
        worker: str,
        loop: asyncio.AbstractEventLoop,
        renew: Callable[[float], None],
        give_up: Callable[[str], None],
        drain: Callable[[], None],
    ) -> None:
        self._worker, self._loop, self._renew, self._give_up = worker, loop, renew, give_up
        self._drain = drain

    def run(self) -> None:
        """Beat until the process ends."""
        while True:
            began = time.monotonic()
            if self._loop_turns():
                self._beat(began)
            else:
                _log.warning("no heartbeat: the event loop did not answer within %s s", TURNS_WITHIN_S)
            time.sleep(max(0.0, BEAT_S - (time.monotonic() - began)))

    def _loop_turns(self) -> bool:
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        return answered.wait(TURNS_WITHIN_S)

    def _beat(self, began: float) -> None:
        try:
            known = phases.beat(self._worker)
        except (psycopg.Error, Refused) as error:
            _log.warning("no heartbeat: %s", error)
            return
        if known is None:
            self._give_up("the database does not know this worker any more")
            return
        self._renew(began)
        if known == "draining":
            self._drain()
