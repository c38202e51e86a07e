"""The page of the parts: every state of every part, drawn by the modules that draw it elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from sessions_app.people.accounts import create_person
from tests.browser.screens import SIZES, Screens
from tests.browser.test_states import violations

pytestmark = pytest.mark.usefixtures("database", "redis_url")
SHOTS: Final = Path(__file__).parents[2] / ".artefacts" / "parts"
PARTS: Final = (
    "Colours", "Buttons", "Fields", "What is said", "Icons", "Dots, faces, labels", "Sessions in the list", "Calls",
    "Turns", "Stop receipts", "Approvals",
)  # fmt: skip
SCHEMES: Final[tuple[Any, ...]] = ("light", "dark")


@pytest.mark.parametrize("size", ["desk", "phone"])
def test_staff_see_every_part_in_every_state(screens: Callable[..., Screens], size: str) -> None:
    create_person("root", admin=True)
    page = screens().open("root", "/parts", size)
    for scheme in SCHEMES:
        page.get_by_role("link", name=scheme, exact=False).click()
        for name in PARTS:
            expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        expect(page.locator("#sessions > li")).to_have_count(8)
        expect(page.locator(".receipt")).to_have_count(2)
        expect(page.locator(".receipt[data-over]")).to_have_count(1)
        expect(page.locator(".rule.stopped")).to_contain_text("Stopped by ana")
        expect(page.locator(".ask")).to_have_count(2)
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["viewport"]["width"]
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{size}-{scheme}.png", full_page=True)
        assert violations(page) == []


def test_nobody_else_is_shown_that_page(screens: Callable[..., Screens]) -> None:
    page = screens().open("ana", "/parts")
    expect(page.get_by_role("heading", name="The parts of every screen")).to_have_count(0)
    assert page.goto("/parts").status == 404  # type: ignore[union-attr]
