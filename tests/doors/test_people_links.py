"""Sign-in links: once, in time, for the right person, and never away from this site."""

import logging
import threading
from http import HTTPStatus
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from django.test import Client

from sessions_app.models import Device, Person, SignInLink
from sessions_app.people.accounts import create_first_person, create_person, restore, suspend
from sessions_app.people.signin import make_link, safe_next, use_link, why_refused
from tests.support.people import PHONE, signed_in

pytestmark = pytest.mark.usefixtures("database")
EVIL = [
    "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example/", "evil.example",
    "javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", "/\r\nSet-Cookie: a=b", "http:///evil.example", "",
    " //evil.example", "/x" * 400, "/\0",
]  # fmt: skip


def secret_of(path: str) -> str:
    return path.removeprefix("/signin/")


def test_a_link_signs_in_once_and_leads_to_its_page() -> None:
    ana = create_person("Ana")
    link = make_link(ana, next="/s/42")
    browser, other = Client(headers={"User-Agent": PHONE}), Client()
    first = browser.get(link)
    assert (first.status_code, first["Location"]) == (302, "/s/42")
    assert browser.get("/devices").status_code == 200
    device = Device.objects.get()
    assert (device.person_id, device.kind, device.name) == (ana.id, "phone", "Chrome on Android")
    second = other.get(link)
    assert second.status_code == HTTPStatus.GONE
    assert "This link has been used" in second.content.decode()
    assert "steerweb signin NAME" in second.content.decode()
    assert other.get("/devices").status_code == 302


def test_of_twenty_at_once_one_is_signed_in() -> None:
    link = make_link(create_person("Ana"))
    together = threading.Barrier(20)
    answers: list[int] = []

    def open_it() -> None:
        together.wait()
        answers.append(Client().get(link).status_code)
        connections.close_all()

    threads = [threading.Thread(target=open_it) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [302] + [410] * 19
    assert Device.objects.count() == 1


def test_the_database_knows_only_the_digest(sql: psycopg.Connection[dict[str, object]]) -> None:
    secret = secret_of(make_link(create_person("Ana")))
    assert len(secret) >= 43
    stored = repr(sql.execute("SELECT * FROM signin_link").fetchall())
    assert secret not in stored


def test_a_link_runs_out_by_the_databases_clock(sql: psycopg.Connection[dict[str, object]]) -> None:
    link = make_link(create_person("Ana"))
    sql.execute("UPDATE signin_link SET expires_at = now() - interval '1 second'")
    answer = Client().get(link)
    assert answer.status_code == HTTPStatus.GONE
    assert "This link has run out" in answer.content.decode()


def test_an_unknown_link_says_what_to_do() -> None:
    for secret in ("nothing", "%00", "%ED%B3%A4", "x" * 5000):
        answer = Client().get(f"/signin/{secret}")
        assert answer.status_code == HTTPStatus.NOT_FOUND
        assert "steerweb signin NAME" in answer.content.decode()


def test_old_links_are_forgotten(sql: psycopg.Connection[dict[str, object]]) -> None:
    ana = create_person("Ana")
    make_link(ana)
    sql.execute("UPDATE signin_link SET expires_at = now() - interval '25 hours'")
    make_link(ana)
    assert SignInLink.objects.count() == 1


def test_looking_ahead_does_not_use_a_link_up() -> None:
    link = make_link(create_person("Ana"))
    browser = Client()
    assert browser.get(link, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 503
    assert browser.head(link).status_code == 405
    assert browser.post(link).status_code == 405
    assert browser.get(link).status_code == 302


def test_a_suspended_persons_links_are_dead() -> None:
    ana = create_person("Ana")
    link = make_link(ana)
    suspend(ana)
    assert use_link(secret_of(link)) is None
    assert why_refused(secret_of(link)) == "suspended"
    restore(ana)
    assert use_link(secret_of(link)) == (ana, "/")


def test_a_link_works_for_who_is_signed_in_already_and_keeps_the_device() -> None:
    ana = create_person("Ana")
    browser = signed_in(ana)
    before = Device.objects.get()
    assert browser.get(make_link(ana, next="/devices"), follow=True).status_code == 200
    assert Device.objects.get().pk == before.pk


def test_another_persons_link_takes_the_browser_over() -> None:
    ana, ben = create_person("Ana"), create_person("Ben")
    browser = signed_in(ana)
    browser.get(make_link(ben))
    device = Device.objects.get()
    assert device.person_id == ben.id


def test_a_used_link_of_mine_leads_on_calmly() -> None:
    ana = create_person("Ana")
    browser = signed_in(ana)
    link = make_link(ana)
    Client().get(link)
    page = browser.get(link).content.decode()
    assert "You are signed in as" in page
    assert "Ana" in page


def test_a_planted_session_cookie_gains_nothing() -> None:
    ana = create_person("Ana")
    planted = "a" * 32
    browser = Client()
    browser.cookies[settings.SESSION_COOKIE_NAME] = planted
    browser.get(make_link(ana))
    assert browser.cookies[settings.SESSION_COOKIE_NAME].value != planted
    attacker = Client()
    attacker.cookies[settings.SESSION_COOKIE_NAME] = planted
    assert attacker.get("/devices").status_code == 302


def test_next_cannot_leave_the_site() -> None:
    ana = create_person("Ana")
    signed = signed_in(ana)
    for target in EVIL:
        assert safe_next(target) == "/"
        assert signed.get("/signin/", {"next": target})["Location"] == "/"
        link = make_link(ana, next=target)
        assert Client().get(link)["Location"] == "/"


def test_even_a_stored_next_cannot_leave_the_site() -> None:
    ana = create_person("Ana")
    for target in EVIL:
        link = make_link(ana)
        SignInLink.objects.update(next=target.replace("\0", "")[:300])
        location = Client().get(link)["Location"]
        assert not urlsplit(location).netloc
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


@pytest.mark.parametrize("target", ["/", "/s/0192", "/interruptions?cause=person&q=a%20b", "/s/1#turn-3"])
def test_next_keeps_pages_of_this_site(target: str) -> None:
    assert safe_next(target) == target


def test_cookies_are_out_of_reach_of_scripts_and_other_sites() -> None:
    browser = signed_in(create_person("Ana"))
    cookie = browser.cookies[settings.SESSION_COOKIE_NAME]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert int(cookie["max-age"]) == 90 * 24 * 3600


def test_the_first_person_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ana o'neil/../x")
    first = create_first_person()
    assert first is not None
    assert (first.username, first.is_superuser, first.has_usable_password()) == ("ana-o-neil-..-x", True, False)
    assert create_first_person() is None
    assert Person.objects.count() == 1


def test_a_nameless_system_user_is_called_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "???")
    first = create_first_person()
    assert first is not None
    assert first.username == "owner"


def test_signing_in_leaves_a_line_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    link = make_link(create_person("Ana"))
    with caplog.at_level(logging.INFO, "steerweb.security"):
        Client(headers={"User-Agent": PHONE}).get(link)
        assert secret_of(link) not in caplog.text
        Client().get(link)
    assert "Ana signed in: Chrome on Android" in caplog.text
    assert "a sign-in link was refused: used" in caplog.text
