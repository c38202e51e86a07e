"""Chromium for the tests of the pages: real browsers on a real web process, with the worker played by the test.

- `screens(webs=1, workers=0, env={})` starts the product and opens pages on it; a page that throws, or asks for more
  than the Content-Security-Policy allows, fails its test.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.screens import Screens
from tests.conftest import MakeStack
from tests.support.chromium import find_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser a module: Playwright's loop must not outlive it into modules that run loops of their own."""
    path = find_chromium()
    assert path is not None, "no Chromium here: `make browser` finds or installs one"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def screens(chromium: Browser, make_stack: MakeStack) -> Iterator[Callable[..., Screens]]:
    """`screens()` is a web process and whoever looks at it."""
    opened: list[Screens] = []

    def make(webs: int = 1, workers: int = 0, env: dict[str, str] | None = None) -> Screens:
        opened.append(Screens(chromium, make_stack(webs=webs, workers=workers, env=env)))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
