"""The browser of the tests: found on this machine, or installed by `python -m tests.support.chromium`.

Where `sessions_app.bench.browser` finds none, it is the distribution's package (as root with apt-get), else
Playwright's download.
"""

import os
import shutil
import subprocess
import sys

from sessions_app.bench.browser import find_chromium

__all__ = ["find_chromium"]


def install() -> str | None:
    """Install one, saying what is done; its path."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _say("Installing the distribution's chromium (some 20 s)")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *command], env=environment, stdin=subprocess.DEVNULL, check=False)
        find_chromium.cache_clear()
        if found := find_chromium():
            return found
    _say("Installing Playwright's own Chromium")
    with_libraries = ["--with-deps"] if os.geteuid() == 0 and shutil.which("apt-get") else []
    subprocess.run([sys.executable, "-m", "playwright", "install", *with_libraries, "chromium"], check=False)
    find_chromium.cache_clear()
    return find_chromium()


def _say(text: str) -> None:
    print(f"==> {text}", flush=True)


def main() -> None:
    """Find or install a browser, and say which."""
    found = find_chromium() or install()
    if found is None:
        raise SystemExit(
            "There is no Chromium for the browser tests: install one, or name it with CHROMIUM=/path/to/it."
        )
    _say(f"Browser for the tests: {found}")


if __name__ == "__main__":
    main()
