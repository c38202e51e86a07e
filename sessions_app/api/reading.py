"""May the caller read this session, and as whom?"""

from typing import Any

from sessions_app.log import db, frames, read
from sessions_app.log.frames import Audience
from sessions_app.people.principals import Principal
from sessions_app.people.roles import Role, require


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
