"""The origin rule of the socket door, and what a browser is called."""

import pytest

from sessions_app.engine.actors import Device
from sessions_app.people.origins import allowed
from sessions_app.people.user_agent import describe

HERE = "192.0.2.7:8123"


@pytest.mark.parametrize(
    ("origin", "host", "secure", "extra"),
    [
        ("http://192.0.2.7:8123", HERE, False, ""),
        ("http://localhost:8123", "localhost:8123", False, ""),
        ("http://EXAMPLE.org", "example.org", False, ""),
        ("http://example.org", "example.org:80", False, ""),
        ("https://example.org:443", "example.org", True, ""),
        ("http://[::1]:8123", "[::1]:8123", False, ""),
        ("https://runs.example.org", HERE, False, "https://runs.example.org/"),
        ("https://runs.example.org", "runs.example.org", False, "https://runs.example.org:443"),
    ],
)
def test_our_own_pages_may_open_a_socket(origin: str, host: str, secure: bool, extra: str) -> None:
    assert allowed(origin, host, secure, extra)


@pytest.mark.parametrize(
    ("origin", "host", "secure", "extra"),
    [
        (None, HERE, False, ""),
        ("", HERE, False, ""),
        ("null", HERE, False, ""),
        ("http://evil.example", HERE, False, ""),
        ("http://192.0.2.7:8124", HERE, False, ""),
        ("http://192.0.2.7", HERE, False, ""),
        ("https://192.0.2.7:8123", HERE, False, ""),
        ("http://192.0.2.7:8123.evil.example", HERE, False, ""),
        ("http://192.0.2.7:8123@evil.example", HERE, False, ""),
        ("http://ana@192.0.2.7:8123", HERE, False, ""),
        ("http://127.0.0.1:8123", "localhost:8123", False, ""),
        ("file://192.0.2.7:8123", HERE, False, ""),
        ("chrome-extension://192.0.2.7:8123", HERE, False, ""),
        ("http://192.0.2.7:99999999", HERE, False, ""),
        ("http://[::1", "[::1", False, ""),
        ("http://runs.example.org", HERE, False, "https://runs.example.org"),
        ("https://runs.example.org.evil.example", HERE, False, "https://runs.example.org"),
        ("null", "", False, "null"),
        ("http://", "", False, ""),
    ],
)
def test_any_other_page_may_not(origin: str | None, host: str, secure: bool, extra: str) -> None:
    assert not allowed(origin, host, secure, extra)


MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36"
ANDROID = "Mozilla/5.0 (Linux; Android 14; {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 {}Safari/537.36"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "kind", "name"),
    [
        (ANDROID.format("Pixel 7", "Mobile "), "phone", "Chrome on Android"),
        (ANDROID.format("SM-X710", ""), "tablet", "Chrome on Android"),
        (f"{IPHONE} Version/17.5 Mobile/15E148 Safari/604.1", "phone", "Safari on iPhone"),
        (f"{IPHONE} CriOS/130.0 Mobile/15E148 Safari/604.1", "phone", "Chrome on iPhone"),
        (f"{IPHONE} FxiOS/130.0 Mobile/15E148 Safari/605.1.15", "phone", "Firefox on iPhone"),
        ("Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1", "tablet", "Safari on iPad"),
        (f"{MAC} Version/17.5 Safari/605.1.15", "desk", "Safari on macOS"),
        (WINDOWS, "desk", "Chrome on Windows"),
        (f"{WINDOWS} Edg/130.0.0.0", "desk", "Edge on Windows"),
        (f"{WINDOWS} OPR/114.0.0.0", "desk", "Opera on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "desk", "Firefox on Linux"),
        ("Mozilla/5.0 (X11; Linux x86_64) HeadlessChrome/130.0.0.0 Safari/537.36", "desk", "Chrome on Linux"),
        ("curl/8.5.0", "desk", "A browser"),
        ("", "desk", "A browser"),
    ],
)
def test_a_browser_is_named_in_words(user_agent: str, kind: str, name: str) -> None:
    found = describe(user_agent)
    assert (found.kind, found.name) == (kind, name)
    assert isinstance(found, Device)
