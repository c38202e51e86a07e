"""Hints to the workers through Celery: a loop to run (B2), something to tell people. The sweep offers again what nobody
took (J3), and the pusher looks by itself."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sessions_app.log.append import Appended
from sessions_app.log.outbox import TELLING

TASK: Final = "steerweb.run_loop"
PUSH_TASK: Final = "steerweb.push"
_WAKING: Final = frozenset({"InputQueued", "InputReleased", "LoopIdle", "InputChanged", "TurnHandedOver"})
_log = logging.getLogger(__name__)
# One thread: a broker that hangs delays only other hints, never the person whose command made the loop runnable.
_sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offers")


def offer_on_commit(appended: Appended) -> None:
    """Offer the loops that this transaction may have made runnable. Never waits."""
    loops = {event.loop for event in appended.events if event.type in _WAKING and event.loop is not None}
    for loop in loops:
        offer_now(appended.session, loop)
    if any(event.type in TELLING for event in appended.events):
        _sender.submit(_send, PUSH_TASK, [], "people were not told of something yet")


def offer_now(session: str, loop: str) -> None:
    """Hand one loop to whichever worker is free."""
    _sender.submit(_send, TASK, [session, loop], f"loop {loop} was not offered")


def _send(task: str, args: list[str], failed: str) -> None:
    from kombu.exceptions import OperationalError

    from steerweb.celery import app

    try:
        app.send_task(task, args=args, ignore_result=True, retry=False, expires=60)
    except (OperationalError, OSError) as error:
        _log.warning("%s, a worker's own look will: %s", failed, error)
