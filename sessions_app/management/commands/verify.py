"""`steerweb verify`: is every log whole, and does all that is cached agree with it?"""

from typing import Any

from sessions_app.cli.checking import CheckingCommand
from sessions_app.cli.client import REFUSED
from sessions_app.cli.words import plural
from sessions_app.log import chain


class Command(CheckingCommand):
    help = "check every event's place in the chain, and the cached state against the log (exit code 1: it differs)"

    def handle(self, *args: Any, **options: Any) -> None:
        sessions, faults = self.report(options, chain.verify)
        if not options["json"]:
            self.stdout.write(
                f"{plural(sessions, 'session')}: {plural(faults, 'difference') if faults else 'all is whole'}."
            )
        if faults:
            raise SystemExit(REFUSED)
