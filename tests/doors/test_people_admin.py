"""Django's admin: for administrators at a browser only, and what it may change."""

from datetime import UTC, datetime
from http import HTTPStatus

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from sessions_app.ids import uuid7
from sessions_app.models import Audit, Device, Event, Interruption, Person, Session, Token
from sessions_app.people.accounts import create_person
from sessions_app.people.authenticate import from_bearer
from sessions_app.people.tokens import create_token
from tests.support.people import people, session_row, signed_in

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def kim(database: str) -> Client:
    """The browser of an administrator."""
    return signed_in(create_person("Kim", admin=True))


def fill(ana: Person) -> Session:
    """A session with one event and one interruption, and an attempt in the audit."""
    session = session_row(ana)
    now = datetime.now(UTC)
    Event.objects.create(
        session=session, seq=1, type="SteerQueued", at=now, actor='{"kind":"person"}', facts=b'{"steer":"1","text":\0}',
        texts=b'"the text itself"', facts_digest=b"", texts_digest=b"", link=b"",
    )  # fmt: skip
    Interruption.objects.create(
        id=uuid7(), session=session, loop=uuid7(), seq=1, turn_index=1, at=now, actor={}, cause="person", phase="tool",
        ended_by="worker", settled_ms=40, steps_kept=2, cut_off=0, ended=1, surviving=0, unknown=False, kept=0, held=0,
        cancelled=0,
    )  # fmt: skip
    Audit.objects.create(session=session.id, actor={}, attempt="interrupt", outcome="idle", data={})
    return session


def test_every_admin_page_opens_for_an_administrator_and_for_nobody_else(kim: Client) -> None:
    ana, ben = people("Ana", "Ben")
    session = fill(ana)
    create_token(ana, "ci")
    pages = ["/admin/", "/admin/sessions_app/person/add/", reverse("admin:session_events", args=[session.id])]
    for model in (Person, Device, Token, Session, Interruption, Audit):
        base = f"admin:sessions_app_{model._meta.model_name}"
        pages += [reverse(f"{base}_changelist"), reverse(f"{base}_change", args=[model._default_manager.all()[0].pk])]
    stranger = signed_in(ben)
    for page in pages:
        answer = kim.get(page)
        assert answer.status_code == HTTPStatus.OK, page
        assert "default-src 'self'" in answer["Content-Security-Policy"]
        assert stranger.get(page).status_code == HTTPStatus.NOT_FOUND, page
    for page in ("/admin/login/", "/admin/password_change/", "/admin/jsi18n/", "/admin/nothing/"):
        assert stranger.get(page).status_code == HTTPStatus.NOT_FOUND, page
    assert "the text itself" not in kim.get(pages[2]).content.decode()
    assert "SteerQueued" in kim.get(pages[2]).content.decode()


def test_no_page_shows_a_secret(kim: Client) -> None:
    device = Device.objects.get()
    for page in (f"/admin/sessions_app/device/{device.pk}/change/", "/admin/sessions_app/device/"):
        assert device.session_key not in kim.get(page).content.decode()
    person = kim.get(f"/admin/sessions_app/person/{device.person_id}/change/").content.decode()
    assert "password" not in person.lower()


def test_records_are_only_looked_at(kim: Client) -> None:
    (ana,) = people("Ana")
    fill(ana)
    create_token(ana, "ci")
    for model in (Device, Token, Session, Interruption, Audit):
        base = f"/admin/sessions_app/{model._meta.model_name}"
        row = model._default_manager.all()[0]
        assert kim.get(f"{base}/add/").status_code == HTTPStatus.FORBIDDEN
        assert kim.post(f"{base}/{row.pk}/change/", {"title": "x"}).status_code == HTTPStatus.FORBIDDEN
        assert kim.post(f"{base}/{row.pk}/delete/", {"post": "yes"}).status_code == HTTPStatus.FORBIDDEN
    assert kim.post(f"/admin/sessions_app/person/{ana.pk}/delete/", {"post": "yes"}).status_code == HTTPStatus.FORBIDDEN


def test_an_account_is_made_without_a_password_and_suspended(kim: Client) -> None:
    page = "/admin/sessions_app/person/"
    kim.post(f"{page}add/", {"username": "Ben", "is_active": "on"})
    ben = Person.objects.get(username="Ben")
    assert not ben.has_usable_password()
    assert not ben.is_staff
    browser, token = signed_in(ben), create_token(ben, "ci")
    for taken in ("ben", "Ben", "B en"):
        assert kim.post(f"{page}add/", {"username": taken, "is_active": "on"}).status_code == HTTPStatus.OK
    assert Person.objects.count() == 2
    assert kim.post(f"{page}{ben.pk}/change/", {"username": "Ben"}).status_code == 302
    assert browser.get("/devices").status_code == 302
    assert from_bearer(token) is None
    assert LogEntry.objects.count() == 2
    kim.post(f"{page}{ben.pk}/change/", {"username": "Ben", "is_active": "on", "is_superuser": "on"})
    assert Person.objects.get(username="Ben").is_staff


def test_actions_sign_devices_out_and_revoke_tokens(kim: Client) -> None:
    (ana,) = people("Ana")
    browser, token = signed_in(ana), create_token(ana, "ci")
    device = Device.objects.get(person=ana)
    for model, action, row in (("device", "sign_out", device.pk), ("token", "revoke", Token.objects.get().pk)):
        answer = kim.post(f"/admin/sessions_app/{model}/", {"action": action, "_selected_action": str(row)})
        assert answer.status_code == 302
    assert browser.get("/devices").status_code == 302
    assert from_bearer(token) is None


def test_signing_out_in_the_admin_signs_the_device_out(kim: Client) -> None:
    assert kim.post("/admin/logout/").status_code == 200
    assert kim.get("/devices").status_code == 302


def test_system_checks_are_clean() -> None:
    call_command("check", fail_level="WARNING")
    assert admin.site.is_registered(Person)
