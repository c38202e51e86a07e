"""`steerweb token create --user NAME --name LABEL [--agent]`: one API token on stdout, nothing else."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli.database import DatabaseCommand
from sessions_app.people.accounts import account_named
from sessions_app.people.tokens import create_token


class Command(DatabaseCommand):
    help = "print a new API token"

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="a new token")
        create.add_argument("--user", required=True, metavar="NAME", help="whom it speaks for")
        create.add_argument("--name", required=True, metavar="LABEL", help="what it is called in the history")
        create.add_argument("--agent", action="store_true", help="for an agent: what it sends is of machine agency")

    def handle(self, *, user: str, name: str, agent: bool, **options: Any) -> None:
        self.stdout.write(create_token(account_named(user), name, agent=agent))
