"""`steerweb new`: start a session."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli.client import Client
from sessions_app.cli.terminal import TerminalCommand, print_json
from sessions_app.ids import new_id


class Command(TerminalCommand):
    help = "start a session and print its id"

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--model", help="provider:model, as pydantic-ai names them; `demo:` is the demonstration")
        parser.add_argument("--title", help="default: made from the first message")
        parser.add_argument("--agent", help="name of an agent profile")
        parser.add_argument("--instructions", help="what the agent is told before everything else")
        parser.add_argument("--workspace", help="folder the agent works in, on the machine of the worker")
        parser.add_argument("--mode", choices=("plan", "ask", "auto"), help="what it may do without asking")

    def run(self, client: Client, options: dict[str, Any]) -> None:
        names = ("model", "title", "agent", "instructions", "workspace", "mode")
        session = client.post("/sessions", {name: options[name] for name in names}, new_id())
        print_json(session) if options["json"] else print(session["id"])
