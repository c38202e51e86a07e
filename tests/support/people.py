"""People for tests: accounts, signed-in browsers, sessions that exist only as rows."""

from datetime import UTC, datetime
from typing import Any

from django.test import Client

from sessions_app.ids import uuid7
from sessions_app.models import Member, Person, Session
from sessions_app.people.accounts import create_person
from sessions_app.people.signin import make_link

PHONE = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 7) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/130.0.0.0 Mobile Safari/537.36"
)


def signed_in(person: Person, user_agent: str = PHONE, **options: Any) -> Client:
    """A browser that has just opened a sign-in link of this person; `options` go to Django's test client."""
    browser = Client(headers={"User-Agent": user_agent}, **options)
    answer = browser.get(make_link(person))
    assert answer.status_code == 302, answer.content
    return browser


def session_row(owner: Person, **members: str) -> Session:
    """A session without a log, for what looks at rows only; `members` are roles by name of existing accounts."""
    now = datetime.now(UTC)
    session = Session.objects.create(
        id=uuid7(), created_by=owner, created_at=now, title="Clean up", workspace="/work", model="demo:", settings={},
        head=0, chain=b"", state={}, fold=1, word="idle", word_since=now, active_at=now,
    )  # fmt: skip
    Member.objects.create(session=session, person=owner, role="owner")
    for name, role in members.items():
        Member.objects.create(session=session, person=Person.objects.get(username=name), role=role)
    return session


def people(*names: str) -> list[Person]:
    """One new account per name."""
    return [create_person(name) for name in names]
