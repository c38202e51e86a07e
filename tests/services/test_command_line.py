"""`steerweb` on a command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services import REPOSITORY


def steerweb(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "steerweb", *arguments],
        env={**os.environ, **env}, cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_unknown_command_is_named_and_the_known_ones_are_listed() -> None:
    done = steerweb("stpo")
    assert done.returncode == 2
    assert done.stderr.startswith("steerweb: there is no command 'stpo'.\n")
    assert "  up  " in done.stderr
    assert done.stdout == ""


def test_without_a_command_it_lists_them() -> None:
    done = steerweb()
    assert done.returncode == 0
    for name in ("up", "web", "worker", "signin", "watch", "stop"):
        assert f"\n  {name} " in done.stdout


def test_a_web_process_without_a_key_refuses_to_sign_cookies_with_one_of_its_own(tmp_path: Path) -> None:
    done = steerweb("web", STEERWEB_SECRET_KEY="", STEERWEB_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "Set STEERWEB_SECRET_KEY" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "'70000' is not a port"),
        (["--workers", "0"], "'0' is not a number of workers"),
        (["--url", "steer.example.org"], "'steer.example.org' is not an address such as https://"),
    ],
)
def test_a_wrong_option_of_up_is_named(arguments: list[str], words: str) -> None:
    done = steerweb("up", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["signin", "ana"], ["user", "create", "ana"], ["token", "create", "--user", "ana", "--name", "x"], ["verify"]],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("database", ["", "postgresql:///steerweb?host=/nonexistent"], ids=["none", "away"])
def test_without_a_database_a_command_says_so_in_a_sentence(
    arguments: list[str], database: str, tmp_path: Path
) -> None:
    done = steerweb(*arguments, DATABASE_URL=database, STEERWEB_DATA=str(tmp_path))
    assert done.returncode == 1
    assert ("No steerweb runs on" if not database else "The database ") in done.stderr
    assert "Traceback" not in done.stderr
