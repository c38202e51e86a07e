"""The warden as an ordinary user: the same care, in a user namespace or without any."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import services
from tests.worker.wardens import ESCAPED

NOBODY = 65534


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """A folder that the other user owns and can reach."""
    folder = Path(tempfile.mkdtemp(prefix="steerweb-nobody-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def _as_nobody(*argv: str) -> list[str]:
    """The command line that runs `argv` as the other user, whatever stands between that user and this interpreter.

    An interpreter below a closed home directory is shown to it in a mount namespace of its own.
    """
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", *argv]
    base = Path(sys.base_prefix).resolve()
    closed = [each for each in base.parents if not each.stat().st_mode & 0o001]
    if not closed:
        return drop
    script = (
        'keep=$(mktemp -d) && mount --bind "$1" "$keep" && mount -t tmpfs -o mode=755 none "$2" && mkdir -p "$1" && '
        'mount --bind "$keep" "$1" && shift 2 && exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(base), str(closed[-1]), *drop]


@pytest.mark.rule("E7", "J6")
@pytest.mark.parametrize("mode", ["user-namespace", "marker"])
def test_another_user_s_warden_kills_as_well(folder_of_nobody: Path, mode: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the other tests run as this one")
    probe = subprocess.run(_as_nobody(sys.executable, "-c", "pass"), capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"no way to run this interpreter as another user: {probe.stderr.decode()}")
    done = subprocess.run(
        _as_nobody(sys.executable, "-B", "-m", "tests.worker.warden_as_user", str(folder_of_nobody)),
        cwd=services.REPOSITORY,
        env={"PATH": os.environ["PATH"], "STEERWEB_ISOLATION": mode},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "refused" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["mode"] == mode
    assert told["output"].startswith(f"{NOBODY}\n")
    for what in ("stopped", "swept"):
        assert told[what]["alive"] == []
        assert told[what]["surviving"] == 0
        assert told[what]["ended"] >= ESCAPED
