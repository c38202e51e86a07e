"""Files of messages over a real worker: a model that takes no images."""

import json

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from tests.support.images import PNG
from tests.support.model_server import ModelServer, ScriptedReply, Seen, fail, say
from tests.support.running import Running

pytestmark = pytest.mark.usefixtures("worker")


def shows_an_image(request: Seen) -> bool:
    return '"image_url"' in json.dumps(request.body)


def test_a_model_that_refuses_images_is_asked_once_more_without(server: ModelServer) -> None:
    def blind(request: Seen) -> ScriptedReply:
        return [fail(400, "image input is not supported")] if shows_an_image(request) else [say("It is blue.")]

    server.handler = blind
    session = Running.create()
    made = control.upload(session.owner, session.id, new_id(), name="a.png", content=PNG)
    control.submit(session.owner, session.id, new_id(), text="Which colour?", files=[made["id"]])
    session.until("TurnDone")
    assert [(request.status, shows_an_image(request)) for request in server.requests] == [(400, True), (200, False)]
    path = f".steerweb/uploads/{made['id']}-a.png"
    assert all(path in request.text for request in server.requests)
    assert session.file(path).read_bytes() == PNG
