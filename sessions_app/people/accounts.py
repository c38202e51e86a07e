"""Accounts: making, suspending, restoring. Nobody has a password; people sign in by one-time links."""

import getpass
import re
from typing import Final

from django.core.exceptions import ValidationError
from django.db import connection, transaction

from sessions_app.engine.errors import Refused
from sessions_app.models import Person
from sessions_app.people.devices import sign_out_everywhere

MAX_NAME: Final = 60
NAME_RULE: Final = f"A name has 1 to {MAX_NAME} characters: letters, digits and . @ + - _"


def fit_name(name: str, *, but: Person | None = None) -> str:
    """The name as it is stored. Refused `invalid` when it breaks `NAME_RULE` or is taken in any case (not by `but`)."""
    name = Person.normalize_username(name)
    try:
        Person.username_validator(name)
    except ValidationError as wrong:
        raise Refused("invalid", f"{NAME_RULE}.", field="name") from wrong
    if len(name) > MAX_NAME:
        raise Refused("invalid", f"{NAME_RULE}.", field="name")
    taken = Person.objects.filter(username__iexact=name)
    if (taken.exclude(pk=but.pk) if but is not None else taken).exists():
        raise Refused("invalid", f"There is a {name} already.", field="name")
    return name


def create_person(name: str, *, admin: bool = False) -> Person:
    """A new account. Refused `invalid` for a name that does not fit (`fit_name`)."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Two makers of one name, or of the first account, wait for each other; readers do not notice.
        cursor.execute("LOCK TABLE person IN SHARE ROW EXCLUSIVE MODE")
        return Person.objects.create_user(fit_name(name), is_staff=admin, is_superuser=admin)


def create_first_person() -> Person | None:
    """The administrator of a fresh installation, named like the operating system's user; None when anybody exists."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE person IN SHARE ROW EXCLUSIVE MODE")
        if Person.objects.exists():
            return None
        return create_person(_system_user(), admin=True)


def _system_user() -> str:
    """The operating system's name for who runs this, without what a name must not hold; `owner` where it has none."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a uid that no user has
        return "owner"
    return re.sub(r"[^\w.@+-]+", "-", name).strip("-")[:MAX_NAME] or "owner"


def account_named(name: str) -> Person:
    """The account of that name, in its exact case or else in any, suspended ones too. Refused `not_found`."""
    person = Person.objects.filter(username=name).first() or Person.objects.filter(username__iexact=name).first()
    if person is None:
        raise Refused("not_found", f"There is no account called {name}. To make one: steerweb user create {name}")
    return person


@transaction.atomic
def suspend(person: Person) -> None:
    """End the person's access at once: cookies, links and tokens are dead meanwhile, devices signed out for good."""
    person.is_active = False
    person.save(update_fields=["is_active"])
    sign_out_everywhere(person.id)


def restore(person: Person) -> None:
    """Take a suspension back. The person's tokens work again; devices have to sign in anew."""
    person.is_active = True
    person.save(update_fields=["is_active"])
