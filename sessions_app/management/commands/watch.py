"""`steerweb watch`: see a session happen."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from sessions_app.cli.client import Client
from sessions_app.cli.printer import Printer
from sessions_app.cli.terminal import TerminalCommand, clean, print_json, session_id
from sessions_app.cli.watch import Watch


class Command(TerminalCommand):
    help = "show what happens in a session, from its beginning and then live"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", type=session_id)
        start = parser.add_mutually_exclusive_group()
        start.add_argument("--after", type=int, default=0, metavar="SEQ", help="start after this event (default: 0)")
        start.add_argument("--new", action="store_true", help="start now: only what happens from here on")
        parser.add_argument("--once", action="store_true", help="end when all that has happened so far was shown")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        session = client.get(f"/sessions/{options['session']}")
        after = session["head"] if options["new"] else options["after"]
        printer = Printer(_write, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
        if after and not options["json"]:
            query = {"types": "LoopStarted", "before": after + 1, "order": "desc", "limit": 1000}
            for started in reversed(client.get(f"/sessions/{options['session']}/events", **query)["items"]):
                printer.known(started)

        def on_frame(frame: Mapping[str, Any]) -> None:
            if options["json"]:
                print_json(frame)
            else:
                printer.frame(frame)

        def on_lost(why: str) -> None:
            printer.interrupted()
            print(f"steerweb: {clean(why)}; trying again", file=sys.stderr)

        Watch(client.address, options["session"], after, on_frame).follow(on_lost, once=options["once"])


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
