"""Who did something (A5): fixed where they signed in, carried by every event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

ActorKind = Literal["person", "token", "agent", "system", "admin"]
DeviceKind = Literal["desk", "phone", "tablet", "cli", "api"]


class DeviceJson(TypedDict):
    kind: str
    name: str


class ActorJson(TypedDict):
    kind: str
    id: str
    name: str
    device: DeviceJson | None


@dataclass(frozen=True, slots=True)
class Device:
    """What somebody acted from: its kind (shown to all) and its name (hidden from observers)."""

    kind: DeviceKind
    name: str


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of an event. `id` is a UUID string for people and tokens, a component's name for `system`."""

    kind: ActorKind
    id: str
    name: str
    device: Device | None = None

    @property
    def agency(self) -> Literal["human", "machine"]:
        """Human for a person's browser, command line or token; machine for an agent's token and the system (A5)."""
        return agency_of(self.kind)

    def json(self) -> ActorJson:
        device = None if self.device is None else DeviceJson(kind=self.device.kind, name=self.device.name)
        return ActorJson(kind=self.kind, id=self.id, name=self.name, device=device)


def actor_from(data: Mapping[str, Any]) -> Actor:
    """The inverse of `Actor.json`."""
    device = data["device"]
    return Actor(data["kind"], data["id"], data["name"], device and Device(device["kind"], device["name"]))


def agency_of(kind: str) -> Literal["human", "machine"]:
    """The agency of an actor of that kind."""
    return "machine" if kind in ("agent", "system") else "human"


CAUSES: Final[Mapping[str, str]] = {
    "person": "person", "token": "token", "agent": "token", "admin": "admin", "system": "closing",
}  # fmt: skip
"""The cause of a stop by the kind of its actor, where nothing else is said (E8)."""


SYSTEM = Actor("system", "steerweb", "steerweb")
"""The program itself: the sweep, the fence, a worker's report."""
