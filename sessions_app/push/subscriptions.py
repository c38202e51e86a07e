"""A device's subscription: kept, replaced, removed. It belongs to the device and goes with its sign-out."""

import base64
import binascii
import socket
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.db import transaction

from sessions_app.engine.errors import Refused
from sessions_app.models import Device, PushSubscription

MAX_ENDPOINT: Final = 2048
_AUTH_BYTES: Final = 16


def subscribe(device: UUID, endpoint: Any, p256dh: Any, auth: Any) -> None:
    """Keep where a device's push messages go; `invalid` for what no browser sends. The newest one counts."""
    if not isinstance(endpoint, str) or len(endpoint) > MAX_ENDPOINT or not acceptable(endpoint):
        raise Refused("invalid", "This is not the address of a push service.", field="endpoint")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decoded(p256dh))
        fits = len(_decoded(auth)) == _AUTH_BYTES
    except (ValueError, TypeError, binascii.Error):
        fits = False
    if not fits:
        raise Refused("invalid", "These are not the keys of a push subscription.", field="keys")
    with transaction.atomic():
        if not Device.objects.select_for_update().filter(pk=device).exists():
            raise Refused("unauthenticated", "You are signed out.")
        # A browser keeps its endpoint when somebody else signs in: it is theirs from then on.
        PushSubscription.objects.filter(endpoint=endpoint).exclude(device_id=device).delete()
        values = {"endpoint": endpoint, "p256dh": p256dh, "auth": auth}
        PushSubscription.objects.update_or_create(device_id=device, defaults=values)


def unsubscribe(device: UUID) -> None:
    """This device is told nothing any more."""
    PushSubscription.objects.filter(device_id=device).delete()


def acceptable(endpoint: str) -> bool:
    """Whether this server may be made to call that address: by TLS at a public name, or a service set for this server.

    A subscription is what its sender says: without this, an observer could have this machine call its own network.
    """
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        return False
    if f"{parts.scheme}://{parts.netloc}" in settings.STEERWEB_PUSH_SERVICES:
        return True
    host = parts.hostname or ""
    if parts.scheme != "https" or parts.username is not None or port not in (None, 443) or "." not in host.strip("."):
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        return not host.endswith((".localhost", ".local", ".internal"))


def leads_inside(endpoint: str) -> bool:
    """Whether the name leads into a private network by now. One that is not known here may be a proxy's to find."""
    parts = urlsplit(endpoint)
    if f"{parts.scheme}://{parts.netloc}" in settings.STEERWEB_PUSH_SERVICES:
        return False
    try:
        found = socket.getaddrinfo(parts.hostname, 443, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(not ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in found)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
