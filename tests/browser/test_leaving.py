"""A worker that goes down says so on every page that watches what it runs (J4), with real processes."""

import re
import signal
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.screens import Screens, live
from tests.support.model_server import ModelServer, call
from tests.support.running import Running

pytestmark = pytest.mark.usefixtures("database", "redis_url")
WAITS = "until [ -e go ]; do sleep 0.05; done"


@pytest.mark.rule("J4")
def test_pages_say_that_a_worker_is_leaving_and_when_it_has_left(
    own_screens: Callable[..., Screens], server: ModelServer
) -> None:
    opened = own_screens(workers=1, env={**server.environ(), "STEERWEB_GRACE_S": "60"})
    session = Running.create()
    server.script([call("shell", command=WAITS)])
    session.submit("Wait for it.")
    pages = [opened.open("ana", f"/s/{session.id}", size) for size in ("desk", "phone")]
    for page in pages:
        live(page)
        expect(page.locator(".tool[data-is=running]")).to_be_visible()
    opened.stack.run("drain", "--timeout", "0")
    for page in pages:
        expect(page.locator("#state")).to_contain_text("its worker is leaving")
        assert page.locator("#state > span").evaluate("span => span.scrollWidth <= span.clientWidth")
        page.reload()
        live(page)
        expect(page.locator("#state")).to_contain_text("its worker is leaving")
    opened.stack.workers[0].send(signal.SIGTERM)
    for page in pages:
        expect(page.locator("#state")).to_have_text(re.compile(r"its worker is leaving in \d+ s"))
    (session.workspace / "go").touch()
    for page in pages:
        expect(page.locator("#state")).to_contain_text("Waiting for a worker")
        expect(page.locator("#state")).not_to_contain_text("leaving")
