"""Screens that people look at: pages signed in on a desk or a phone, and what a played worker streams to them."""

from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import bell, stream
from sessions_app.models import Person
from sessions_app.people.accounts import create_person
from sessions_app.people.signin import make_link
from tests.support.stack import Stack
from tests.support.world import World

SIZES: Final[dict[str, dict[str, Any]]] = {
    "desk": {"viewport": {"width": 1440, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "is_mobile": True,
        "has_touch": True,
        "user_agent": "Mozilla/5.0 (Linux; Android 14; Pixel 7) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/130.0.0.0 Mobile Safari/537.36",
    },
    "small": {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True},
}
WAIT_MS: Final = 15_000

expect.set_options(timeout=WAIT_MS)


class Screens:
    """The pages of one test."""

    def __init__(self, browser: Browser, stack: Stack) -> None:
        self.browser = browser
        self.stack = stack
        self.problems: list[str] = []
        self.contexts: list[BrowserContext] = []

    def context(self, name: str, size: str = "desk", **options: Any) -> BrowserContext:
        """A browser profile in which that person, created where needed, is signed in."""
        account = Person.objects.filter(username=name).first() or create_person(name)
        context = self.browser.new_context(base_url=self.stack.url, **{**SIZES[size], **options})
        context.set_default_timeout(WAIT_MS)
        self.contexts.append(context)
        page = context.new_page()
        page.goto(make_link(account))
        page.close()
        return context

    def open(self, name: str, path: str, size: str = "desk", **options: Any) -> Page:
        """A page of that person at this address."""
        return self.look(self.context(name, size, **options), path)

    def look(self, context: BrowserContext, path: str) -> Page:
        """One more page of a profile."""
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"{path}: {error}"))
        page.on("console", lambda message: self._console(path, message.text))
        page.goto(path)
        return page

    def session(self, name: str, world: World, size: str = "desk", **options: Any) -> Page:
        """A session's page that has caught up."""
        page = self.open(name, f"/s/{world.session}", size, **options)
        live(page)
        return page

    def _console(self, path: str, text: str) -> None:
        if "Content Security Policy" in text:
            self.problems.append(f"{path}: {text}")

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        assert not self.problems, self.problems


def live(page: Page) -> None:
    """Wait until the page says that it shows what is true."""
    expect(page.locator("#connection")).to_have_attribute("data-is", "live")


def observe(world: World, name: str) -> None:
    """Make somebody an observer."""
    if not Person.objects.filter(username=name).exists():
        create_person(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role="observer")


class Stream:
    """What a played worker streams for the running step: a text, or the output of a call."""

    def __init__(self, world: World, kind: str = "text", call: str = "", attempt: int = 1) -> None:
        self.world, self.kind, self.call, self.attempt = world, kind, call, attempt
        self.text = ""
        self.step = world.step

    def say(self, piece: str) -> None:
        """One more piece, live and saved."""
        world = self.world
        frame: dict[str, Any] = {
            "t": "delta", "loop": world.loop, "turn": world.turn, "step": self.step, "attempt": self.attempt,
            "kind": self.kind, "offset": len(self.text), "text": piece,
        }  # fmt: skip
        if self.call:
            frame["call"] = self.call
        self.text += piece
        saved = stream.Piece(
            world.session, world.loop, world.turn, self.step, self.attempt, self.kind, self.text, self.call
        )
        stream.save([saved])
        bell.delta(world.session, frame)


def texts(page: Page, selector: str) -> list[str]:
    """The words of every element that fits, as they stand in the document."""
    return [text or "" for text in page.locator(selector).evaluate_all("all => all.map(one => one.textContent)")]


def kept_seqs(page: Page) -> list[int]:
    """The seqs of the stops a page shows: its receipt's and its timeline's."""
    return [int(seq) for seq in page.locator("[data-seq]").evaluate_all("all => all.map(one => one.dataset.seq)")]
