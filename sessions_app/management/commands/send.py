"""`steerweb send`: queue a message."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli import words
from sessions_app.cli.client import Client
from sessions_app.cli.terminal import TerminalCommand, print_json, session_id, text_of
from sessions_app.ids import new_id


class Command(TerminalCommand):
    help = "queue a message for the agent"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", type=session_id)
        parser.add_argument("text", nargs="*", help="the message; `-` reads it from standard input")
        parser.add_argument("--file", action="append", default=[], metavar="PATH", help="a file that goes with it")
        parser.add_argument("--fold", action="store_true", help="let it join the running turn at its next safe point")
        parser.add_argument("--loop", help="for this agent of the session (default: the primary one)")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        body = {
            "text": text_of(options["text"], options["file"]),
            "files": client.upload(options["session"], options["file"]),
            "loop": options["loop"],
            "delivery": "fold" if options["fold"] else None,
        }
        receipt = client.post(f"/sessions/{options['session']}/inputs", body, new_id())
        print_json(receipt) if options["json"] else print(words.submitted(receipt))
