"""`steerweb user create NAME [--admin]`, `user suspend NAME`, `user restore NAME`."""

from argparse import ArgumentParser
from typing import Any

from sessions_app.cli.database import DatabaseCommand
from sessions_app.people.accounts import account_named, create_person, restore, suspend
from steerweb import runtime


class Command(DatabaseCommand):
    help = "make an account, suspend it, restore it"

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="a new account")
        create.add_argument("name")
        create.add_argument("--admin", action="store_true", help="may read, stop, close and erase everywhere")
        for action, what in (("suspend", "end all access at once"), ("restore", "take a suspension back")):
            actions.add_parser(action, help=what).add_argument("name")

    def handle(self, *, action: str, name: str, **options: Any) -> None:
        if action == "create":
            person = create_person(name, admin=options["admin"])
            self.stdout.write(
                f"{person.username} has an account. For a link: {runtime.shown(f'signin {person.username}')}"
            )
        elif action == "suspend":
            suspend(account_named(name))
            self.stdout.write(f"{name} is suspended and signed out everywhere.")
        else:
            restore(account_named(name))
            self.stdout.write(f"{name} may sign in again.")
