"""The browser that pages are measured and tested with: one that is on this machine.

In this order: CHROMIUM, an installed Chromium or Chrome, Playwright's own.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
