"""Who watches: one entry a person, over all web processes. Ephemeral, so Redis may lose it.

Each web process keeps one value per watched session, which expires unless it is refreshed, and a set of process ids
finds the values of all. So a process that dies leaves nothing behind for longer than `EXPIRES_S`. Without Redis
everybody sees the people of their own process.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from sessions_app.live.hearing import LOST, connect
from sessions_app.log.bell import LIST_CHANNEL, SESSION_CHANNEL, WATCHING
from sessions_app.people.principals import Principal

EXPIRES_S: Final = 30
REFRESH_S: Final = 10.0

People = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Seat:
    """One connected socket: whose it is, and the device it counts as (two tabs of a browser are one device).

    `looking`: its page is visible; its person need not be told by a notification (`push.looking` reads the rows).
    """

    id: str
    name: str
    role: str
    device: str
    device_kind: str
    looking: bool = True

    def row(self) -> list[str | bool]:
        return [self.id, self.name, self.role, self.device, self.device_kind, self.looking]


def seat(principal: Principal, role: str, *, looking: bool = True) -> Seat:
    """The seat of a principal. A person's own token sits with the person; an agent's is somebody of its own."""
    actor = principal.actor
    own = principal.person is not None and actor.kind != "agent"
    kind = actor.device.kind if actor.device is not None else "api"
    device = str(principal.device or principal.token or principal.key)
    return Seat(str(principal.person) if own else actor.id, actor.name, role, device, kind, looking)


def people_of(seats: Iterable[Seat]) -> People:
    """One entry a person: `{id, name, role, devices, kinds}`, ordered by name; `devices` counts, `kinds` names them."""
    by_person: dict[str, list[Seat]] = {}
    for one in seats:
        by_person.setdefault(one.id, []).append(one)
    return sorted((_person(seats) for seats in by_person.values()), key=lambda person: (person["name"], person["id"]))


def _person(seats: Sequence[Seat]) -> dict[str, Any]:
    shortest = min(seats, key=lambda seat: (len(seat.name), seat.name))  # "ana", not "ana via laptop script"
    devices = {one.device: one.device_kind for one in seats}
    return {
        "id": shortest.id,
        "name": shortest.name,
        "role": shortest.role,
        "devices": len(devices),
        "kinds": sorted(set(devices.values())),
    }


def _members(session: str) -> str:
    return WATCHING.format(session)


def _seats(session: str, process: str) -> str:
    return f"{WATCHING.format(session)}:{process}"


class Presence:
    """The seats of this process, and what Redis says of the others'."""

    def __init__(self, url: str) -> None:
        self.process = uuid.uuid4().hex
        self._redis: Redis = connect(url)

    async def publish(self, session: str, seats: Sequence[Seat], *, changed: bool) -> None:
        """Say who watches here; with `changed`, ring for the other processes and the session lists."""
        key = _seats(session, self.process)
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                if seats:
                    pipe.set(key, orjson.dumps([one.row() for one in seats]), ex=EXPIRES_S)
                    pipe.sadd(_members(session), self.process)
                    pipe.expire(_members(session), EXPIRES_S)
                else:
                    pipe.delete(key)
                    pipe.srem(_members(session), self.process)
                if changed:
                    pipe.publish(SESSION_CHANNEL.format(session), orjson.dumps({"k": "presence", "by": self.process}))
                    pipe.publish(LIST_CHANNEL, orjson.dumps({"id": session}))
                await pipe.execute()
        except LOST:
            return  # the next refresh says it again

    async def elsewhere(self, sessions: Sequence[str]) -> Mapping[str, list[Seat]]:
        """The seats of all other processes in these sessions; none while Redis cannot be asked."""
        found: dict[str, list[Seat]] = {session: [] for session in sessions}
        try:
            keys = await self._keys(sessions)
            values = await self._redis.mget([key for _, key in keys]) if keys else []
        except LOST:
            return found
        for (session, _), value in zip(keys, values, strict=True):
            if value is not None:
                found[session] += [Seat(*row) for row in orjson.loads(value)]
        return found

    async def _keys(self, sessions: Sequence[str]) -> list[tuple[str, str]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for session in sessions:
                pipe.smembers(_members(session))
            answers = await pipe.execute()
        return [
            (session, _seats(session, process.decode()))
            for session, processes in zip(sessions, answers, strict=True)
            for process in processes
            if process.decode() != self.process
        ]

    async def close(self) -> None:
        await self._redis.aclose()
