"""The pages about oneself: devices, tokens, the QR code; and the commands that make accounts, links and tokens."""

import io
import re
from http import HTTPStatus
from uuid import uuid4

import psycopg
import pytest
import segno
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from sessions_app.models import Device, Person, SignInLink, Token
from sessions_app.people import views
from sessions_app.people.accounts import create_person, suspend
from sessions_app.people.authenticate import from_bearer
from sessions_app.people.tokens import PATTERN, create_token
from tests.support.people import people, session_row, signed_in

pytestmark = pytest.mark.usefixtures("database")
DESK = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def test_my_devices_and_tokens_are_listed_and_no_one_elses() -> None:
    ana, ben = people("Ana", "Ben")
    phone = signed_in(ana)
    signed_in(ana, DESK)
    signed_in(ben, "Mozilla/5.0 (Windows NT 10.0) Chrome/130.0.0.0 Safari/537.36")
    create_token(ana, "<b>nightly</b>")
    create_token(ben, "secret plan")
    page = phone.get("/devices").content.decode()
    assert page.count("Chrome on Android") == 2  # its name, and the button's label
    assert "(this one)" in page
    assert "Firefox on Linux" in page
    assert "&lt;b&gt;nightly&lt;/b&gt;" in page
    assert "Chrome on Windows" not in page
    assert "secret plan" not in page


def test_one_device_is_signed_out_from_another() -> None:
    (ana,) = people("Ana")
    phone, desk = signed_in(ana), signed_in(ana, DESK)
    other = Device.objects.get(name="Firefox on Linux")
    assert phone.post(f"/devices/{other.pk}/signout")["Location"] == "/devices"
    assert desk.get("/devices").status_code == 302
    assert phone.get("/devices").status_code == 200
    assert phone.post(f"/devices/{other.pk}/signout").status_code == 302


def test_signing_out_here_and_everywhere() -> None:
    (ana,) = people("Ana")
    first, second, third, fourth = (signed_in(ana) for _ in range(4))
    assert first.post("/signout")["Location"] == "/signin/"
    assert first.get("/devices").status_code == 302
    mine = Device.objects.order_by("-created_at")[0]
    assert fourth.post(f"/devices/{mine.pk}/signout")["Location"] == "/signin/"
    assert second.post("/devices/signout")["Location"] == "/signin/"
    assert third.get("/devices").status_code == 302
    assert not Device.objects.exists()
    for browser in (first, second):
        assert browser.get("/signout").status_code in (302, 405)


def test_what_is_not_mine_stays() -> None:
    ana, ben = people("Ana", "Ben")
    mine, theirs = signed_in(ana), signed_in(ben)
    token = create_token(ben, "ci")
    mine.post(f"/devices/{Device.objects.get(person=ben).pk}/signout")
    mine.post(f"/tokens/{Token.objects.get().pk}/revoke")
    assert theirs.get("/devices").status_code == 200
    assert from_bearer(token) is not None


def test_a_revoked_token_is_dead_and_gone_from_the_page() -> None:
    (ana,) = people("Ana")
    browser, token = signed_in(ana), create_token(ana, "nightly")
    row = Token.objects.get()
    assert browser.post(f"/tokens/{row.pk}/revoke")["Location"] == "/devices"
    assert from_bearer(token) is None
    assert "nightly" not in browser.get("/devices").content.decode()


def test_expired_devices_are_not_listed_and_are_forgotten(sql: psycopg.Connection[dict[str, object]]) -> None:
    (ana,) = people("Ana")
    signed_in(ana, DESK)
    sql.execute("UPDATE django_session SET expire_date = now() - interval '1 second'")
    phone = signed_in(ana)
    assert "Firefox" not in phone.get("/devices").content.decode()
    assert [device.name for device in Device.objects.all()] == ["Chrome on Android"]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that QR codes were made of; the codes themselves are made as ever."""
    texts: list[str] = []
    make_qr = segno.make_qr

    def record(content: str, error: str) -> segno.QRCode:
        texts.append(content)
        return make_qr(content, error=error)

    monkeypatch.setattr(segno, "make_qr", record)
    return texts


def test_a_qr_code_brings_the_session_to_a_phone_once(
    encoded: list[str], sql: psycopg.Connection[dict[str, object]]
) -> None:
    ana, _ = people("Ana", "Kim")
    kim = Person.objects.get(username="Kim")
    session = session_row(ana, Kim="observer")
    answer = signed_in(kim, DESK).get(f"/s/{session.id}/qr.svg")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")
    assert answer.content.startswith(b"<?xml")
    assert b"viewBox" in answer.content
    assert answer["Cache-Control"] == "no-store"
    assert re.fullmatch(r"http://testserver/signin/[\w-]{43}", encoded[0])
    ttl = sql.execute("SELECT round(extract(epoch FROM expires_at - created_at)) AS s FROM signin_link").fetchall()
    assert int(str(ttl[-1]["s"])) == views.QR_TTL_S == 120
    path = encoded[0].removeprefix("http://testserver")
    phone = Client()
    assert phone.get(path)["Location"] == f"/s/{session.id}"
    assert Device.objects.filter(person=kim).count() == 2
    assert Client().get(path).status_code == HTTPStatus.GONE


def test_a_qr_code_uses_the_address_given_with_url(encoded: list[str], settings: Settings) -> None:
    (ana,) = people("Ana")
    settings.STEERWEB_URL = "https://runs.example.org/"
    signed_in(ana).get(f"/s/{session_row(ana).id}/qr.svg")
    assert encoded[0].startswith("https://runs.example.org/signin/")


@pytest.mark.rule("M")
def test_no_qr_code_for_a_session_of_others() -> None:
    ana, ben = people("Ana", "Ben")
    browser = signed_in(ben)
    made = SignInLink.objects.count()
    answers = [browser.get(f"/s/{which}/qr.svg") for which in (session_row(ana).id, uuid4())]
    assert {(a.status_code, a.content) for a in answers} == {
        (404, b"There is no such session, or it is not yours."),
    }
    assert SignInLink.objects.count() == made


def run(*words: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_user_create_and_suspend() -> None:
    out, _ = run("user", "create", "Ana", "--admin")
    assert "steerweb signin Ana" in out
    ana = Person.objects.get()
    assert (ana.is_superuser, ana.is_staff, ana.has_usable_password()) == (True, True, False)
    run("user", "suspend", "ana")
    assert not Person.objects.get().is_active
    with pytest.raises(CommandError, match="suspended"):
        run("signin", "Ana")
    run("user", "restore", "Ana")
    assert Person.objects.get().is_active


def test_a_name_that_does_not_fit_is_one_sentence() -> None:
    create_person("Ana")
    for name in ("", " ", "A B", "a/b", "<b>", "x" * 61, "Ana", "ANA", "a\nb"):
        with pytest.raises(CommandError, match=r"^(A name has 1 to 60|There is a \w+ already)"):
            run("user", "create", name)
    assert Person.objects.count() == 1


def test_signin_prints_the_link_alone_on_the_last_line(settings: Settings) -> None:
    create_person("Ana")
    settings.STEERWEB_URL = "http://192.0.2.7:8123"
    out, err = run("signin", "ana")
    last = out.splitlines()[-1]
    assert re.fullmatch(r"http://192\.0\.2\.7:8123/signin/[\w-]{43}", last)
    assert err == ""
    assert Client().get(last.removeprefix("http://192.0.2.7:8123")).status_code == 302
    settings.STEERWEB_URL = ""
    out, err = run("signin", "ana")
    assert out.splitlines()[-1].startswith("/signin/")
    assert "No steerweb runs on this data directory" in err


def test_token_create_prints_the_token_and_nothing_else() -> None:
    create_person("Ana")
    out, err = run("token", "create", "--user", "Ana", "--name", "nightly", "--agent")
    assert err == ""
    assert PATTERN.fullmatch(out.removesuffix("\n"))
    principal = from_bearer(out.strip())
    assert principal is not None
    assert (principal.actor.kind, principal.actor.name) == ("agent", "nightly (agent of Ana)")
    for bad in (("--user", "Nobody", "--name", "x"), ("--user", "Ana", "--name", " ")):
        with pytest.raises(CommandError):
            run("token", "create", *bad)


def test_a_suspended_person_is_signed_out_for_good() -> None:
    (ana,) = people("Ana")
    signed_in(ana)
    suspend(ana)
    assert not Device.objects.exists()
