"""Who PostgreSQL can run as here, and whether that user reaches its programs and its files."""

import os
import pwd
import shutil
from pathlib import Path

from steerweb.services.binaries import PostgresBinaries
from steerweb.services.errors import ServiceError, disk_sentence
from steerweb.services.process import Identity, can_run

# Where `nobody` finds what it cannot reach at its own place, as below a home directory of mode 0700.
SHARED = Path("/var/lib/steerweb")


def choose_identity() -> Identity:
    """Who PostgreSQL runs as: it refuses root, and initdb refuses a uid without a name.

    Root, and a uid that no passwd knows, enter a user namespace where uid 1 stands for them. Where the kernel refuses
    one (a default container), root starts it as `nobody`.
    """
    try:
        pwd.getpwuid(os.geteuid())
        named = True
    except KeyError:
        named = False
    if named and os.geteuid() != 0:
        return Identity.SELF
    if can_run(["true"], Identity.NAMESPACE):
        return Identity.NAMESPACE
    if os.geteuid() == 0 and can_run(["true"], Identity.NOBODY):
        return Identity.NOBODY
    raise ServiceError(
        "PostgreSQL does not run as root, and this machine allows neither a user namespace nor the user nobody: "
        "start steerweb as an ordinary user, or set DATABASE_URL."
    )


def owner_of(identity: Identity) -> int | None:
    """The uid that must own PostgreSQL's files; None where they simply belong to the caller."""
    return pwd.getpwnam("nobody").pw_uid if identity is Identity.NOBODY else None


def reachable_binaries(binaries: PostgresBinaries, identity: Identity) -> PostgresBinaries:
    """The same programs at a place from where `identity` can run them: their own, or a copy below /var/lib/steerweb."""
    if identity is not Identity.NOBODY or can_run([binaries.program("postgres"), "--version"], identity):
        return binaries
    _shared()
    copy = binaries.copy_to(SHARED / binaries.source)
    if not can_run([copy.program("postgres"), "--version"], identity):
        raise ServiceError(f"The user nobody cannot run PostgreSQL from {copy.root}; set DATABASE_URL.")
    return copy


def reachable_cluster(cluster: Path, identity: Identity, key: str) -> Path:
    """The directory of PostgreSQL's files, owned by who runs it.

    Where `nobody` cannot enter the data directory, `cluster` becomes a link to a directory below /var/lib/steerweb;
    no permission of a parent directory is changed for it.
    """
    owner = owner_of(identity)
    if owner is None:
        return cluster
    try:
        if not cluster.exists():
            cluster.mkdir(mode=0o700)
            os.chown(cluster, owner, -1)
            if not can_run(["test", "-w", str(cluster)], identity):
                cluster.rmdir()
                _shared()
                place = SHARED / key
                place.mkdir(mode=0o700, exist_ok=True)
                os.chown(place, owner, -1)
                cluster.symlink_to(place)
    except OSError as problem:
        raise ServiceError(disk_sentence(problem, cluster)) from problem
    return cluster.resolve()


def _shared() -> None:
    SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    if SHARED.stat().st_uid != os.geteuid():
        raise ServiceError(f"{SHARED} belongs to another user; set DATABASE_URL.")


def take_over(cluster: Path, identity: Identity) -> None:
    """Give existing files to who runs PostgreSQL now, as when a machine stops allowing user namespaces."""
    owner = owner_of(identity)
    wanted = os.geteuid() if owner is None else owner
    if os.geteuid() != 0 or not cluster.is_dir() or cluster.stat().st_uid == wanted:
        return
    for folder, _folders, files in os.walk(cluster):
        for path in (Path(folder), *(Path(folder) / name for name in files)):
            shutil.chown(path, wanted)
