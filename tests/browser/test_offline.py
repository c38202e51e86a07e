"""The service worker: an app to install, the last known state while there is no connection, none after sign-out."""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.screens import SIZES, Screens, live
from tests.browser.test_layout import fits
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
STORED = re.compile(r"^Last known state, from \d\d:\d\d( [AP]M)?\. No connection\.$")


def phone(opened: Screens, name: str) -> BrowserContext:
    """A phone with a service worker."""
    return opened.context(name, "phone", service_workers="allow")


STORED_PATHS = """async () => {
  if (!(await caches.has("pages"))) return [];
  return (await (await caches.open("pages")).keys()).map((request) => new URL(request.url).pathname);
}"""


def controlled(page: Page) -> None:
    """Wait until the service worker has the page."""
    wait_until(lambda: page.evaluate("navigator.serviceWorker.controller?.state === 'activated'"), "its control")


def stored(page: Page) -> list[str]:
    """The addresses of the pages that this device has stored."""
    keys: list[str] = page.evaluate(STORED_PATHS)
    return keys


STORED_ANEW = """async (path) => {
  const stored = async () => (await (await caches.open("pages")).match(path))?.headers.get("X-Stored-At");
  let gone = 0;
  for (let round = 0; round < 20; round += 1) {
    const before = await stored();
    navigator.serviceWorker.controller.postMessage({ keep: path });
    for (let now = before; now === before || !now; now = await stored()) if (!now) gone += 1;
  }
  return gone;
}"""


def keep(page: Page, path: str) -> None:
    """Open a page until it is stored."""
    page.goto("/")
    controlled(page)
    page.goto(path)
    live(page)
    wait_until(lambda: path in stored(page), f"the storing of {path}")


def test_it_can_be_installed(screens: Open) -> None:
    opened = screens()
    answer = httpx.get(f"{opened.stack.url}/manifest.webmanifest")
    manifest = answer.json()
    assert answer.headers["content-type"] == "application/manifest+json"
    assert (manifest["display"], manifest["scope"], len(manifest["shortcuts"])) == ("standalone", "/", 3)
    purposes = {(icon["sizes"], icon["purpose"]) for icon in manifest["icons"]}
    assert {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")} <= purposes
    for icon in manifest["icons"]:
        found = httpx.get(opened.stack.url + icon["src"])
        assert (found.status_code, found.headers["content-type"]) == (200, icon["type"])
    worker = httpx.get(f"{opened.stack.url}/sw.js")
    assert worker.headers["content-type"].startswith("text/javascript")
    assert (worker.headers["cache-control"], worker.headers["service-worker-allowed"]) == ("no-cache", "/")
    build = json.loads(worker.text.split("\n", 1)[0].removeprefix("self.BUILD = ").removesuffix(";"))
    assert "/static/js/session/main.js" in build["files"]
    for file in build["files"]:
        assert httpx.get(opened.stack.url + file).status_code == 200, file


def test_without_a_connection_a_session_shows_its_last_known_state_and_can_only_be_read(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("look at the tests")
    context = phone(opened, "ana")
    page = context.new_page()
    keep(page, f"/s/{world.session}")
    context.set_offline(True)
    page.goto(f"/s/{world.session}")
    expect(page.locator("#stored")).to_have_text(STORED)
    expect(page.locator("#timeline")).to_contain_text("look at the tests")
    expect(page.locator("#state")).to_have_text(re.compile(r"^At \d\d:\d\d:\d\d: "))
    expect(page.locator("#say")).to_be_hidden()
    fits(page, SIZES["phone"]["viewport"]["width"])
    page.locator("#stop .halt:not(.more)").tap()
    expect(page.locator("#stop-says")).to_contain_text("NOT sent")
    world.answer("the end of it")
    context.set_offline(False)
    live(page)
    expect(page.locator("#stored")).to_have_count(0)
    expect(page.locator("#say")).to_be_visible()
    expect(page.locator(".step .prose")).to_have_text("the end of it")
    assert not world.events("InterruptRequested")


def test_what_is_stored_stays_there_while_it_is_stored_anew(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = phone(opened, "ana").new_page()
    keep(page, f"/s/{world.session}")
    assert page.evaluate(STORED_ANEW, f"/s/{world.session}") == 0


def test_the_list_and_what_was_left_last_are_stored_and_nothing_else(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start()
    context = phone(opened, "ana")
    page = context.new_page()
    keep(page, f"/s/{world.session}")
    world.answer("said later")
    expect(page.locator(".step .prose")).to_have_text("said later")
    page.evaluate("""() => {
      Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }""")
    read = f"caches.open('pages').then((c) => c.match('/s/{world.session}')).then((r) => r.text())"
    wait_until(lambda: "said later" in page.evaluate(read), "what was left last")
    page.goto("/devices")
    assert sorted(stored(page)) == ["/", f"/s/{world.session}", "/stored-for"]
    names = page.evaluate("caches.keys()")
    assert len(names) == 2
    static = next(name for name in names if name != "pages")
    kept = page.evaluate(f"caches.open('{static}').then((c) => c.keys()).then((k) => k.map((r) => r.url))")
    assert not [url for url in kept if "/static/" not in url and not url.endswith("/offline")]
    context.set_offline(True)
    page.goto("/")
    expect(page.locator("#stored")).to_have_text(STORED)
    expect(page.locator("#sessions")).to_contain_text("A test")
    page.goto("/interruptions")
    expect(page.locator("h1")).to_have_text("No connection")


@pytest.mark.parametrize("how", ["button", "elsewhere"])
def test_signing_out_takes_everything_stored_away(screens: Open, how: str) -> None:
    opened, world = screens(), World.create("ana")
    context = phone(opened, "ana")
    page = context.new_page()
    keep(page, f"/s/{world.session}")
    if how == "button":
        page.goto("/devices")
        page.get_by_role("button", name=re.compile("^Sign out: ")).first.tap()
        expect(page).to_have_url(re.compile("/signin/"))
    else:
        from sessions_app.models import Device
        from sessions_app.people import devices

        devices.sign_out(Device.objects.all())
        expect(page.locator("#connection")).to_have_text("Signed out")
    wait_until(lambda: stored(page) == [], "an empty store")
    context.set_offline(True)
    page.goto(f"/s/{world.session}")
    expect(page.locator("h1")).to_have_text("No connection")


def test_what_one_account_has_stored_is_never_shown_to_the_next(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    context = phone(opened, "ana")
    page = context.new_page()
    keep(page, f"/s/{world.session}")
    opened._signed_in(context, "ben")  # without signing out before
    page.goto("/")
    wait_until(lambda: stored(page)[:1] == ["/stored-for"], "the new owner")
    assert f"/s/{world.session}" not in stored(page)
    context.set_offline(True)
    page.goto(f"/s/{world.session}")
    expect(page.locator("h1")).to_have_text("No connection")


def test_an_answer_that_was_on_its_way_when_everything_was_forgotten_is_not_stored(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = phone(opened, "ana").new_page()
    keep(page, f"/s/{world.session}")
    page.evaluate(f"""() => {{
      navigator.serviceWorker.controller.postMessage({{ keep: '/s/{world.session}' }});
      navigator.serviceWorker.controller.postMessage({{ forget: true }});
    }}""")
    wait_until(lambda: stored(page) == [], "an empty store")
    reply: Any = page.evaluate(f"fetch('/s/{world.session}').then((r) => r.status)")
    assert (reply, stored(page)) == (200, [])
