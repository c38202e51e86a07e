"""The sockets: a session's, the session list's, and an answer for every other address.

A consumer authorises, translates and hands over: what a client gets is the hub's business, what it sends `control`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from sessions_app.engine.errors import NO_SESSION, Refused
from sessions_app.live import commands, frames, standing
from sessions_app.live.client import Client, Filters
from sessions_app.live.door import Door, together
from sessions_app.live.feed import Reader
from sessions_app.live.hub import Hub
from sessions_app.live.lanes import Lane, refusal
from sessions_app.live.threads import Pool, in_thread
from sessions_app.live.watch import Watch
from sessions_app.log import listing, read, watching
from sessions_app.log.frames import instant
from sessions_app.people.principals import Principal

Query = Mapping[str, list[str]]


def query_of(scope: Mapping[str, Any]) -> Query:
    """The address's query; an empty value counts as absent."""
    return parse_qs(scope["query_string"].decode("latin-1"))


def cursor_of(query: Query) -> int:
    """`after`: the seq of the last event the client has; 0 is the beginning."""
    text = query.get("after", ["0"])[-1]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Refused("invalid", "`after` is the seq of an event.", field="after")
    return int(text)


def filters_of(query: Query) -> Filters:
    """`types`, `loop` and `live`: each may be repeated, or hold several words between commas."""

    def words(name: str) -> frozenset[str]:
        return frozenset(word for value in query.get(name, []) for word in value.split(",") if word)

    live = words("live") or frozenset({"1"})
    return Filters(
        types=words("types") or None,
        loops=words("loop") or None,
        live=live != {"0"},
        live_loops=None if live & {"0", "1"} else live,
    )


class SessionSocket(Door):
    """`/ws/sessions/{id}/`: replay, live events and text, and commands."""

    async def admitted(self, principal: Principal) -> None:
        session = str(self.scope["url_route"]["kwargs"]["id"])
        query = query_of(self.scope)
        after, filters = cursor_of(query), filters_of(query)
        now = await standing.stands(principal, session)
        if now.role is None or self.wire is None:
            raise Refused("session_not_found", NO_SESSION)
        hub = self.enter()
        async with hub.watching(session) as watch:
            about = await in_thread(Pool.ENTRY, _about, principal, session)
            client = Client(self.wire, principal, now.role, min(after, max(about.view["head"], watch.head)), filters)
            hub.join(watch, client)
            try:
                client.send(_greeting(hub, watch, client, about))
                await self._talk(session, watch, client)
            finally:
                hub.leave(watch, client)

    async def _talk(self, session: str, watch: Watch, client: Client) -> None:
        in_order, stops = Lane(session, client, Pool.COMMANDS), Lane(session, client, Pool.STOPS)
        await together(
            watch.catch_up(client), self._listen(watch, client, in_order, stops), in_order.run(), stops.run()
        )

    async def _listen(self, watch: Watch, client: Client, in_order: Lane, stops: Lane) -> None:
        while True:
            frame, command_id = await self.next_frame(), None
            if client.gone:
                continue
            try:
                message = commands.read_object(frame)
                if (looking := commands.looking(message)) is not None:
                    self._looks(watch, client, looking)
                    continue
                command_id = commands.id_of(message)
                command = commands.parse(message)
                (stops if command.verb == "interrupt" else in_order).put(command)
            except Refused as refused:
                client.send(refusal(command_id, refused))

    def _looks(self, watch: Watch, client: Client, looking: bool) -> None:
        """Whoever looks again hears at once where the log is: a socket that died meanwhile stays silent (D37)."""
        if self.hub is None:
            return
        if looking != client.looking:
            client.looking = looking
            self.hub.attendance.changed(watch)
        if looking:
            client.send(frames.beat(watch.head if client.caught_up else client.cursor, self.hub.clock.now()))


@dataclass(frozen=True, slots=True)
class _About:
    """What a `hello` says that only the database knows."""

    view: dict[str, Any]
    phases: list[dict[str, Any]]
    now: str


def _about(principal: Principal, session: str) -> _About:
    return _About(listing.session_view(principal, session), read.phases(session), instant(watching.now()))


def _greeting(hub: Hub, watch: Watch, client: Client, about: _About) -> frames.Frame:
    """The `hello` frame: nothing runs between it and the client's joining, so its texts and the deltas meet (L2)."""
    shown = [fresh for fresh in watch.streams.steps() if client.filters.ephemeral(fresh.loop)]
    live = {
        "phases": about.phases,
        "steps": [{name: value for name, value in fresh.message().items() if name != "t"} for fresh in shown],
        "presence": hub.attendance.people(watch),
        "delayed": hub.delayed,
    }
    head = max(about.view["head"], watch.head)
    return frames.hello(session=about.view, you=client.you(), head=head, now=about.now, live=live)


class ListSocket(Door):
    """`/ws/`: the session list's feed. It only tells."""

    async def admitted(self, principal: Principal) -> None:
        if self.wire is None or principal.person is None:
            raise Refused("not_allowed", "Only people have sessions.")
        hub = self.enter()
        reader = Reader(self.wire, principal, "observer", caught_up=True)
        you = {"id": principal.actor.id, "name": principal.actor.name}
        now = instant(await in_thread(Pool.ENTRY, watching.now))
        reader.send(frames.hello(you=you, now=now))
        try:
            await hub.feed.join(reader)
            while True:
                reader.send(_no_commands(await self.next_frame()))
        finally:
            hub.feed.leave(reader)


def _no_commands(text: str | bytes) -> frames.Frame:
    try:
        command_id = commands.id_of(commands.read_object(text))
    except Refused:
        command_id = None
    return refusal(command_id, Refused("invalid", "The session list takes no commands."))


class NoSocket(Door):
    """Any other address: the same answer as for a session that is not there."""

    async def admitted(self, principal: Principal) -> None:
        raise Refused("session_not_found", "There is nothing at this address.")
