"""`steerweb worker`: one process that runs agent loops."""

import os
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from steerweb.runtime import LEAVING_FD, grace_s


class Command(BaseCommand):
    help = "Run agent loops until told to end (SIGTERM)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        default = int(os.environ.get("STEERWEB_TURNS", "100"))
        parser.add_argument("--turns", type=int, default=default, help="run at most so many turns at once")
        parser.add_argument(
            "--grace", type=float, default=grace_s(), help="seconds that a running command has after SIGTERM"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from celery.platforms import SecurityWarning

        from sessions_app.worker import app as entry
        from sessions_app.worker.service import Worker
        from sessions_app.worker.warden.spawn import keep_private
        from steerweb.celery import app

        keep_private()  # what tools run as may be this very user, and our environment holds the providers' keys
        warnings.simplefilter("ignore", SecurityWarning)  # what tools run as is said on the page, in words
        data = Path(settings.DATA_DIR)
        entry.start(Worker(settings.DATABASE_URL, data, options["turns"], options["grace"], _leaving()))
        # Four threads suffice: a task only hands its loop over.
        arguments = ["--quiet", "worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "WARNING"]
        app.start([*arguments, "--without-gossip", "--without-mingle", "--without-heartbeat"])


def _leaving() -> Callable[[], object] | None:
    """How to tell the `up` that started this worker that another one is needed beside it."""
    descriptor = os.environ.pop(LEAVING_FD, "")
    return partial(os.write, int(descriptor), b".") if descriptor else None
