"""The page where an administrator enters keys of model providers, tests and removes them. No key is shown again."""

import logging
import time
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from sessions_app.engine.model_names import PROVIDERS
from sessions_app.keys import stored
from sessions_app.people.views import Me, in_person

TASK: Final = "steerweb.test_key"
WAIT_S: Final = 20.0
_LOOK_S: Final = 0.2
_LONGEST: Final = 4000
log = logging.getLogger("steerweb.security")


def _administrator(me: Me) -> None:
    if not me.principal.is_admin:
        raise PermissionDenied("Only an administrator can enter keys of model providers.")


@require_safe
@in_person
def models_page(request: HttpRequest, me: Me) -> HttpResponse:
    """What there is for each provider, and a form to enter it."""
    _administrator(me)
    return _page(request)


def _page(request: HttpRequest, wrong: dict[str, str] | None = None, typed: str = "") -> HttpResponse:
    """`wrong`: what is wrong with what was sent, by `family` and `field`; the key itself is never sent back."""
    kept = stored.read_all()
    context = {
        "providers": [_shown(family, kept.get(family)) for family in stored.FAMILIES], "wrong": wrong, "typed": typed,
    }  # fmt: skip
    return render(request, "models.html", context, status=200 if wrong is None else 400)


def _shown(family: str, kept: stored.Stored | None) -> dict[str, Any]:
    provider = PROVIDERS[stored.FAMILIES[family]]
    return {
        "family": family,
        "title": provider.title,
        "variables": provider.keys,
        "from_environment": stored.from_environment(family),
        "kept": kept if kept is not None and kept.sealed else None,
        "unreadable": kept is not None and kept.sealed and kept.given is None,
        "keyless": kept is not None and kept.given is not None and not kept.given.key,
        "tested": kept if kept is not None and kept.tested_at is not None else None,
        "prefix": provider.name,
    }  # fmt: skip


def _known(family: str) -> str:
    if family not in stored.FAMILIES:
        raise Http404
    return family


@require_POST
@in_person
def key_set(request: HttpRequest, me: Me, family: str) -> HttpResponse:
    """Store a key. Key and address come together: no stored key is ever sent to an address that came later."""
    _administrator(me)
    key, address = request.POST.get("key", "").strip(), request.POST.get("base_url", "").strip()
    wrong = _wrong(_known(family), key, address)
    if wrong is not None:
        return _page(request, {**wrong, "family": family}, address)
    stored.store(family, key, address, me.person)
    log.info("the key of %s was set by %s", family, me.principal.actor.name)
    return redirect("models")


def _wrong(family: str, key: str, address: str) -> dict[str, str] | None:
    """What is wrong: in which `field`, and the `words` for it."""
    if not key and not (family == "openai" and address):
        words = (
            "Enter the key." if family != "openai" else "Enter a key, or the address of a server that asks for none."
        )
        return {"field": "key", "words": words}
    if not key.isascii() or not key.isprintable() or " " in key or len(key) > _LONGEST:
        return {"field": "key", "words": "This is no key: one is a single word of letters, digits and signs."}
    try:
        parts = urlsplit(address)
        fits = not address or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:
        fits = False
    if not fits or len(address) > _LONGEST:
        return {"field": "base_url", "words": "An address begins with https:// or http:// and names a server."}
    return None


@require_POST
@in_person
def key_remove(request: HttpRequest, me: Me, family: str) -> HttpResponse:
    """Forget a key."""
    _administrator(me)
    stored.remove(_known(family))
    log.info("the key of %s was removed by %s", family, me.principal.actor.name)
    return redirect("models")


@require_POST
@in_person
def key_test(request: HttpRequest, me: Me, family: str) -> HttpResponse:
    """Have a worker ask the provider, and wait for what it says."""
    _administrator(me)
    stored.ask_test(_known(family))
    _send(family)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        kept = stored.read_all().get(family)
        if kept is None or kept.tested_at is not None:
            return redirect("models")
        time.sleep(_LOOK_S)
    told = f"No worker has answered within {WAIT_S:g} s, so nobody knows whether it works. Is a worker running?"
    stored.keep_test(family, False, told, [])
    return redirect("models")


def _send(family: str) -> None:
    from kombu.exceptions import OperationalError

    from steerweb.celery import app

    try:
        app.send_task(TASK, args=[family], ignore_result=True, retry=False, expires=WAIT_S)
    except (OperationalError, OSError) as error:
        log.warning("the test of a key was not sent: %s", error)
