"""The browser of the tests: found on this machine, or installed by `python -m tests.support.chromium`.

In this order: CHROMIUM, an installed Chromium or Chrome, Playwright's own; where there is none, the distribution's
package (as root with apt-get), else Playwright's download.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def works(program: str) -> bool:
    """Whether it starts (Ubuntu's package chromium-browser may be only a hint to another installer)."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _playwrights_own() -> str | None:
    base = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    folder = Path(base) if base else Path.home() / ".cache" / "ms-playwright"
    found = sorted(
        (*folder.glob("chromium-*/chrome-linux*/chrome"), *folder.glob("chromium_*/chrome-linux*/headless_shell"))
    )
    return str(found[-1]) if found else None


@cache
def find_chromium() -> str | None:
    """The path of a browser that starts, for Playwright's `executable_path`; None when there is none."""
    if given := os.environ.get("CHROMIUM"):
        return given if works(given) else None
    candidates = [*(shutil.which(name) for name in NAMES), _playwrights_own()]
    return next((candidate for candidate in candidates if candidate and works(candidate)), None)


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
