"""`steerweb steer`: say something to the turn that is running."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli import words
from sessions_app.cli.client import Client
from sessions_app.cli.terminal import TerminalCommand, print_json, session_id, text_of
from sessions_app.ids import new_id


class Command(TerminalCommand):
    help = "say something to the agent while it works; it hears it at its next step"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", type=session_id)
        parser.add_argument("text", nargs="*", help="the message; `-` reads it from standard input")
        parser.add_argument("--file", action="append", default=[], metavar="PATH", help="a file that goes with it")
        parser.add_argument("--urgent", action="store_true", help="skip the calls that have not started")
        parser.add_argument("--turn", help="only for this turn; refused when it does not run")
        parser.add_argument("--loop", help="for this agent of the session (default: the primary one)")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        body = {
            "text": text_of(options["text"], options["file"]),
            "files": client.upload(options["session"], options["file"]),
            "urgent": options["urgent"] or None,
            "loop": options["loop"],
            "turn": options["turn"],
        }
        receipt = client.post(f"/sessions/{options['session']}/steers", body, new_id())
        print_json(receipt) if options["json"] else print(words.steered(receipt))
