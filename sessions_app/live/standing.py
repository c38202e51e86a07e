"""Whether connected clients may still be here: one query for all clients of a session (scenario D25)."""

from collections.abc import Sequence
from typing import Final

from sessions_app.live import frames
from sessions_app.live.client import Client
from sessions_app.live.counters import counters
from sessions_app.live.threads import Pool, in_thread
from sessions_app.log import db
from sessions_app.people.principals import Principal
from sessions_app.people.roles import Standing, standings

ANY_SESSION: Final = "00000000-0000-0000-0000-000000000000"


def _ask(principals: Sequence[Principal], session: str) -> list[Standing]:
    with db.cursor("read") as cur:
        return standings(cur, principals, session)


async def stands(principal: Principal, session: str) -> Standing:
    """How somebody stands to a session now."""
    return (await in_thread(Pool.ENTRY, _ask, [principal], session))[0]


async def check(session: str, clients: Sequence[Client]) -> None:
    """Close the sockets of who is signed out (4401) or no member any more (4403); tell the others of a new role."""
    if not clients:
        return
    found = await _found(session, clients)
    for client in clients:
        now = found[client.principal]
        if not now.signed_in:
            _end(client, frames.NOT_SIGNED_IN)
        elif now.role is None:
            _end(client, frames.NOT_ALLOWED)
        elif now.role != client.role:
            client.role = now.role
            client.send(frames.you(client.you()))


async def check_signed_in(clients: Sequence[Client]) -> None:
    """Close the sockets of those who are signed out (4401), where no session is concerned."""
    if not clients:
        return
    found = await _found(ANY_SESSION, clients)
    for client in clients:
        if not found[client.principal].signed_in:
            _end(client, frames.NOT_SIGNED_IN)


async def _found(session: str, clients: Sequence[Client]) -> dict[Principal, Standing]:
    principals = list({client.principal for client in clients})
    return dict(zip(principals, await in_thread(Pool.HUB, _ask, principals, session), strict=True))


def _end(client: Client, code: int) -> None:
    if not client.gone:
        counters.clients_dropped_access += 1
        client.end(code)
