"""Reading members and people. Changing a member is a command of `control`, because it is an event of the session."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sessions_app.people.roles import Cursor


@dataclass(frozen=True, slots=True)
class Member:
    """A person with their role in a session."""

    person: UUID
    name: str
    role: str

    def json(self) -> dict[str, str]:
        return {"person": str(self.person), "name": self.name, "role": self.role}


@dataclass(frozen=True, slots=True)
class Known:
    """An account, as far as others may see it."""

    person: UUID
    name: str


_MEMBERS: Final = """
SELECT m.person_id, p.username, m.role FROM member m JOIN person p ON p.id = m.person_id
WHERE m.session_id = %(session)s
ORDER BY array_position(ARRAY['owner', 'operator', 'observer'], m.role::text), lower(p.username)
"""
_FIND: Final = """
SELECT id, username FROM person
WHERE lower(username) = lower(%(who)s) OR id::text = lower(%(who)s)
ORDER BY (id::text = lower(%(who)s)) DESC, (username = %(who)s) DESC, username LIMIT 1
"""


def members_of(cur: Cursor, session: str | UUID) -> list[Member]:
    """The members of a session: owners first, then by name. Suspended people stay listed."""
    cur.execute(_MEMBERS, {"session": UUID(str(session))})
    return [Member(*row) for row in cur.fetchall()]


def find_person(cur: Cursor, who: str) -> Known | None:
    """The account of that id or name (in any case), suspended ones too; None when there is none."""
    if "\0" in who:  # PostgreSQL text cannot hold it, so nobody is called that
        return None
    cur.execute(_FIND, {"who": who.strip()})
    rows = cur.fetchall()
    return Known(*rows[0]) if rows else None
