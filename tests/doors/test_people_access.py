"""Nothing is reachable without signing in, and what ends an access ends it at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, LiteralString
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern, RoutePattern

from sessions_app.models import Device, Person, Token
from sessions_app.people.accounts import create_person, restore, suspend
from sessions_app.people.authenticate import from_bearer, from_cookie
from sessions_app.people.middleware import OPEN_PATHS
from sessions_app.people.tokens import create_token
from tests.support.people import people, session_row, signed_in

pytestmark = pytest.mark.usefixtures("database")
SAMPLES = {"uuid": str(uuid4()), "int": "1", "str": "x", "slug": "x", "path": "x/y"}


def sample(pattern: Any) -> str:
    """An address part that a pattern matches."""
    if isinstance(pattern, RoutePattern):
        return re.sub(r"<(?:(\w+):)?\w+>", lambda found: SAMPLES[found[1] or "str"], str(pattern))
    assert isinstance(pattern, RegexPattern)
    first = re.sub(r"\(\?P<\w+>([^)|]*)[^)]*\)", r"\1", str(pattern)).replace(".*", "x").strip("^$")
    found = next((text for text in (first, first + "x") if re.search(str(pattern), text)), None)
    assert found, f"no sample address for {pattern}"
    return found


def addresses(patterns: list[Any], prefix: str = "/") -> Iterator[str]:
    """An address for every view of the project."""
    for entry in patterns:
        here = prefix + sample(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from addresses(entry.url_patterns, here)
        elif isinstance(entry, URLPattern):
            yield here


def headers_of(browser: Client) -> list[tuple[bytes, bytes]]:
    """The headers with which this browser would open a socket."""
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
    return [(b"host", b"testserver"), (b"cookie", cookie.encode())]


def bearer(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"}, enforce_csrf_checks=True)


@pytest.mark.rule("M")
def test_no_address_answers_a_stranger() -> None:
    walked = sorted(set(addresses(get_resolver().url_patterns)))
    assert len(walked) > 30
    nobody, forger = Client(), bearer("sw_" + "x" * 43)
    nobody.cookies[settings.SESSION_COOKIE_NAME] = "0" * 32
    for address in walked:
        for method in ("get", "head", "post", "put", "patch", "delete", "options"):
            check_refused(nobody, method, address)
        check_refused(forger, "get", address)
        check_refused(forger, "post", address)


def check_refused(stranger: Client, method: str, address: str) -> None:
    answer = getattr(stranger, method)(address)
    what = f"{method} {address}: {answer.status_code}"
    if address.startswith(("/signin/", "/health/", "/static/")) or address in OPEN_PATHS:
        assert answer.status_code in (200, 403, 404, 405, 503), what
    elif address.startswith("/api/"):
        nothing_there = 404 if address == "/api/v1/" else 401  # a 404 elsewhere might tell what exists
        assert answer.status_code in (401, 405, nothing_there), what
        assert answer["Content-Type"] == "application/problem+json", what
    elif method in ("get", "head"):
        assert answer.status_code == HTTPStatus.FOUND, what
        assert answer["Location"].startswith("/signin/"), what
    else:
        assert answer.status_code == HTTPStatus.UNAUTHORIZED, what
        assert b"Nothing was done" in answer.content, what


def test_a_stranger_is_told_the_way_in_and_comes_back_to_the_page() -> None:
    (ana,) = people("Ana")
    answer = Client().get("/interruptions?cause=person&q=a b")
    assert answer["Location"] == "/signin/?next=%2Finterruptions%3Fcause%3Dperson%26q%3Da%2520b"
    assert "steerweb signin NAME" in Client().get(answer["Location"]).content.decode()
    assert signed_in(ana).get(answer["Location"])["Location"] == "/interruptions?cause=person&q=a%20b"


def test_a_suspended_persons_cookie_and_token_die_at_once() -> None:
    (ana,) = people("Ana")
    browser, token = signed_in(ana), create_token(ana, "ci")
    assert from_cookie(headers_of(browser)) is not None
    assert from_bearer(token) is not None
    assert browser.get("/devices").status_code == 200
    suspend(ana)
    assert from_cookie(headers_of(browser)) is None
    assert from_bearer(token) is None
    assert browser.get("/devices").status_code == 302
    assert bearer(token).post("/devices/signout").status_code == 401
    restore(ana)
    assert from_cookie(headers_of(browser)) is None
    assert from_bearer(token) is not None


def test_is_active_alone_decides_too(sql: psycopg.Connection[dict[str, object]]) -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    sql.execute("UPDATE person SET is_active = false")
    assert from_cookie(headers_of(browser)) is None
    assert browser.get("/devices").status_code == 302


ENDINGS: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM device",
    "DELETE FROM django_session",
    "UPDATE django_session SET expire_date = now() - interval '1 second'",
    "UPDATE django_session SET session_data = 'e30:forged:forged'",
    "UPDATE person SET password = '!another'",
)


def test_every_part_of_a_signed_in_browser_is_needed(sql: psycopg.Connection[dict[str, object]]) -> None:
    (ana,) = people("Ana")
    for ending in ENDINGS:
        browser = signed_in(Person.objects.get(pk=ana.pk))
        assert from_cookie(headers_of(browser)) is not None
        sql.execute(ending)
        assert from_cookie(headers_of(browser)) is None, ending
        assert browser.get("/devices").status_code == 302, ending


def test_a_socket_is_authenticated_by_one_query_and_by_cookie_only() -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    with CaptureQueriesContext(connection) as queries:
        principal = from_cookie(headers_of(browser))
    assert len(queries) == 1
    assert principal is not None
    assert principal.actor.json() == {
        "kind": "person", "id": str(ana.id), "name": "Ana", "device": {"kind": "phone", "name": "Chrome on Android"},
    }  # fmt: skip
    split = [(b"Cookie", b"a=b"), (b"cookie", headers_of(browser)[1][1])]
    assert from_cookie(split) == principal
    assert from_cookie([]) is None
    for junk in (b"", b"sessionid", b"sessionid=\xff\x00", b"sessionid=" + b"x" * 99):
        assert from_cookie([(b"cookie", junk)]) is None


def test_a_token_is_authenticated_by_one_query_once_its_use_is_counted() -> None:
    (ana,) = people("Ana")
    token = create_token(ana, "ci")
    assert Token.objects.get().last_used_at is None
    from_bearer(token)
    used = Token.objects.get().last_used_at
    assert used is not None
    with CaptureQueriesContext(connection) as queries:
        assert from_bearer(token) is not None
    assert len(queries) == 1
    assert Token.objects.get().last_used_at == used
    for wrong in ("", "sw_", token[:-1], token + "x", token.upper(), "sw_" + "\0" * 43):
        assert from_bearer(wrong) is None


def test_the_database_knows_only_a_tokens_digest(sql: psycopg.Connection[dict[str, object]]) -> None:
    (ana,) = people("Ana")
    token = create_token(ana, "ci")
    assert token.removeprefix("sw_") not in repr(sql.execute("SELECT * FROM api_token").fetchall())


@pytest.mark.rule("A5")
def test_a_token_cannot_become_a_person_at_a_browser() -> None:
    ana = create_person("Ana", admin=True)
    session = session_row(ana)
    client = bearer(create_token(ana, "ci"))
    for address in ("/devices", f"/s/{session.id}/qr.svg"):
        assert client.get(address).status_code == HTTPStatus.FORBIDDEN
    for address in ("/signout", "/devices/signout", f"/devices/{uuid4()}/signout", f"/tokens/{uuid4()}/revoke"):
        assert client.post(address).status_code == HTTPStatus.FORBIDDEN
    assert client.get("/admin/").status_code == HTTPStatus.NOT_FOUND
    assert settings.SESSION_COOKIE_NAME not in client.cookies


def test_an_authorization_header_decides_alone() -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    for header in ("Basic YTpi", "Bearer", "Bearer sw_" + "x" * 43, ""):
        assert browser.get("/devices", headers={"Authorization": header}).status_code == 302


def test_forms_of_other_sites_do_nothing() -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana, enforce_csrf_checks=True)
    for address in ("/signout", "/devices/signout"):
        assert browser.post(address).status_code == HTTPStatus.FORBIDDEN
    assert browser.get("/devices").status_code == 200
    token = browser.cookies[settings.CSRF_COOKIE_NAME].value
    foreign = browser.post("/signout", headers={"X-CSRFToken": token, "Origin": "https://evil.example"})
    assert foreign.status_code == HTTPStatus.FORBIDDEN
    assert browser.post("/signout", headers={"X-CSRFToken": token}).status_code == 302


def test_every_answer_carries_the_policy_and_is_not_kept() -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    strange = Client()
    for answer in (browser.get("/devices"), strange.get("/signin/"), strange.get("/"), browser.get("/nowhere/at/all")):
        policy = answer["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer["Cache-Control"] == "no-store"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["X-Frame-Options"] == "DENY"


def test_a_device_stays_signed_in_by_use(sql: psycopg.Connection[dict[str, Any]]) -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    name = settings.SESSION_COOKIE_NAME
    browser.cookies[name]["max-age"] = 1
    browser.get("/devices")
    assert browser.cookies[name]["max-age"] == 1  # used within the hour: nothing is written
    sql.execute("UPDATE device SET last_used_at = now() - interval '61 minutes'")
    sql.execute("UPDATE django_session SET expire_date = now() + interval '1 day'")
    browser.get("/devices")
    assert browser.cookies[name]["max-age"] == 90 * 24 * 3600
    row = sql.execute("SELECT last_used_at > now() - interval '1 minute' AS fresh FROM device").fetchone()
    assert row == {"fresh": True}
    row = sql.execute("SELECT expire_date > now() + interval '89 days' AS prolonged FROM django_session").fetchone()
    assert row == {"prolonged": True}


def _disconnect() -> None:
    """Close this thread's connections and Django's pool of them."""
    connections.close_all()
    assert isinstance(connections["default"], DatabaseWrapper)
    connections["default"].close_pool()


@contextmanager
def no_database() -> Iterator[None]:
    """Django finds no server where it looks for one."""
    databases = connections.databases["default"]
    host = databases["HOST"]
    _disconnect()
    databases["HOST"] = connection.settings_dict["HOST"] = "/nonexistent"
    try:
        yield
    finally:
        _disconnect()
        databases["HOST"] = connection.settings_dict["HOST"] = host


def test_without_a_database_pages_say_so() -> None:
    (ana,) = people("Ana")
    browser = signed_in(ana)
    with no_database():
        for answer in (browser.get("/devices"), browser.post("/signout"), Client().get("/signin/" + "x" * 43)):
            assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            assert "cannot reach its database" in answer.content.decode()
            assert answer["Retry-After"] == "2"
            assert "Content-Security-Policy" in answer
        assert Client().get("/signin/").status_code == 200
    assert browser.get("/devices").status_code == 200
    assert Device.objects.count() == 1
