"""What a browser calls itself, in a person's words: "Chrome on Android", a phone."""

import re
from typing import Final

from sessions_app.engine.actors import Device, DeviceKind

# The first match wins: nearly every browser also claims to be Chrome and Safari.
_BROWSERS: Final = (
    (r"EdgA?/|EdgiOS/", "Edge"),
    (r"OPR/|OPT/|OPX/", "Opera"),
    (r"SamsungBrowser/", "Samsung Internet"),
    (r"Firefox/|FxiOS/", "Firefox"),
    (r"Chrome/|HeadlessChrome/|CriOS/", "Chrome"),
    (r"Safari/|AppleWebKit/", "Safari"),
)
_SYSTEMS: Final = (
    (r"iPhone|iPod", "iPhone"),
    (r"iPad", "iPad"),
    (r"Android", "Android"),
    (r"Windows", "Windows"),
    (r"CrOS", "ChromeOS"),
    (r"Macintosh|Mac OS X", "macOS"),
    (r"Linux|X11", "Linux"),
)


def _first(patterns: tuple[tuple[str, str], ...], text: str) -> str | None:
    return next((name for pattern, name in patterns if re.search(pattern, text)), None)


def _kind(system: str | None, text: str) -> DeviceKind:
    if system == "iPhone" or (system == "Android" and "Mobile" in text):
        return "phone"
    # An iPad that asks for desktop pages says it is a Mac, and nothing in a request tells the two apart.
    return "tablet" if system in ("iPad", "Android") else "desk"


def describe(user_agent: str) -> Device:
    """The device behind a User-Agent header. What is not recognised is a browser at a desk."""
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    name = f"{browser or 'A browser'} on {system}" if system else (browser or "A browser")
    return Device(_kind(system, user_agent), name)
