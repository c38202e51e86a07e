"""Notifications in a real browser: turned on and off, shown, pressed, answered; and the page that is about them.

Chromium here has no push service behind it, so `pushManager.subscribe` is played; everything after it is real.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, CDPSession, Page, Worker, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.models import Person, PushChoice, PushSettings, PushSubscription
from sessions_app.people.accounts import create_person
from tests.browser.screens import SIZES, Screens, live
from tests.browser.test_layout import NAMELESS, fits
from tests.browser.test_offline import controlled
from tests.support.push_service import PushService, Subscribed
from tests.support.waiting import wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]

PLAYED = """(made) => {
  let current = null;
  const subscription = () => ({
    endpoint: made.endpoint, toJSON: () => made, options: { applicationServerKey: null },
    unsubscribe: async () => { current = null; return true; },
  });
  PushManager.prototype.subscribe = async (options) => { window.asked = options; return current = subscription(); };
  PushManager.prototype.getSubscription = async () => current;
}"""
SHOWN = """async () => (await (await navigator.serviceWorker.ready).getNotifications())
  .map(({ title, body, tag, data, actions, silent }) => ({ title, body, tag, data, silent, actions: actions.map((a) => a.action) }))"""  # noqa: E501


@pytest.fixture(scope="module")
def push() -> Iterator[PushService]:
    made = PushService()
    yield made
    made.close()


@pytest.fixture(scope="module")
def web_env(push: PushService) -> dict[str, str]:
    return {"STEERWEB_PUSH_SERVICES": push.origin}


class Phone:
    """A person's phone with notifications allowed, a page that its service worker has, and a way to press on one."""

    def __init__(self, opened: Screens, name: str, path: str, browser: Subscribed) -> None:
        self.url = opened.stack.url
        self.context: BrowserContext = opened.context(name, "phone", service_workers="allow")
        self.context.grant_permissions(["notifications"], origin=self.url)
        self.context.add_init_script(f"({PLAYED})({json.dumps(browser.json())})")
        self.page: Page = opened.look(self.context, path)
        controlled(self.page)
        self.cdp: CDPSession = self.context.new_cdp_session(self.page)
        self.registrations: list[Any] = []
        self.cdp.on(
            "ServiceWorker.workerRegistrationUpdated", lambda told: self.registrations.extend(told["registrations"])
        )
        self.cdp.send("ServiceWorker.enable")
        wait_until(self._registered, "the registration")

    def _registered(self) -> bool:
        self.page.evaluate("1")
        return bool(self.registrations)

    @property
    def worker(self) -> Worker:
        return self.context.service_workers[0]

    def deliver(self, data: dict[str, Any]) -> None:
        """What the push service would hand to the browser."""
        fields = {"origin": self.url, "registrationId": self.registrations[-1]["registrationId"]}
        self.cdp.send("ServiceWorker.deliverPushMessage", {**fields, "data": json.dumps(data)})

    def shown(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate(SHOWN)
        return found

    def until(self, words: str) -> dict[str, Any]:
        """The notification, once it says that and is the only one: for a moment one that is replaced is not there."""
        found: list[dict[str, Any]] = []

        def says_it() -> bool:
            found[:] = self.shown()
            return len(found) == 1 and words in found[0]["body"]

        wait_until(says_it, f"a notification: {words}")
        return found[0]

    def press(self, action: str = "") -> None:
        """Press the notification that is shown, or one of its buttons."""
        self.worker.evaluate(
            """async (action) => {
              const [notification] = await registration.getNotifications();
              dispatchEvent(new NotificationEvent("notificationclick", { notification, action }));
            }""",
            action,
        )


def asked(world: World, seq: int = 3, **fields: Any) -> dict[str, Any]:
    """An approval as the server sends it."""
    gate = world.ask()
    return {
        "kind": "approval", "session": world.session, "seq": seq, "title": "A test", "gate": gate, "queue": "hold",
        "body": "May it run this command? git push", "url": f"/s/{world.session}#ask-{gate}",
        "actions": ["allow", "deny", "stop"], **fields,
    }  # fmt: skip


def test_a_device_is_turned_on_tested_and_turned_off(screens: Open, push: PushService) -> None:
    opened, browser = screens(), push.browser()
    phone = Phone(opened, "ana", "/notifications", browser)
    page = phone.page
    expect(page.locator("#device")).to_contain_text("This device is not told anything.")
    assert page.evaluate("Notification.permission") == "granted"
    page.get_by_role("button", name="Turn on for this device").tap()
    expect(page.locator("#device")).to_contain_text("This device is told.")
    assert page.evaluate("window.asked.userVisibleOnly && window.asked.applicationServerKey.length > 80")
    assert PushSubscription.objects.get().endpoint == browser.endpoint
    page.get_by_role("button", name="Send a test").tap()
    expect(page.locator("#device [role=status]")).to_contain_text("Sent.")
    [message] = push.until(1)
    phone.deliver(message.data)
    phone.until("Notifications reach this device.")
    push.answers = [(410, {})]
    page.get_by_role("button", name="Send a test").tap()
    expect(page.locator("#device [role=alert]")).to_contain_text("does not know this device any more")
    assert not PushSubscription.objects.exists()
    page.get_by_role("button", name="Turn on for this device").tap()
    expect(page.locator("#device")).to_contain_text("This device is told.")
    page.get_by_role("button", name="Turn off").tap()
    expect(page.locator("#device")).to_contain_text("This device is not told anything.")
    assert not PushSubscription.objects.exists()


STATES = {
    "plain http": ("Object.defineProperty(window, 'isSecureContext', { value: false })", "Notifications need HTTPS"),
    "denied": ("Object.defineProperty(Notification, 'permission', { get: () => 'denied' })", "You have blocked"),
    "not supported": ("delete window.PushManager", "This browser cannot be told anything"),
    "an iPhone's browser": (
        "Object.defineProperty(navigator, 'userAgent', { value: 'iPhone' })", "add steerweb to the Home Screen first",
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_the_page_says_what_keeps_a_device_from_being_told(screens: Open, state: str) -> None:
    script, words = STATES[state]
    opened = screens()
    context = opened.context("ana", "small")
    context.add_init_script(script)
    page = opened.look(context, "/notifications")
    expect(page.locator("#device")).to_contain_text(words)
    expect(page.locator("#device button")).to_have_count(0)
    fits(page, SIZES["small"]["viewport"]["width"])
    assert page.evaluate(NAMELESS) == []


def test_kinds_quiet_hours_and_sessions_are_kept(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.open("ana", "/notifications", "phone", timezone_id="Europe/Berlin")
    expect(page.locator("[data-zone]")).to_have_value("Europe/Berlin")
    page.get_by_label("A turn ended").uncheck()
    page.get_by_label("Keep quiet at night").check()
    page.get_by_label("From").fill("23:00")
    page.get_by_label("A test").select_option("asks")
    page.get_by_role("button", name="Save").tap()
    expect(page.locator("[role=status]")).to_contain_text("Saved.")
    kept = PushSettings.objects.get()
    assert (kept.unwanted, str(kept.quiet_from), str(kept.quiet_to)) == (["ended"], "23:00:00", "07:00:00")
    assert (kept.zone, PushChoice.objects.get().level) == ("Europe/Berlin", "asks")
    expect(page.get_by_label("A turn ended")).not_to_be_checked()
    expect(page.get_by_label("A test")).to_have_value("asks")
    assert str(PushChoice.objects.get().session_id) == world.session


def test_the_bell_of_a_session_says_and_changes_what_one_is_told(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world, "small")
    bell = page.get_by_role("button", name="Notifications of this session")
    bell.tap()
    expect(page.get_by_role("menuitemradio", name="Everything")).to_have_attribute("aria-checked", "true")
    page.get_by_role("menuitemradio", name="Nothing").tap()
    expect(bell.locator("use")).to_have_attribute("href", "#i-bell-off")
    assert PushChoice.objects.get().level == "nothing"
    bell.tap()
    expect(page.get_by_role("menuitemradio", name="Nothing")).to_have_attribute("aria-checked", "true")
    fits(page, SIZES["small"]["viewport"]["width"])


def test_a_press_focuses_the_open_tab_at_the_approval(screens: Open, push: PushService) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", f"/s/{world.session}", push.browser())
    live(phone.page)
    news = asked(world)
    phone.deliver(news)
    one = phone.until("May it run this command?")
    assert (one["tag"], one["actions"][:2]) == (world.session, ["allow", "deny"])
    phone.press()
    expect(phone.page.locator(".ask")).to_be_focused()
    assert phone.shown() == []


def test_allow_on_the_notification_answers_as_the_device_and_only_the_named_gate(
    screens: Open, push: PushService
) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    phone.deliver(asked(world))
    phone.until("May it run")
    phone.press("allow")
    told = phone.until("Allowed. It goes on.")
    [answer] = world.events("GateResolved")
    assert (answer.data["decision"], answer.actor.name, answer.actor.device.kind) == ("allow", "ana", "phone")
    assert told["actions"] == []


def test_a_late_answer_is_told_calmly_who_was_first(screens: Open, push: PushService) -> None:
    opened, world = screens(), World.create("ana")
    create_person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    phone = Phone(opened, "ana", "/", push.browser())
    news = asked(world)
    phone.deliver(news)
    phone.until("May it run")
    control.resolve(person("ben"), world.session, new_id(), news["gate"], decision="deny")
    phone.press("allow")
    phone.until("Already answered by ben: denied. Your answer changed nothing.")


@pytest.mark.scenario("D39")
def test_stop_on_the_notification_says_what_came_of_it(screens: Open, push: PushService) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    phone.deliver(asked(world))
    phone.until("May it run")
    phone.press("stop")
    wait_until(lambda: world.events("InterruptRequested"), "the stop")
    world.end()
    phone.until("Stopped. Everything has ended.")
    [closed] = world.events("GateClosed")
    assert closed.data["reason"] == "stop"


def test_what_is_pressed_without_a_connection_is_said_not_to_be_sent_and_never_is(
    screens: Open, push: PushService
) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    phone.deliver(asked(world))
    phone.until("May it run")
    phone.context.set_offline(True)
    phone.press("stop")
    one = phone.until("NOT sent. The server could not be reached, so nothing was stopped")
    assert one["actions"][:2] == ["allow", "deny"]
    phone.press("allow")
    phone.until("NOT sent. The server could not be reached: the approval still waits.")
    phone.context.set_offline(False)
    live(phone.page)
    assert not world.events("InterruptRequested", "GateResolved")
    phone.press("allow")
    phone.until("Allowed. It goes on.")


def test_one_notification_a_session_which_says_what_is_true_now(screens: Open, push: PushService) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    news = asked(world, seq=10)
    phone.deliver(news)
    phone.until("May it run")
    answered = {**news, "kind": "answered", "body": "Allowed by ben.", "seq": 11, "actions": []}
    phone.deliver(answered)
    one = phone.until("Allowed by ben.")
    assert (one["silent"], one["actions"]) == (True, [])
    ended = {**news, "kind": "ended", "body": "Done in 3 s.", "seq": 12, "actions": []}
    phone.deliver(ended)
    phone.until("Done in 3 s.")
    phone.deliver(news)  # late
    phone.deliver({**answered, "gate": new_id(), "seq": 13})  # of an approval that is not shown
    phone.deliver({**ended, "session": new_id(), "body": "Another session."})
    wait_until(lambda: len(phone.shown()) == 2, "the other session's")
    assert {each["body"] for each in phone.shown()} == {"Done in 3 s.", "Another session."}


def test_late_news_of_a_notification_that_was_put_away_are_not_shown(screens: Open, push: PushService) -> None:
    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    news = asked(world, seq=10)
    phone.deliver({**news, "kind": "ended", "body": "Done in 3 s.", "seq": 12, "actions": []})
    phone.until("Done in 3 s.")
    phone.worker.evaluate("async () => (await registration.getNotifications()).forEach((one) => one.close())")
    wait_until(lambda: phone.shown() == [], "nothing shown")
    phone.deliver(news)  # late
    phone.deliver({**news, "session": new_id(), "body": "Another session."})
    phone.until("Another session.")


def test_a_device_that_was_signed_out_answers_nothing(screens: Open, push: PushService) -> None:
    from sessions_app.models import Device
    from sessions_app.people import devices

    opened, world = screens(), World.create("ana")
    phone = Phone(opened, "ana", "/", push.browser())
    phone.deliver(asked(world))
    phone.until("May it run")
    phone.page.goto("/offline")  # a page that does not notice
    devices.sign_out(Device.objects.filter(person=Person.objects.get(username="ana")))
    phone.press("allow")
    phone.until("This device is signed out.")
    assert not world.events("GateResolved")


@pytest.mark.parametrize("hidden", [False, True])
def test_the_server_knows_whether_a_page_is_looked_at(screens: Open, hidden: bool) -> None:
    from sessions_app.push.looking import looking

    opened, world = screens(), World.create("ana")
    ana = str(Person.objects.get(username="ana").pk)
    page = opened.session("ana", world)
    wait_until(lambda: looking(world.session) == {ana}, "ana's look")
    if hidden:
        page.evaluate("""() => {
          Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
          Object.defineProperty(document, 'visibilityState', { get: () => 'hidden', configurable: true });
          document.dispatchEvent(new Event('visibilitychange'));
        }""")
    else:
        page.close()
    wait_until(lambda: looking(world.session) == set(), "nobody's look")


@pytest.mark.parametrize("size", SIZES)
def test_a_link_leads_to_its_turn(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    turns = []
    for number in range(12):
        turns.append(world.start(f"question {number}"))
        world.answer(f"answer {number}\n" * 12)
    page = opened.open("ana", f"/s/{world.session}#{turns[3]}", size)
    live(page)
    expect(page.get_by_text("question 3", exact=True)).to_be_in_viewport()
    assert re.search("question 11", page.locator("#timeline").inner_text())
