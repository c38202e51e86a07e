"""Keys of model providers, entered on a page: tested by a real request, used without a restart, never seen again."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from playwright.sync_api import Page, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.keys import sealing, stored
from sessions_app.models import Person
from sessions_app.people.accounts import create_person
from tests.browser.screens import Screens, live
from tests.support.model_server import ModelServer, call, say
from tests.support.waiting import wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
KEY = "sk-entered-on-a-page-0123456789"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(key=KEY) as running:
        yield running


def administrator(screens: Screens, path: str, size: str = "desk") -> Page:
    if not Person.objects.filter(username="root").exists():
        create_person("root", admin=True)
    return screens.open("root", path, size)


def enter(page: Page, key: str, address: str = "") -> None:
    card = page.locator("#openai")
    if card.get_by_text("Enter another key").count():
        card.get_by_text("Enter another key").click()
    card.locator("[name=key]").fill(key)
    card.locator("[name=base_url]").fill(address)
    card.get_by_role("button", name="Save").click()


def reply(name: str, model: str, text: str) -> World:
    """A session whose first turn has ended."""
    who = person(name)
    made = control.create_session(who, new_id(), model=model, mode="auto")
    world = World(who, made["id"], made["loop"])
    world.submit(text)
    wait_until(lambda: bool(world.events("TurnDone", "TurnFailed")), "the end of the turn")
    return world


@pytest.mark.rule("A6")
def test_a_key_is_entered_tested_used_masked_and_removed(
    own_screens: Callable[..., Screens], server: ModelServer, database: str
) -> None:
    opened = own_screens(workers=1)
    page = administrator(opened, "/", "phone")
    page.get_by_role("link", name="Enter a key and test it").click()
    enter(page, "sk-not-the-right-one-99", f"{server.url}/v1")
    page.get_by_role("button", name="Test OpenAI").click()
    said = page.locator("#openai .says")
    expect(said).to_contain_text(f"The server at {server.url}/v1 did not accept the key (401): Incorrect API key")
    expect(said).to_contain_text("***")
    expect(said).not_to_contain_text("sk-not")
    enter(page, KEY, f"{server.url}/v1")
    expect(page.locator("#openai")).to_contain_text("A key that ends in 6789.")
    expect(page.locator("#openai")).to_contain_text("by root")
    page.get_by_role("button", name="Test OpenAI").click()
    expect(said).to_contain_text("It works. ")
    expect(said).to_contain_text("accepted it and offers 2 models.")
    assert server.asked_for_models == ["sk-not-the-right-one-99", KEY]
    assert KEY not in page.content()
    stored.refresh()  # this process is a door, too: the ones that sweep do it once a second
    server.script([call("shell", command="env; cat /proc/$PPID/environ")], [say(f"The key is {KEY}, I believe.")])
    world = reply("ana", "openai-chat:scripted-1", f"my key is {KEY}")
    assert world.types()[-3:] == ["TurnDone", "LoopIdle", "SessionIdle"]
    log = "".join(repr(event.data) for event in world.events())
    assert KEY not in log and "The key is ***" in log and "my key is ***" in log
    assert all(request.text.count(KEY) == 0 for request in server.requests)
    with psycopg.connect(database) as connection:
        sealed = connection.execute("SELECT sealed FROM provider_key").fetchone()
    assert sealed is not None and KEY.encode() not in bytes(sealed[0])
    page.goto("/")
    live(page)
    expect(page.locator("#models option[value='openai-chat:scripted-2']")).to_have_count(1)
    page.goto("/models")
    page.get_by_role("button", name="Remove the key of OpenAI").click()
    expect(page.locator("#openai")).to_contain_text("No key yet.")
    failed = reply("ana", "openai-chat:scripted-1", "and now?").events("TurnFailed")
    assert failed[0].data["error"]["code"] == "key_missing"


def test_only_an_administrator_at_a_browser_gets_to_the_keys(screens: Callable[..., Screens]) -> None:
    opened = screens()
    administrator(opened, "/models")
    page = opened.open("ana", "/models")
    expect(page.locator("body")).to_contain_text("Only an administrator")
    page.goto("/")
    expect(page.locator("nav[aria-label=Pages]")).not_to_contain_text("Models")
    expect(page.locator("#welcome")).to_contain_text("An administrator of this server can enter a key")


def test_what_is_no_key_or_no_address_is_said_at_its_field(screens: Callable[..., Screens]) -> None:
    opened = screens()
    page = administrator(opened, "/models", "phone")
    enter(page, "two words")
    wrong = page.locator("#openai .wrong")
    expect(wrong).to_have_text("This is no key: one is a single word of letters, digits and signs.")
    page.locator("#openai form.entry").evaluate("form => form.noValidate = true")
    enter(page, "sk-0123456789", "ftp://example")
    expect(wrong).to_have_text("An address begins with https:// or http:// and names a server.")
    expect(page.locator("#openai [name=base_url]")).to_have_value("ftp://example")
    expect(page.locator("#openai [name=key]")).to_have_value("")
    enter(page, "", "http://localhost:1/v1")
    expect(page.locator("#openai")).to_contain_text("No key, for a server that asks for none.")


def test_a_key_sealed_under_another_secret_counts_as_none_and_says_so(
    screens: Callable[..., Screens], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = screens()
    account = create_person("root", admin=True)
    with monkeypatch.context() as patch:
        patch.setattr("django.conf.settings.SECRET_KEY", "another-secret-of-this-server")
        stored.store("anthropic", "sk-ant-0123456789-abcd", "", account.id)
    page = opened.open("root", "/models")
    expect(page.locator("#anthropic")).to_contain_text("The stored key cannot be opened any more")
    assert stored.refresh() == {"anthropic": None}


def test_nothing_sealed_is_the_same_twice_or_readable() -> None:
    first, second = sealing.seal(KEY), sealing.seal(KEY)
    assert first != second and KEY.encode() not in first
    assert sealing.unseal(first) == sealing.unseal(second) == KEY
    assert sealing.unseal(first[:-3] + b"AAA") is None
