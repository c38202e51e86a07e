"""One-time sign-in links: `/signin/<secret>` signs its person in once, within its time."""

import secrets
from datetime import timedelta
from typing import Final, Literal

from django.db import connection
from django.db.models.functions import Now
from django.utils.http import url_has_allowed_host_and_scheme

from sessions_app.models import Person, SignInLink
from sessions_app.people.accounts import create_first_person
from sessions_app.people.tokens import digest

__all__ = ["create_first_person", "make_link", "safe_next", "use_link", "why_refused"]

DEFAULT_TTL_S: Final = 900
_KEEP_USED: Final = timedelta(days=1)
_MAX_NEXT: Final = 300

# The guard and the mark are one statement: of any number of requests at once, one gets the row back.
_USE: Final = """
UPDATE signin_link SET used_at = now() FROM person
WHERE signin_link.digest = %s AND used_at IS NULL AND expires_at > now()
  AND person.id = signin_link.person_id AND person.is_active
RETURNING signin_link.person_id, next
"""


def safe_next(target: str) -> str:
    """`target` when it is a path of this site, else `/`: a link must not lead to somebody else's page."""
    inside = (
        target.startswith("/")
        and len(target) <= _MAX_NEXT
        and target.isprintable()
        and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    )
    return target if inside else "/"


def make_link(person: Person, next: str = "/", ttl_s: int = DEFAULT_TTL_S) -> str:
    """The path of a new link that works once, for `ttl_s` seconds of the database's clock, and then leads to `next`."""
    SignInLink.objects.filter(expires_at__lt=Now() - _KEEP_USED).delete()
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(
        person=person, digest=digest(secret), next=safe_next(next), expires_at=Now() + timedelta(seconds=ttl_s)
    )
    return f"/signin/{secret}"


def use_link(secret: str) -> tuple[Person, str] | None:
    """Use a link up: its person and where to go, for exactly one caller; None when it is used, run out or unknown,
    or its person suspended."""
    with connection.cursor() as cursor:
        cursor.execute(_USE, [digest(secret)])
        row = cursor.fetchone()
    if row is None:
        return None
    return Person.objects.get(pk=row[0]), safe_next(row[1])


def why_refused(secret: str) -> Literal["used", "expired", "suspended", "unknown"]:
    """Why `use_link` answered None, for the page that says so."""
    link = SignInLink.objects.select_related("person").filter(digest=digest(secret)).first()
    if link is None:
        return "unknown"
    if link.used_at is not None:
        return "used"
    return "expired" if link.person.is_active else "suspended"
