"""What the terminal commands share: options, output that cannot drive the terminal, exit codes."""

import json
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandParser

from sessions_app.cli.client import INTERRUPTED, USAGE, Client, Failure, find_address

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_DJANGO_OPTIONS: Final = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
}  # fmt: skip
_PAGE: Final = re.compile(r"/s/([0-9a-fA-F-]{36})")


def clean(text: object) -> str:
    """Text that cannot drive a terminal: control and direction characters become visible."""
    return _CONTROL.sub(_visible, str(text).replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def one_line(text: object, width: int = 60) -> str:
    """Clean text on one line, shortened to `width` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def session_id(value: str) -> str:
    """argparse type of a session: its id, or the address of its page."""
    match = _PAGE.search(value)
    try:
        return str(UUID(match[1] if match else value))
    except ValueError:
        sentence = f"{value!r} is not a session: give its id (see `steerweb ls`) or its address."
        raise ArgumentTypeError(sentence) from None


class TerminalCommand(BaseCommand):
    """A command that asks a running steerweb over HTTP. It touches no database, so it runs on a machine without one."""

    requires_system_checks = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.suppressed_base_arguments = _DJANGO_OPTIONS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="address of the server (default: STEERWEB_URL, else the running `up`)")
        parser.add_argument("--token", help="API token (default: STEERWEB_TOKEN)")
        parser.add_argument("--json", action="store_true", help="print the server's answer as JSON")
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        """The options of one command."""

    def handle(self, *args: Any, **options: Any) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows what it can
        try:
            with Client(find_address(options["url"], options["token"])) as client:
                self.run(client, options)
            sys.stdout.flush()
        except Failure as failure:
            fail(failure, as_json=options["json"])
        except BrokenPipeError:
            # The reader of our output went away (`steerweb watch ... | head`): say nothing, as other tools do.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None

    def run(self, client: Client, options: dict[str, Any]) -> None:
        """Do it."""
        raise NotImplementedError


def fail(failure: Failure, *, as_json: bool) -> None:
    """Say what went wrong, on stderr in words or on stdout as the server's JSON, and exit with its code."""
    if as_json and failure.problem is not None:
        print_json(failure.problem)
    else:
        print(f"steerweb: {clean(failure.sentence)}", file=sys.stderr)
    raise SystemExit(failure.exit_code)


def print_json(data: object) -> None:
    """One line of JSON."""
    print(json.dumps(data), flush=True)


def text_of(words: list[str], files: Sequence[str] = ()) -> str:
    """The text of a message: the words of the command line, or standard input for a single `-`; files need none."""
    if not words and not files:
        raise Failure("Say what: a text, or --file.", USAGE)
    if words != ["-"]:
        return " ".join(words)
    if sys.stdin.isatty():
        raise Failure("`-` reads the text from standard input, and that is this terminal.", USAGE)
    return sys.stdin.buffer.read().decode("utf-8", "replace")
