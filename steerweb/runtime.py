"""The data directory and `run.json`, the record a running `up` keeps there for every other command.

The record is written once everything of it is known and replaced as a whole, so a reader sees all of it or the
previous one. It holds the secret key, hence mode 0600. A record is believed only while the `up` that wrote it lives:
after a crash another program may own its address.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

RECORD_NAME = "run.json"
LEAVING_FD = "STEERWEB_LEAVING_FD"
"""Names the descriptor on which a worker tells its `up`, by one byte, that it takes no more turns."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one running `up` tells other commands: its address, services and key.

    `url` is the address people open, `web_url` the one this machine reaches the web process at, `instance` the id its
    health page answers, `pid` and `started` (clock ticks since boot, from /proc) name the process.
    """

    url: str
    web_url: str
    database_url: str
    redis_url: str
    secret_key: str
    instance: str
    pid: int
    started: int


def data_dir() -> Path:
    """The data directory: `STEERWEB_DATA`, else `steerweb` below `XDG_DATA_HOME` or `~/.local/share`."""
    if chosen := os.environ.get("STEERWEB_DATA"):
        return Path(chosen).expanduser().absolute()
    return _default_data_dir()


def _default_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "steerweb"


def shown(arguments: str, directory: Path | None = None) -> str:
    """One of our commands as one has to type it in this folder, for the data of `directory` (default: this one's)."""
    script = Path(sys.executable).with_name("steerweb")
    name = f"{sys.executable} -m steerweb"
    if script.exists():
        here = Path.cwd()
        near = str(script.relative_to(here)) if script.is_relative_to(here) else str(script)
        name = "steerweb" if shutil.which("steerweb") == str(script) else near
    data = directory or data_dir()
    chosen = "" if data == _default_data_dir().absolute() else f"STEERWEB_DATA={shlex.quote(str(data))} "
    return f"{chosen}{name} {arguments}"


def command_line(*arguments: str) -> list[str]:
    """The argv that runs one of our own commands with this interpreter.

    An installed package is run without the current directory on its path: a file there named like a library of ours
    would be imported instead.
    """
    safe = ["-P"] if _installed() else []
    return [sys.executable, *safe, "-m", "steerweb", *arguments]


def _installed() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, and few need it

    try:
        distribution("steerweb")
    except PackageNotFoundError:
        return False
    return True


def process_started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone, a zombie, or unreadable."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def write_record(record: Record, directory: Path) -> None:
    """Replace the record in `directory` in one step."""
    handle, name = tempfile.mkstemp(dir=directory, prefix=".run-")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(record), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(directory / RECORD_NAME)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_record(directory: Path | None = None) -> Record | None:
    """The record of the `up` that runs on `directory` (default: `data_dir()`); None when none runs."""
    path = (directory or data_dir()) / RECORD_NAME
    try:
        record = Record(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        # Absent, of another user, or of another version of steerweb: all mean "no running `up` we can use".
        return None
    return record if process_started(record.pid) == record.started else None


def remove_record(directory: Path) -> None:
    """Take the record away when `up` stops."""
    (directory / RECORD_NAME).unlink(missing_ok=True)


def grace_s() -> float:
    """How many seconds a running command has after a worker was told to end (J4)."""
    return float(os.environ.get("STEERWEB_GRACE_S", "20"))
