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
        "take workers out of service without interrupting anything: they take no new turns, running commands go on to "
        "their end, everything else moves to other workers; each worker ends when it has no turn left (exit code 1: "
        "the time was over first)"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "worker", nargs="?", help="the beginning of one worker's id; without it all of this machine"
        )
        parser.add_argument("--all", action="store_true", help="the workers of every machine")
        parser.add_argument("--timeout", type=float, metavar="S", help="wait at most so long; they go on by themselves")

    def handle(self, *args: Any, **options: Any) -> None:
        named = options["worker"]
        told = phases.drain(named, None if named or options["all"] else place())
        if not told:
            where = f"whose id begins with {named}" if named else "" if options["all"] else "on this machine"
            raise CommandError(f"There is no worker {where}".rstrip() + ".")
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

    def _tell(self, left: list[phases.Drained]) -> None:
        for worker in left:
            work = plural(worker.turns, "turn") + (f", {worker.in_tools} in a command" if worker.in_tools else "")
            self.stdout.write(f"worker {worker.id} ({worker.host}, pid {worker.pid}): {work}")
        self.stdout.flush()
