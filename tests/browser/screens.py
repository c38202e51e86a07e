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
from tests.support.waiting import PATIENCE_S
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
WAIT_MS: Final = PATIENCE_S * 1000

expect.set_options(timeout=WAIT_MS)


class Profiles:
    """Browser profiles of a file's tests, by size: a new one costs a browser more than all that a page does."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._free: dict[str, list[BrowserContext]] = {}

    def new(self, url: str, size: str, **options: Any) -> BrowserContext:
        """A profile of whoever asks; its first page is the one it signs in with."""
        # A service worker stores every static file first: only tests that are about it have one.
        usual: dict[str, Any] = {"service_workers": "block"}
        context = self.browser.new_context(base_url=url, **{**usual, **SIZES[size], **options})
        context.set_default_timeout(WAIT_MS)
        context.new_page()
        return context

    def take(self, url: str, size: str) -> BrowserContext:
        """A profile in which nobody is signed in and nothing is kept, for tests that see nothing of it but pages."""
        kept = self._free.setdefault(f"{size} {url}", [])
        return kept.pop() if kept else self.new(url, size)

    def give_back(self, url: str, size: str, context: BrowserContext) -> None:
        """Leave nothing of a test in a profile but what its browser would load again."""
        door, *pages = context.pages
        for page in pages:
            page.close()
        door.goto(f"{url}/static/icons/steerweb.svg")
        door.evaluate("localStorage.clear()")
        door.goto("about:blank")
        context.clear_cookies()
        self._free[f"{size} {url}"].append(context)


class Screens:
    """The pages of one test."""

    def __init__(self, profiles: Profiles, stack: Stack) -> None:
        self.profiles = profiles
        self.stack = stack
        self.problems: list[str] = []
        self.own: list[BrowserContext] = []
        self.lent: list[tuple[str, BrowserContext]] = []

    def context(self, name: str, size: str = "desk", **options: Any) -> BrowserContext:
        """A browser profile of the test's own in which that person, created where needed, is signed in."""
        self.own.append(self.profiles.new(self.stack.url, size, **options))
        return self._signed_in(self.own[-1], name)

    def open(self, name: str, path: str, size: str = "desk", **options: Any) -> Page:
        """A page of that person at this address, in a profile with nothing else."""
        if options:
            return self.look(self.context(name, size, **options), path)
        self.lent.append((size, self.profiles.take(self.stack.url, size)))
        return self.look(self._signed_in(self.lent[-1][1], name), path)

    def _signed_in(self, context: BrowserContext, name: str) -> BrowserContext:
        account = Person.objects.filter(username=name).first() or create_person(name)
        door = context.pages[0]
        door.goto(make_link(account), wait_until="commit")  # the cookie has come, and nobody looks at the list
        door.goto("about:blank")
        return context

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
        """End the test's pages; what went wrong on one of them fails it."""
        for context in self.own:
            context.close()
        for size, context in self.lent:
            self.profiles.give_back(self.stack.url, size, context)
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
