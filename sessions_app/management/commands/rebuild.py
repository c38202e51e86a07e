"""`steerweb rebuild`: the cached columns anew from the log."""

from typing import Any

from sessions_app.cli.checking import CheckingCommand
from sessions_app.cli.words import plural
from sessions_app.log import chain


class Command(CheckingCommand):
    help = "write the cached columns anew from the log, and say what was different"

    def handle(self, *args: Any, **options: Any) -> None:
        sessions, faults = self.report(options, chain.rebuild)
        if not options["json"]:
            found = f"{plural(faults, 'difference')} put right" if faults else "nothing was different"
            self.stdout.write(f"{plural(sessions, 'session')} rebuilt: {found}.")
