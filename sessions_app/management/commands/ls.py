"""`steerweb ls`: the sessions one may see."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli import tables
from sessions_app.cli.client import Client
from sessions_app.cli.terminal import TerminalCommand, print_json


class Command(TerminalCommand):
    help = "list sessions and what each is doing"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--state", help="only those in this state: idle, waiting, running, stopping, closed")
        parser.add_argument("--q", metavar="WORDS", help="only those whose title holds these words")
        parser.add_argument("--limit", type=int, default=100, help="how many at most (default: 100)")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        items = list(client.items("/sessions", options["limit"], state=options["state"], q=options["q"]))
        print_json(items) if options["json"] else print(tables.sessions(items))
