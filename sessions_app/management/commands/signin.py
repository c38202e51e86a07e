"""`steerweb signin NAME`: a one-time sign-in link, alone on the last line."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from sessions_app.cli.database import DatabaseCommand
from sessions_app.people.accounts import account_named
from sessions_app.people.signin import DEFAULT_TTL_S, make_link
from steerweb import runtime


class Command(DatabaseCommand):
    help = "print a one-time sign-in link"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="whose link")

    def handle(self, *, name: str, **options: Any) -> None:
        person = account_named(name)
        if not person.is_active:
            again = runtime.shown(f"user restore {person.username}")
            raise CommandError(f"{person.username} is suspended. To restore: {again}")
        base = settings.STEERWEB_URL.rstrip("/")
        if not base:
            self.stderr.write("No steerweb runs on this data directory: put the address of yours before the path.")
        self.stdout.write(f"Signs {person.username} in once, within {DEFAULT_TTL_S // 60} minutes:")
        self.stdout.write(f"{base}{make_link(person)}")
