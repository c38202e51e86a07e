"""`steerweb drain`: let running turns finish or move, then end their workers (J4)."""

import time
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import CommandError

from sessions_app.cli.client import REFUSED
from sessions_app.cli.database import DatabaseCommand
from sessions_app.cli.words import plural
from sessions_app.log import phases
from sessions_app.worker.place import place

LOOK_S: Final = 0.5


class Command(DatabaseCommand):
    help = (
        "take workers out of service without interrupting a turn: running commands go on to their end, everything else "
        "moves to other workers (`up` starts one in its place at once), and each drained worker, with what it has "
        "running in the background, ends when it has no turn left (exit code 1: the time was over first)"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "worker", nargs="?", help="the beginning of one worker's id; without it all of this machine"
        )
        parser.add_argument("--all", action="store_true", help="the workers of every machine")
        parser.add_argument("--timeout", type=float, metavar="S", help="wait at most so long; they go on by themselves")

    def handle(self, *args: Any, **options: Any) -> None:
        told = self._chosen(options["worker"], everywhere=options["all"])
        phases.drain(told)
        until = None if options["timeout"] is None else time.monotonic() + options["timeout"]
        before: list[phases.Drained] = []
        while left := phases.drained(told):
            if left != before:
                self._tell(left)
            before = left
            if until is not None and time.monotonic() >= until:
                raise SystemExit(REFUSED)
            time.sleep(LOOK_S)
        self.stdout.write(f"{plural(len(told), 'worker')} drained.")

    def _chosen(self, named: str | None, *, everywhere: bool) -> list[str]:
        """Whom it is about; CommandError where there is nobody, or a beginning that fits several."""
        if named is None:
            chosen = phases.living(None if everywhere else place())
            if not chosen:
                raise CommandError("There is no worker." if everywhere else "There is no worker on this machine.")
            return chosen
        chosen = [worker for worker in phases.living(None) if worker.startswith(named.lower())]
        if len(chosen) != 1:
            which = "no worker has" if not chosen else f"{len(chosen)} workers have"
            raise CommandError(f"{which.capitalize()} an id that begins with {named}.")
        return chosen

    def _tell(self, left: list[phases.Drained]) -> None:
        for worker in left:
            work = plural(worker.turns, "turn") + (f", {worker.in_tools} in a command" if worker.in_tools else "")
            self.stdout.write(f"worker {worker.id} ({worker.host}, pid {worker.pid}): {work}")
        self.stdout.flush()
