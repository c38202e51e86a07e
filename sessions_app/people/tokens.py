"""Bearer tokens. Only a digest is stored: the token itself is seen once, where it was made."""

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from sessions_app.engine.errors import Refused
from sessions_app.log import secrets as masking
from sessions_app.models import Person, Token
from sessions_app.people.principals import Principal, principal_for_token

PREFIX: Final = "sw_"
PATTERN: Final = masking.TOKEN
"""What a token looks like, so that one which strays into a text can be masked (A6)."""
TOUCH_EVERY: Final = timedelta(hours=1)
MAX_NAME: Final = 120


def digest(secret: str) -> bytes:
    """What is stored of a token or a link: SHA-256 is enough for 32 random bytes, which nobody can guess offline."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def create_token(person: Person, name: str, agent: bool = False) -> str:
    """A new token, in plain text for this one time. `agent`: what it sends is of machine agency (A5)."""
    name = name.strip()
    if not name or len(name) > MAX_NAME or "\0" in name:
        raise Refused("invalid", f"A token's name has 1 to {MAX_NAME} characters.", field="name")
    secret = PREFIX + secrets.token_urlsafe(32)
    Token.objects.create(person=person, name=name, digest=digest(secret), agent=agent)
    return secret


def principal_from_token(token: str) -> Principal | None:
    """Whom a token speaks for; None when it is unknown or revoked, or its person suspended."""
    if not PATTERN.fullmatch(token):
        return None
    due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - TOUCH_EVERY)
    row = (
        Token.objects.select_related("person")
        .filter(digest=digest(token), revoked_at=None, person__is_active=True)
        .annotate(touch_due=ExpressionWrapper(due, output_field=BooleanField()))
        .first()
    )
    if row is None:
        return None
    if row.touch_due:
        Token.objects.filter(pk=row.pk).update(last_used_at=Now())
    return principal_for_token(row)


def revoke(tokens: QuerySet[Token]) -> int:
    """End these tokens at once; how many were not ended already."""
    return tokens.filter(revoked_at=None).update(revoked_at=Now())
