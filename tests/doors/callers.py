"""Callers of the REST API for tests: a token of a person, answers as plain data."""

import json
from dataclasses import dataclass
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from sessions_app.models import Person
from sessions_app.people.tokens import create_token


@dataclass(frozen=True)
class Answer:
    """A response: its status, its JSON and the response itself."""

    status: int
    json: Any
    response: HttpResponse

    @property
    def code(self) -> str:
        """The problem's code; empty where there is no problem."""
        if self.response.headers["Content-Type"] != "application/problem+json":
            return ""
        assert self.json["status"] == self.status
        return str(self.json["code"])


class Caller:
    """Asks the API under one `Authorization`; without a token as somebody who is signed out."""

    def __init__(self, token: str | None = None, prefix: str = "/api/v1") -> None:
        self.token = token
        self._client = Client(headers={"Authorization": f"Bearer {token}"} if token else {})
        self._prefix = prefix

    def get(self, path: str, **query: Any) -> Answer:
        return _answer(self._client.get(self._prefix + path, query))

    def post(self, path: str, body: Any = None, key: str | None = None) -> Answer:
        return self.send("POST", path, body, key)

    def patch(self, path: str, body: Any, key: str | None = None) -> Answer:
        return self.send("PATCH", path, body, key)

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def upload(self, session: str, name: str, content: bytes, key: str | None = None, type_: str = "") -> Answer:
        """One file for a message of the session; `type_` is what the caller says it is."""
        headers = {} if key is None else {"Idempotency-Key": key}
        file = SimpleUploadedFile(name, content, type_ or "application/octet-stream")
        path = f"{self._prefix}/sessions/{session}/files"
        return _answer(self._client.post(path, {"file": file}, headers=headers))

    def fetch(self, path: str) -> Any:
        """A response that is no JSON."""
        return self._client.get(self._prefix + path)

    def send(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        """`body`: bytes as they are, anything else as JSON; None sends no body."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {} if key is None else {"Idempotency-Key": key}
        response = self._client.generic(method, self._prefix + path, content, "application/json", headers=headers)
        return _answer(response)


def _answer(response: Any) -> Answer:
    return Answer(response.status_code, json.loads(response.content) if response.content else None, response)


def token_of(name: str, *, agent: bool = False, admin: bool = False) -> str:
    """A token of the person of that name, who is made where there is none."""
    person, _ = Person.objects.get_or_create(username=name)
    if admin:
        Person.objects.filter(pk=person.pk).update(is_superuser=True)
        person.refresh_from_db()
    return create_token(person, "test", agent=agent)


def caller(name: str, *, agent: bool = False, admin: bool = False) -> Caller:
    """Somebody with a token."""
    return Caller(token_of(name, agent=agent, admin=admin))
