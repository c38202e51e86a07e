"""The thread that sends what people are to be told (Web Push), beside the turns and never in their way.

A Celery task wakes it after a commit; behind that it looks by itself, so a lost task costs seconds (L5).
"""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import psycopg

from sessions_app.engine.errors import Refused
from sessions_app.push import silence
from sessions_app.push.delivering import AT_ONCE, deliver_due

POLL_S: Final = 5.0
SILENCE_S: Final = 15.0
TIDY_S: Final = 3600.0
_log = logging.getLogger(__name__)


class Pusher:
    """`wake()` may be called from any thread."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="push")
        self._silence_at = time.monotonic() + SILENCE_S
        self._tidy_at = time.monotonic() + TIDY_S

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    def run(self) -> None:
        """Send until the process ends."""
        while True:
            self._woken.wait(POLL_S)
            self._woken.clear()
            try:
                self.look()
            except (psycopg.Error, Refused) as error:
                _log.warning("what is to be told was not read: %s", error)
            except Exception:  # noqa: BLE001 (one fault must not end all telling)
                _log.exception("the pusher failed over something and goes on")

    def look(self) -> None:
        """Send what is due; now and then look for silence, and tidy."""
        now = time.monotonic()
        if now >= self._silence_at:
            self._silence_at = now + SILENCE_S
            silence.note_silence()
        deliver_due(self._threads)
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_S
            silence.tidy()
