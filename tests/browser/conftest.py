"""Chromium for the tests of the pages: real browsers on a real web process, with the worker played by the test.

- `screens()` opens pages on the web process of the file, `own_screens(webs=, workers=, env=)` on a stack of the test's
  own; a page that throws, or asks for more than the Content-Security-Policy allows, fails its test.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.screens import Profiles, Screens
from tests.conftest import MakeStack
from tests.support.chromium import find_chromium
from tests.support.stack import Stack

WITHOUT = (
    # The two popups of an address bar that nobody sees: with each profile they cost more than our pages do.
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
    # What Playwright turns off by itself: a browser obeys only the last list it is given.
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect", "TcpPortRandomizationWin", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
)  # fmt: skip
"""Parts of Chromium that the tests have no use for."""


@pytest.fixture(scope="module")
def profiles() -> Iterator[Profiles]:
    """One browser a module: Playwright's loop must not outlive it into modules that run loops of their own."""
    path = find_chromium()
    assert path is not None, "no Chromium here: `make browser` finds or installs one"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        arguments.append("--disable-features=" + ",".join(WITHOUT))
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield Profiles(browser)
        browser.close()


@pytest.fixture
def screens(profiles: Profiles, web: Stack) -> Iterator[Callable[..., Screens]]:
    """`screens()` is the file's web process and whoever looks at it."""
    with _screens(lambda: Screens(profiles, web)) as make:
        yield make


@pytest.fixture
def own_screens(profiles: Profiles, make_stack: MakeStack) -> Iterator[Callable[..., Screens]]:
    """`own_screens(webs=1, workers=0, env={})` is a stack of this test alone and whoever looks at it."""

    def make(webs: int = 1, workers: int = 0, env: dict[str, str] | None = None) -> Screens:
        return Screens(profiles, make_stack(webs=webs, workers=workers, env=env))

    with _screens(make) as noted:
        yield noted


@contextmanager
def _screens(make: Callable[..., Screens]) -> Iterator[Callable[..., Screens]]:
    """`make`, with what it made closed at the end."""
    opened: list[Screens] = []

    def noted(**shape: Any) -> Screens:
        opened.append(make(**shape))
        return opened[-1]

    yield noted
    for one in opened:
        one.close()
