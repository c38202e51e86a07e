"""The handshake's own checks, header by header (D22)."""

import pytest
from pytest_django import Settings

from sessions_app.live.access import handshake_refusal, has_credential

HOST = (b"host", b"steer.local:8123")
COOKIE = (b"cookie", b"sessionid=abc")
OWN = (b"origin", b"http://steer.local:8123")
FOREIGN = (b"origin", b"http://evil.example")
TOKEN = (b"authorization", b"Bearer sw_x")

Header = tuple[bytes, bytes]


@pytest.mark.scenario("D22")
@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ((HOST,), False),
        ((HOST, TOKEN), False),
        ((HOST, COOKIE, OWN), False),
        ((HOST, OWN), False),
        ((HOST, COOKIE), True),
        ((HOST, COOKIE, TOKEN), False),
        ((HOST, COOKIE, FOREIGN), True),
        ((HOST, FOREIGN), True),
        ((HOST, FOREIGN, TOKEN), True),
        ((HOST, COOKIE, OWN, FOREIGN), True),
        ((HOST, COOKIE, FOREIGN, OWN), True),
        ((COOKIE, OWN), True),
        ((HOST, (b"host", b"evil.example"), COOKIE, (b"origin", b"http://evil.example")), True),
        ((HOST, COOKIE, (b"origin", b"https://steer.local:8123")), True),
        ((HOST, COOKIE, (b"origin", b"null")), True),
    ],
)
def test_origin_cookie_and_token_decide_together(headers: tuple[Header, ...], refused: bool) -> None:
    assert (handshake_refusal(headers, secure=False) is not None) is refused


@pytest.mark.scenario("D22")
def test_tls_the_proxys_address_and_the_hosts_one_answers_to_count(settings: Settings) -> None:
    secure = (HOST, COOKIE, (b"origin", b"https://steer.local:8123"))
    assert handshake_refusal(secure, secure=True) is None
    proxied = (HOST, COOKIE, (b"origin", b"https://steer.example.org"))
    assert handshake_refusal(proxied, secure=False) is not None
    settings.STEERWEB_URL = "https://steer.example.org/"
    assert handshake_refusal(proxied, secure=False) is None
    settings.ALLOWED_HOSTS = ["steer.example.org"]
    assert handshake_refusal((HOST, COOKIE, OWN), secure=False) is not None
    assert handshake_refusal(proxied, secure=False) is None


def test_only_a_session_cookie_or_a_token_is_a_credential() -> None:
    assert has_credential((HOST, COOKIE))
    assert has_credential((HOST, TOKEN))
    assert not has_credential((HOST, (b"cookie", b"csrftoken=abc"), OWN))
    assert not has_credential((HOST, (b"cookie", b"sessionid=")))
