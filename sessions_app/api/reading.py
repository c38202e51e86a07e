"""May the caller read this session, and as whom?"""

from typing import Any, Final, Literal

from sessions_app.log import db, frames, read
from sessions_app.log.frames import Audience
from sessions_app.people.principals import Principal
from sessions_app.people.roles import CAN, Role, require

# Idle and closed sessions have nothing to stop; whatever runs or waits was made durable together with the word.
_STOPPABLE: Final = """
SELECT s.id::text FROM session s LEFT JOIN member m ON m.session_id = s.id AND m.person_id = %(person)s
WHERE s.word IN ('waiting', 'running', 'stopping')
  AND (m.role = ANY(%(roles)s) OR (m.role IS NULL AND %(admin)s))
  AND (%(all)s OR s.created_by_id = %(person)s)
ORDER BY s.active_at DESC
"""


def role_in(principal: Principal, session: str) -> Role:
    """The caller's role; `session_not_found` for strangers, whether or not there is such a session."""
    with db.cursor("read") as cur:
        return require(cur, principal, session, "read")


def audience_of(principal: Principal, session: str) -> Audience:
    """Which frames of this session the caller gets: observers get fewer (L4)."""
    return frames.audience_of(role_in(principal, session))


def snapshot_for(principal: Principal, session: str) -> dict[str, Any]:
    """The snapshot of a session as the caller may see it (L4)."""
    return read.snapshot(session, audience_of(principal, session))


def stoppable(principal: Principal, scope: Literal["mine", "all"]) -> list[str]:
    """The sessions with something to stop that the caller created (`mine`), or may stop at all (E1)."""
    roles = [role for role, verbs in CAN.items() if "interrupt" in verbs]
    with db.cursor("stop") as cur:
        cur.execute(
            _STOPPABLE,
            {"person": principal.person, "roles": roles, "admin": principal.is_admin, "all": scope == "all"},
        )
        return [str(row[0]) for row in cur.fetchall()]
