"""A push service of the test's own, over HTTP, and the browser's side: what it got can be decrypted."""

import base64
import json
import os
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

from sessions_app.models import Device, Person, PushSubscription
from sessions_app.people.accounts import create_person
from tests.support.people import signed_in
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Message:
    """One POST: where to, with which headers, and what the browser reads after decrypting."""

    path: str
    headers: dict[str, str]
    data: dict[str, Any]


@dataclass
class Subscribed:
    """A browser's subscription with its private parts."""

    endpoint: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    auth: bytes = field(default_factory=lambda: os.urandom(16))

    def json(self) -> dict[str, Any]:
        """As `PushSubscription.toJSON()` has it."""
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {"endpoint": self.endpoint, "keys": {"p256dh": _text(point), "auth": _text(self.auth)}}


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class PushService:
    """`answers` are statuses (with headers) of the next requests; all others are answered 201."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.requests: list[str] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self._known: dict[str, Subscribed] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers = service.answers.pop(0) if service.answers else (201, {})
                if status == 201:
                    service._received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                service.requests.append(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _received(self, path: str, headers: dict[str, str], body: bytes) -> None:
        known = self._known[path]
        clear = http_ece.decrypt(body, private_key=known.key, auth_secret=known.auth, version="aes128gcm")
        assert len(body) <= 4096
        scheme, _, rest = headers["authorization"].partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        assert scheme == "vapid"
        assert Vapid02.verify(f"vapid t={parts['t']},k={parts['k']}")
        claims = json.loads(base64.urlsafe_b64decode(parts["t"].split(".")[1] + "=="))
        assert claims["aud"] == self.origin
        self.messages.append(Message(path, {**headers, "vapid-key": parts["k"]}, json.loads(clear)))

    def browser(self, name: str = "") -> Subscribed:
        """A new browser's subscription, not told to the server yet."""
        path = f"/push/{name or len(self._known)}"
        self._known[path] = Subscribed(self.origin + path)
        return self._known[path]

    def subscribe(self, person: str) -> PushSubscription:
        """One more device of that person (created where needed), signed in and subscribed as a browser does it."""
        account = Person.objects.filter(username=person).first() or create_person(person)
        before = set(Device.objects.values_list("pk", flat=True))
        client = signed_in(account)
        answer = client.post("/notifications/device", self.browser().json(), content_type="application/json")
        assert answer.status_code == 204, answer.content
        device = Device.objects.exclude(pk__in=before).get()
        return PushSubscription.objects.get(device=device)

    def until(self, count: int) -> list[Message]:
        """The messages, once there are as many."""
        wait_until(lambda: len(self.messages) >= count, f"push message {count}")
        return self.messages

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
