"""Who asks. A door makes a principal from a credential; everything behind the door sees only the principal (A5)."""

import re
from dataclasses import dataclass, replace
from typing import Final, cast
from uuid import UUID

from sessions_app import models
from sessions_app.engine.actors import SYSTEM as SYSTEM_ACTOR
from sessions_app.engine.actors import Actor, Device, DeviceKind

_COMMAND_LINE: Final = re.compile(r"steerweb-cli \(([^()]{1,120})\)")


@dataclass(frozen=True, slots=True)
class Principal:
    """An author with their rights.

    `person` is the account whose memberships count, `key` names whom a command id belongs to (A4). `device` and
    `token` are the rows of the credential: once the row is gone or revoked, the principal may do nothing more.
    """

    actor: Actor
    person: UUID | None
    key: str
    is_admin: bool = False
    device: UUID | None = None
    token: UUID | None = None


SYSTEM = Principal(SYSTEM_ACTOR, None, "system")
"""The program itself. It is no member of anything: what it does is allowed by leases, never by a role."""


def principal_for_person(person: models.Person, device: models.Device | Device | None = None) -> Principal:
    """A person acting in person: from a signed-in browser (its row), or from this machine's command line (a device)."""
    row = device if isinstance(device, models.Device) else None
    shown = device if isinstance(device, Device) else None
    if row is not None:
        shown = Device(cast(DeviceKind, row.kind), row.name)
    return Principal(
        actor=Actor("person", str(person.id), person.username, shown),
        person=person.id,
        key=f"person:{person.id}",
        is_admin=person.is_superuser,
        device=row.id if row is not None else None,
    )


def principal_for_token(token: models.Token) -> Principal:
    """A token of a person, or of an agent of theirs. An agent never carries an administrator's rights."""
    person = token.person
    name = f"{token.name} (agent of {person.username})" if token.agent else f"{person.username} via {token.name}"
    return Principal(
        actor=Actor("agent" if token.agent else "token", str(token.id), name, Device("api", token.name)),
        person=person.id,
        key=f"token:{token.id}",
        is_admin=person.is_superuser and not token.agent,
        token=token.id,
    )


def at_terminal(principal: Principal, user_agent: str) -> Principal:
    """A person's token as at the terminal that steerweb's own command line names; every other principal as it is.

    The client claims it, and anybody who has the token could: the device tells people where a command came from, and
    no right hangs on it. An agent is at no terminal, whichever program it uses.
    """
    named = _COMMAND_LINE.fullmatch(user_agent)
    if named is None or principal.actor.kind != "token":
        return principal
    return replace(principal, actor=replace(principal.actor, device=Device("cli", named[1])))


def for_admin(principal: Principal) -> Principal:
    """The same principal, acting as an administrator in a session they are no member of (A5)."""
    return replace(principal, actor=replace(principal.actor, kind="admin"))
