"""`steerweb up`: everything on one machine (steerweb/up; `steerweb` itself starts it without Django)."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from steerweb.up.options import add_arguments, from_namespace
from steerweb.up.run import run


class Command(BaseCommand):
    help = "start everything on this machine: PostgreSQL, Valkey, web and worker"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        raise SystemExit(run(from_namespace(options)))
