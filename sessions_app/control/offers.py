"""Offering runnable loops to the workers through Celery (B2). A hint: the sweep offers again what nobody took (J3)."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sessions_app.log.append import Appended

TASK: Final = "steerweb.run_loop"
_WAKING: Final = frozenset({"InputQueued", "InputReleased", "LoopIdle", "InputChanged", "TurnHandedOver"})
_log = logging.getLogger(__name__)
# One thread: a broker that hangs delays only other hints, never the person whose command made the loop runnable.
_sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offers")


def offer_on_commit(appended: Appended) -> None:
    """Offer the loops that this transaction may have made runnable. Never waits."""
    loops = {event.loop for event in appended.events if event.type in _WAKING and event.loop is not None}
    for loop in loops:
        offer_now(appended.session, loop)


def offer_now(session: str, loop: str) -> None:
    """Hand one loop to whichever worker is free."""
    _sender.submit(_send, session, loop)


def _send(session: str, loop: str) -> None:
    from kombu.exceptions import OperationalError

    from steerweb.celery import app

    try:
        app.send_task(TASK, args=[session, loop], ignore_result=True, retry=False, expires=60)
    except (OperationalError, OSError) as error:
        _log.warning("loop %s was not offered, the sweep will: %s", loop, error)
