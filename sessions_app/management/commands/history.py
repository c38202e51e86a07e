"""`steerweb history`: who stopped what, when and why."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli import tables
from sessions_app.cli.client import Client
from sessions_app.cli.terminal import TerminalCommand, print_json, session_id


class Command(TerminalCommand):
    help = "list interruptions: who stopped what, when and why"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", nargs="?", type=session_id, help="only this session's")
        parser.add_argument("--person", help="only those this person asked for (name or id)")
        parser.add_argument("--cause", help="person, token, admin, budget, closing, worker_lost, ...")
        parser.add_argument("--reason", help="only those with these words in the reason")
        parser.add_argument("--from", dest="start", metavar="INSTANT", help="since, such as 2026-11-30T08:00:00Z")
        parser.add_argument("--to", dest="end", metavar="INSTANT", help="until")
        parser.add_argument("--limit", type=int, default=50, help="how many at most, newest first (default: 50)")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        filters = {name: options[name] for name in ("person", "cause", "reason")}
        filters |= {"from": options["start"], "to": options["end"]}
        where = f"/sessions/{options['session']}" if options["session"] else ""
        if options["json"]:  # turn by turn
            print_json(list(client.items(f"{where}/interruptions", options["limit"], **filters)))
        else:
            print(tables.stops(client.items(f"{where}/stops", options["limit"], **filters)))
