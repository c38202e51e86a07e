"""`steerweb bench`: the measurements of the README's table."""

import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError

from sessions_app.bench.course import run
from sessions_app.bench.report import PARTS
from steerweb.services import ServiceError


def _parts(text: str) -> list[str]:
    parts = [part for part in text.split(",") if part]
    if not parts or not set(parts) <= set(PARTS):
        raise ArgumentTypeError(f"{text!r} is not a choice of {', '.join(PARTS)}, with commas between them")
    return parts


class Command(BaseCommand):
    help = "measure stops, appends, fan-out and starts on this machine, on servers of its own"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--only", type=_parts, default=PARTS, metavar="PARTS", help=f"some of {','.join(PARTS)}")
        parser.add_argument("--quick", action="store_true", help="few tries: shows that it works, not how fast it is")
        parser.add_argument(
            "--json", nargs="?", const="-", metavar="FILE", help="also as JSON into a file; `-` prints it instead"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        # So that the servers are stopped and the directory goes away also when somebody ends this.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            report = run(options["only"], lambda line: self.stderr.write(line), quick=options["quick"])
        except (ServiceError, TimeoutError, OSError) as problem:
            raise CommandError(str(problem) or type(problem).__name__) from problem
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        encoded = orjson.dumps({"v": 1, **report.json()}, option=orjson.OPT_INDENT_2).decode()
        if options["json"] == "-":
            self.stdout.write(encoded)
            return
        if options["json"]:
            Path(options["json"]).write_text(encoded + "\n")
        self.stdout.write(report.text())
