"""What the commands share that work on this machine's database itself: they say in a sentence when there is none."""

import os
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError

from sessions_app.engine.errors import Refused
from steerweb import runtime


class DatabaseCommand(BaseCommand):
    """A command on the database of the running `up`, or of DATABASE_URL."""

    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run it; `CommandError` instead of a traceback where the database is not there or refuses."""
        if not os.environ.get("DATABASE_URL") and runtime.read_record() is None:
            raise CommandError(
                f"No steerweb runs on {runtime.data_dir()}. Start it with `{runtime.shown('up')}`, or name another "
                "data directory with STEERWEB_DATA, or a database with DATABASE_URL."
            )
        try:
            return super().execute(*args, **options)
        except Refused as refused:
            raise CommandError(refused.detail) from refused
        except (DatabaseError, psycopg.Error) as error:
            raise CommandError(f"The database does not answer: {str(error).strip()}") from error
