"""Celery's entry: a task hands its loop to this process's worker and returns."""

import threading

from celery import shared_task
from celery.signals import worker_shutdown, worker_shutting_down

from sessions_app.worker.models import checking
from sessions_app.worker.service import Worker

_worker: Worker | None = None
_guard = threading.Lock()


def start(worker: Worker) -> None:
    """Make `worker` the one of this process."""
    global _worker
    with _guard:
        worker.start()
        _worker = worker


@shared_task(name="steerweb.run_loop", ignore_result=True)
def run_loop(session: str, loop: str) -> None:
    """Offer a loop to this worker. It may come twice, late or never: the lease decides (J1)."""
    if _worker is not None:
        _worker.offer(session, loop)


@shared_task(name="steerweb.test_key", ignore_result=True)
def test_key(family: str) -> None:
    """Ask a provider whether its key works, from where turns run, and write down what it says."""
    checking.test(family)


@shared_task(name="steerweb.push", ignore_result=True)
def push() -> None:
    """There may be something to tell people. It may come twice, late or never: each row is claimed once."""
    if _worker is not None:
        _worker.pusher.wake()


@worker_shutting_down.connect
def _shutting_down(**_: object) -> None:
    if _worker is not None:
        _worker.shut_down()


@worker_shutdown.connect
def _shut_down(**_: object) -> None:
    if _worker is not None:
        _worker.join()
