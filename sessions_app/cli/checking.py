"""What `verify` and `rebuild` share: going through the sessions and reporting what differs."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from sessions_app.cli.database import DatabaseCommand
from sessions_app.cli.terminal import print_json, session_id
from sessions_app.log import chain


class CheckingCommand(DatabaseCommand):
    """A command that reads logs in the database of this machine's settings."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", nargs="?", type=session_id, help="only this session")
        parser.add_argument("--json", action="store_true", help="print one JSON object per difference")

    def report(self, options: dict[str, Any], check: Callable[[str], Iterator[chain.Fault]]) -> tuple[int, int]:
        """Print every difference; (sessions looked at, differences)."""
        sessions = [options["session"]] if options["session"] else chain.sessions()
        faults = 0
        for session in sessions:
            for fault in check(session):
                faults += 1
                self._print(fault, as_json=options["json"])
        return len(sessions), faults

    def _print(self, fault: chain.Fault, *, as_json: bool) -> None:
        if as_json:
            print_json({"session": fault.session, "seq": fault.seq, "what": fault.what})
        else:
            place = "" if fault.seq is None else f" event {fault.seq}:"
            self.stdout.write(f"{fault.session}{place} {fault.what}")
