"""Requests whose shape is wrong are refused as `invalid`, naming the field; every refusal is problem+json."""

from typing import Any

import pytest

from sessions_app.ids import new_id
from tests.doors.callers import Caller, caller
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


@pytest.mark.rule("M")
def test_wrong_shapes_are_invalid_and_name_the_field() -> None:
    world, ana = World.create("ana"), caller("ana")
    inputs, stop = f"/sessions/{world.session}/inputs", f"/sessions/{world.session}/interrupt"
    wrong: list[tuple[str, Any, str]] = [
        (inputs, b"{", "body"),
        (inputs, b"\xff\xfe", "body"),
        (inputs, b'{"text": NaN}', "body"),
        (inputs, b"[" * 100_000, "body"),
        (inputs, [], "body"),
        (inputs, "text", "body"),
        (inputs, None, "body"),
        (inputs, {}, "text"),
        (inputs, {"text": 5}, "text"),
        (inputs, {"text": None}, "text"),
        (inputs, {"text": "a", "loop": "primary"}, "loop"),
        (inputs, {"text": "a", "delivery": "later"}, "delivery"),
        (inputs, {"text": "a", "colour": "red"}, "colour"),
        (stop, {"wait": "10"}, "wait"),
        (stop, {"wait": -1}, "wait"),
        (stop, {"wait": 301}, "wait"),
        (stop, {"wait": True}, "wait"),
        (stop, {"queue": "drop"}, "queue"),
        (stop, {"then": {}}, "then"),
        (stop, {"then": {"text": "a", "input": new_id()}}, "then"),
        (stop, {"then": {"txt": "a"}}, "then.txt"),
        (stop, {"turn": "3"}, "turn"),
    ]
    for path, body, field in wrong:
        answer = ana.post(path, body)
        assert (answer.status, answer.code, answer.json["field"]) == (400, "invalid", field), (body, answer.json)
        assert answer.json["detail"].endswith(".")


@pytest.mark.rule("M")
def test_ids_in_addresses_are_uuids_and_unknown_ones_are_not_found() -> None:
    ana = caller("ana")
    bad, unknown = ana.get("/sessions/1/state"), ana.get(f"/sessions/{new_id()}/state")
    assert (bad.status, bad.code) == (400, "invalid")
    assert (unknown.status, unknown.code) == (404, "session_not_found")
    world = World.create("ana")
    assert ana.get(f"/sessions/{world.session.upper()}/state").status == 200


@pytest.mark.rule("M")
def test_query_parameters_are_as_strict_as_bodies() -> None:
    world, ana = World.create("ana"), caller("ana")
    path = f"/sessions/{world.session}/events"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"afer": 1}, "afer"),
        ({"after": "x"}, "after"),
        ({"after": -1}, "after"),
        ({"limit": 1001}, "limit"),
        ({"limit": 0}, "limit"),
        ({"order": "random"}, "order"),
        ({"loop": "main"}, "loop"),
        ({"after": [1, 2]}, "after"),
    ]
    for query, field in wrong:
        answer = ana.get(path, **query)
        assert (answer.status, answer.code, answer.json["field"]) == (400, "invalid", field), query


@pytest.mark.rule("M")
def test_unknown_addresses_and_methods_are_problems_too() -> None:
    ana = caller("ana")
    nowhere, elsewhere, wrong = ana.get("/nowhere"), Caller(ana.token, "/api/v2").get("/me"), ana.post("/me", {})
    assert (nowhere.status, nowhere.code) == (404, "not_found")
    assert (elsewhere.status, elsewhere.code) == (404, "not_found")
    assert (wrong.status, wrong.code, wrong.response.headers["Allow"]) == (405, "invalid", "GET")


@pytest.mark.rule("M", "B1")
def test_a_text_of_the_limit_passes_and_one_byte_more_is_told_its_size() -> None:
    world, ana = World.create("ana"), caller("ana")
    path, limit = f"/sessions/{world.session}/inputs", 1024 * 1024
    fits = ana.post(path, {"text": "é" * (limit // 2)})
    assert fits.status == 202
    over = ana.post(path, {"text": "a" * (limit + 1)})
    assert (over.status, over.code, over.json["size"], over.json["limit"]) == (413, "too_large", limit + 1, limit)
    escaped = ana.post(path, {"text": "\x01" * limit})  # six bytes of JSON for each byte of text
    assert escaped.status == 202


@pytest.mark.rule("M")
def test_a_body_over_the_upload_limit_is_too_large() -> None:
    world, ana = World.create("ana"), caller("ana")
    body = b'{"text": "' + b"a" * (8 * 1024 * 1024) + b'"}'
    answer = ana.post(f"/sessions/{world.session}/inputs", body)
    assert (answer.status, answer.code) == (413, "too_large")
    assert (answer.json["size"], answer.json["limit"]) == (len(body), 8 * 1024 * 1024)


@pytest.mark.rule("A6")
def test_text_that_cannot_be_stored_is_replaced_not_refused() -> None:
    world, ana = World.create("ana"), caller("ana")
    answer = ana.post(f"/sessions/{world.session}/inputs", b'{"text": "a\\u0000b\\ud800c"}')
    assert answer.status == 202
    queued = world.events("InputQueued")[0].data
    assert (queued["text"], queued["replaced"]) == ("a\ufffdb\ufffdc", True)


@pytest.mark.rule("A6", "D10")
def test_a_refused_text_is_handed_back_as_it_came() -> None:
    world, ana = World.create("ana"), caller("ana")
    answer = ana.post(f"/sessions/{world.session}/steers", b'{"text": "a\\ud800", "turn": "%b"}' % new_id().encode())
    assert (answer.status, answer.code) == (409, "turn_mismatch")
    assert answer.json["text"] == "a\ud800"


@pytest.mark.rule("M")
def test_what_nobody_foresaw_is_logged_and_shown_without_a_word_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, ana = World.create("ana"), caller("ana")

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr("sessions_app.control.submit", broken)
    answer = ana.post(f"/sessions/{world.session}/inputs", {"text": "a"})
    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret" not in answer.response.content
    assert "the secret inside" in caplog.text
