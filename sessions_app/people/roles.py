"""Who may: the roles of a session, and the one check every command passes inside its own transaction.

The same query that finds the role looks whether the credential still stands, so a suspended person, a signed-out
device and a revoked token are refused with the next command on any door, open sockets included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, LiteralString, Protocol, cast
from uuid import UUID

from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.people.principals import Principal

Role = Literal["owner", "operator", "observer", "admin"]

ROLES: Final = ("owner", "operator", "observer")
"""What a member can be. `admin` is nobody's membership: it is an administrator in a session of others (A5)."""

_OPERATE: Final = frozenset(
    {"submit", "edit", "retract", "release", "steer", "withdraw", "interrupt", "resolve", "set_mode"}
)
CAN: Final[dict[str, frozenset[str]]] = {
    "owner": _OPERATE | {"close", "change", "members", "erase", "withdraw_any"},
    "operator": _OPERATE,
    "observer": frozenset(),
    "admin": frozenset({"interrupt", "close", "erase"}),
}
"""The verbs of each role. `read` is not among them: whoever has a role may read."""


class Cursor(Protocol):
    """What we need of a psycopg cursor with tuple rows; Django's cursor wrapper fits too."""

    def execute(self, query: LiteralString, params: Mapping[str, Any], /) -> object: ...

    def fetchall(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """How a principal stands to one session: is the credential still good, and which role does it have there."""

    signed_in: bool
    role: Role | None


NOBODY: Final = Standing(signed_in=False, role=None)

_STANDINGS: Final = """
SELECT q.n,
       p.is_active
       AND (q.device IS NULL OR EXISTS (
            SELECT 1 FROM device d JOIN django_session b ON b.session_key = d.session_key
            WHERE d.id = q.device AND d.person_id = p.id AND b.expire_date > now()))
       AND (q.token IS NULL OR EXISTS (
            SELECT 1 FROM api_token t WHERE t.id = q.token AND t.person_id = p.id AND t.revoked_at IS NULL)),
       s.id IS NOT NULL, m.role, p.is_superuser
FROM unnest(%(persons)s::uuid[], %(devices)s::uuid[], %(tokens)s::uuid[]) WITH ORDINALITY AS q(person, device, token, n)
JOIN person p ON p.id = q.person
LEFT JOIN session s ON s.id = %(session)s
LEFT JOIN member m ON m.session_id = s.id AND m.person_id = p.id
"""


def standings(cur: Cursor, principals: Sequence[Principal], session: str | UUID) -> list[Standing]:
    """The standing of many principals in one session, in their order, by one query: a hub asks for all its clients."""
    found = [NOBODY] * len(principals)
    params = {
        "persons": [principal.person for principal in principals],
        "devices": [principal.device for principal in principals],
        "tokens": [principal.token for principal in principals],
        "session": _uuid(session),
    }
    cur.execute(_STANDINGS, params)
    for n, signed_in, exists, role, is_superuser in cur.fetchall():
        as_admin = exists and is_superuser and principals[n - 1].is_admin
        held = cast(Role | None, role or ("admin" if as_admin else None))
        found[n - 1] = Standing(signed_in, held if signed_in else None)
    return found


def role_of(cur: Cursor, principal: Principal, session: str | UUID) -> Role | None:
    """The principal's role in a session: None when there is none, no such session, or the credential is dead."""
    return standings(cur, [principal], session)[0].role


def require(cur: Cursor, principal: Principal, session: str | UUID, verb: str) -> Role:
    """The role that allows `verb` (one of `CAN`, or `read`), for the caller's transaction.

    Refused: `unauthenticated` when the credential is dead; `session_not_found` for a stranger, whether or not the
    session exists; `not_allowed` for a member whose role does not include it.
    """
    standing = standings(cur, [principal], session)[0]
    if not standing.signed_in:
        raise Refused("unauthenticated", "You are signed out.")
    if standing.role is None:
        raise Refused("session_not_found", NO_SESSION)
    if verb != "read" and verb not in CAN[standing.role]:
        raise Refused("not_allowed", _sentence(standing.role), role=standing.role)
    return standing.role


def _sentence(role: Role) -> str:
    if role == "observer":
        return "You watch this session: only its owners and operators can do that."
    if role == "operator":
        return "Only an owner of this session can do that."
    return "You are no member of this session: an administrator may read, stop, close and erase here."


def _uuid(session: str | UUID) -> UUID | None:
    """The session's id; None for text that is no UUID, which then names no session like any other unknown id."""
    try:
        return session if isinstance(session, UUID) else UUID(session)
    except ValueError:
        return None
