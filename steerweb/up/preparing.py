"""Bringing the database to this version and making a sign-in link, in one child that has Django.

It takes a second, which a later start need not wait for: a mark in the data directory says for which version the
database was prepared, and then web starts at the same time. The mark only saves time; a wrong one costs a restart.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steerweb import runtime
from steerweb.services import ServiceError
from steerweb.up.announce import LINK_HOURS, SignIn

MARK_NAME = "prepared"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done, in sentences, and the sign-in link (None when every account is suspended)."""

    done: list[str]
    sign_in: SignIn | None


class Preparation:
    """The child; `start()`, then `finish()`."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._process = subprocess.Popen(
            runtime.command_line("prepare", "--hours", str(LINK_HOURS)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> Prepared:
        """Wait for its end; ServiceError with its last words where it failed."""
        try:
            output, errors = self._process.communicate()
        except BaseException:
            self._process.kill()
            raise
        if self._process.returncode:
            self._log.write_text(output + errors)
            words = (errors.strip() or output.strip()).rsplit("\n", 1)[-1]
            raise ServiceError(f"The database could not be prepared: {words} (log: {self._log})")
        told = json.loads(output.strip().rsplit("\n", 1)[-1])
        sign_in = SignIn(told["person"], told["path"]) if told["person"] else None
        return Prepared(told["done"], sign_in)


def _version() -> str:
    """What the tables depend on: Django's own migrations and ours, and the fold that the cached states are of."""
    from importlib.metadata import version

    from sessions_app.engine.state import FOLD

    ours = Path(runtime.__file__).parent.parent / "sessions_app" / "migrations"
    return " ".join([version("django"), f"fold-{FOLD}", *sorted(path.stem for path in ours.glob("[0-9]*.py"))])


def is_prepared(data: Path) -> bool:
    """Whether the embedded database was prepared for this version."""
    try:
        return (data / MARK_NAME).read_text() == _version()
    except OSError:
        return False


def mark_prepared(data: Path) -> None:
    """Remember that it was."""
    (data / MARK_NAME).write_text(_version())
