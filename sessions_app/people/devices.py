"""Signed-in browsers. A device is a row beside Django's session: without either of them the cookie is dead."""

import logging
from datetime import timedelta
from typing import Final, cast
from uuid import UUID

from django.contrib.auth import login
from django.contrib.sessions.models import Session as BrowserSession
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from sessions_app.models import Device, Person
from sessions_app.people.user_agent import describe

log = logging.getLogger("steerweb.security")

BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
TOUCH_EVERY: Final = timedelta(hours=1)


def live_session() -> Exists:
    """For a query of devices: Django's session of the device exists and has not run out."""
    return Exists(BrowserSession.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=Now()))


@transaction.atomic
def sign_in(request: HttpRequest, person: Person) -> Device:
    """Sign this browser in. A browser that was signed in as the same person stays the same device."""
    before = request.session.session_key
    old = Device.objects.filter(session_key=before).first() if before else None
    login(request, person, backend=BACKEND)  # a new key, unless it was this person's: a planted cookie gains nothing
    request.session.save()
    session_key = cast(str, request.session.session_key)
    seen = describe(request.headers.get("User-Agent", ""))
    if old is not None and old.person_id == person.id:
        old.session_key, old.kind, old.name = session_key, seen.kind, seen.name
        old.save(update_fields=["session_key", "kind", "name"])
        Device.objects.filter(pk=old.pk).update(last_used_at=Now())
        device = old
    else:
        if old is not None:
            old.delete()
        device = Device.objects.create(person=person, session_key=session_key, kind=seen.kind, name=seen.name)
    # Afterwards and on its own: two sign-ins that clean up at once must not wait for each other crosswise.
    transaction.on_commit(_forget_expired, robust=True)
    log.info("%s signed in: %s", person.username, seen.name)
    return device


def _forget_expired() -> None:
    """Remove what ran out; a sign-in is rare enough to pay for it and frequent enough to keep the tables small."""
    BrowserSession.objects.filter(expire_date__lt=Now()).delete()
    Device.objects.filter(~live_session()).delete()


def devices_of(person: UUID) -> QuerySet[Device]:
    """The person's devices that are signed in, the last used first."""
    return Device.objects.filter(live_session(), person_id=person).order_by("-last_used_at")


@transaction.atomic
def sign_out(devices: QuerySet[Device]) -> int:
    """Sign these devices out at once; how many they were."""
    names = [(device.person.username, device.name) for device in devices.select_related("person")]
    BrowserSession.objects.filter(session_key__in=devices.values("session_key")).delete()
    devices.delete()
    for person, device in names:
        log.info("%s signed out: %s", person, device)
    return len(names)


def sign_out_everywhere(person: UUID) -> int:
    """Sign all devices of a person out; how many they were. Tokens stay."""
    return sign_out(Device.objects.filter(person_id=person))


def touch(request: HttpRequest, device: Device) -> None:
    """Count a use, at most once an hour: the device stays signed in for another 90 days (cookie and session row)."""
    due = Device.objects.filter(pk=device.pk, last_used_at__lt=Now() - TOUCH_EVERY)
    if due.update(last_used_at=Now()):
        request.session.modified = True  # saved and sent anew, with its full age
