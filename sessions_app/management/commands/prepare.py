"""`steerweb prepare`: what has to be done before web and worker start, in one process.

The database is migrated, cached states of an earlier fold are folded anew, and `up` is told a sign-in link.
"""

import json
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import psycopg
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from sessions_app.cli.words import plural
from sessions_app.engine.errors import Refused
from sessions_app.log import chain
from sessions_app.models import Person
from sessions_app.people.signin import create_first_person, make_link


class Command(BaseCommand):
    help = "migrate, create the first account if there is none, and print a sign-in link as JSON (for up)"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-sign-in", action="store_true", help="make no account and no link")
        parser.add_argument("--hours", type=int, default=1, help="how long the link works")

    def handle(self, *_args: Any, **options: Any) -> None:
        done = [*_migrate(), *_fold_anew()]
        if options["no_sign_in"]:
            self.stdout.write("\n".join(done) or "The database is up to date.")
            return
        person = create_first_person()
        if person is not None:
            done.append(f"Created the first account, {person.username}, an administrator.")
        else:
            person = Person.objects.filter(is_active=True).order_by("-is_superuser", "date_joined").first()
        told: dict[str, Any] = {"done": done, "person": None, "path": None}
        if person is not None:
            told |= {"person": person.username, "path": make_link(person, ttl_s=options["hours"] * 3600)}
        self.stdout.write(json.dumps(told))


def _fold_anew() -> list[str]:
    """Bring the cached states that an earlier version wrote to this one's fold; what to tell about it."""
    outdated = chain.outdated()
    if not outdated:
        return []
    for session in outdated:
        with suppress(Refused, psycopg.Error):  # one that cannot be folded must not keep all others from working
            list(chain.rebuild(session))
    left = chain.outdated()
    told = []
    if len(outdated) > len(left):
        told.append(f"{plural(len(outdated) - len(left), 'session')} folded anew for this version.")
    if left:
        told.append(f"Not folded anew, and not to be worked with until `steerweb rebuild`: {', '.join(left)}.")
    return told


def _migrate() -> list[str]:
    """Bring the database to this version; what to tell about it."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        return []
    fresh = not executor.loader.applied_migrations
    with connection.cursor() as cursor:
        # A new database need not wait for the disk after each of its many steps; the first account's commit does.
        cursor.execute(f"SET synchronous_commit = {'off' if fresh else 'on'}")
        call_command("migrate", verbosity=0, skip_checks=True)
        cursor.execute("SET synchronous_commit = on")
    return [] if fresh else [f"The database was brought up to date ({len(plan)} steps)."]
