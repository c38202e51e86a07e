"""Files of messages by REST: limits, names and types that nobody has to trust, who may, and erasing."""

from typing import Any

import pytest
from django.test import Client

from sessions_app import control
from sessions_app.api import replies
from sessions_app.control import uploading
from sessions_app.engine.files import FILE_BYTES
from sessions_app.ids import new_id
from sessions_app.log import chain, db, files
from tests.doors.callers import caller
from tests.support.images import PNG
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def kept(session: str) -> int:
    with db.cursor("read") as cur:
        return files.stored(cur, session)[0]


def test_a_file_is_uploaded_named_by_a_message_and_read_again() -> None:
    world, ana = World.create("ana"), caller("ana")
    made = ana.upload(world.session, "plan.png", PNG, type_="text/html")
    assert made.status == 201
    file = replies.UploadedFile.model_validate(made.json)
    assert (file.name, file.size, file.type) == ("plan.png", len(PNG), "image/png")
    sent = ana.post(f"/sessions/{world.session}/inputs", {"text": "look", "files": [file.id]})
    assert sent.status == 202
    assert world.events("InputQueued")[0].data["files"] == [made.json]
    assert ana.get(f"/sessions/{world.session}/state").json["files"] == {sent.json["input"]: [made.json]}
    answer = ana.fetch(f"/sessions/{world.session}/files/{file.id}")
    assert (answer.status_code, answer.content) == (200, PNG)
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("D1", "E12")
def test_steers_and_what_a_stop_sends_carry_files_too() -> None:
    world, ana = World.create("ana"), caller("ana")
    file = ana.upload(world.session, "a.txt", b"words").json
    world.start()
    assert ana.post(f"/sessions/{world.session}/steers", {"text": "", "files": [file["id"]]}).status == 202
    steered = world.events("SteerQueued")[0].data
    assert (steered["text"], steered["files"]) == ("a.txt", [file])
    wrong = ana.post(f"/sessions/{world.session}/interrupt", {"then": {"input": new_id(), "files": [file["id"]]}})
    assert (wrong.status, wrong.code) == (400, "invalid")
    then = {"text": "this first", "files": [file["id"]]}
    assert ana.post(f"/sessions/{world.session}/interrupt", {"then": then, "wait": 0}).status == 202
    assert world.events("InputQueued")[-1].data["files"] == [file]
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("A4")
def test_the_same_upload_twice_is_one_file() -> None:
    world, ana = World.create("ana"), caller("ana")
    first = ana.upload(world.session, "a.txt", b"words", key="one")
    assert ana.upload(world.session, "a.txt", b"words", key="one").json == first.json
    assert kept(world.session) == 1
    assert ana.upload(world.session, "a.txt", b"other", key="one").code == "command_id_reused"
    with db.cursor("read") as cur:
        receipts = str(cur.execute("SELECT receipt FROM command").fetchall())
    assert "a.txt" not in receipts, "a receipt is never erased"


def test_limits_say_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world, ana = World.create("ana"), caller("ana")
    large = ana.upload(world.session, "a.bin", b"\1" * (FILE_BYTES + 1))
    assert (large.status, large.code) == (413, "too_large")
    assert (large.json["size"], large.json["limit"]) == (FILE_BYTES + 1, FILE_BYTES)
    assert ana.upload(world.session, "most.bin", b"\1" * FILE_BYTES).status == 201
    assert ana.upload(world.session, "none.txt", b"").code == "blank"
    monkeypatch.setattr(uploading, "SESSION_BYTES", FILE_BYTES + 10)
    assert ana.upload(world.session, "a.txt", b"0123456789").status == 201
    full = ana.upload(world.session, "a.txt", b"0")
    assert (full.status, full.code, full.json["limit"]) == (409, "files_full", FILE_BYTES + 10)
    monkeypatch.setattr(uploading, "SESSION_FILES", 2)
    assert ana.upload(world.session, "a.txt", b"0").code == "files_full"
    many = ana.post(f"/sessions/{world.session}/inputs", {"text": "a", "files": [new_id() for _ in range(11)]})
    assert (many.status, many.code, many.json["field"]) == (400, "invalid", "files")


@pytest.mark.rule("M")
def test_what_is_no_single_file_is_invalid() -> None:
    world, ana = World.create("ana"), caller("ana")
    path = f"/sessions/{world.session}/files"
    for body in (b"", b"{}", b"x"):
        assert (ana.send("POST", path, body).status, ana.send("POST", path, body).code) == (400, "invalid")
    client = Client(headers={"Authorization": f"Bearer {ana.token}"})
    broken = client.generic("POST", f"/api/v1{path}", b"--x\r\nnothing", "multipart/form-data; boundary=")
    assert (broken.status_code, broken.json()["code"]) == (400, "invalid")
    assert kept(world.session) == 0


@pytest.mark.rule("A9")
def test_only_who_may_submit_may_upload_and_only_who_may_read_may_read() -> None:
    world, ana, ben, eve = World.create("ana"), caller("ana"), caller("ben"), caller("eve")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="observer")
    file = ana.upload(world.session, "a.png", PNG).json["id"]
    path = f"/sessions/{world.session}/files/{file}"
    refused = ben.upload(world.session, "a.png", PNG)
    assert (refused.status, refused.code) == (403, "not_allowed")
    assert ben.fetch(path).content == PNG
    assert eve.upload(world.session, "a.png", PNG).code == "session_not_found"
    assert eve.get(path).code == "session_not_found"
    assert Client().get(f"/api/v1{path}").status_code == 401
    other = World.create("eve")
    assert eve.get(f"/sessions/{other.session}/files/{file}").code == "file_not_found"
    stolen = eve.post(f"/sessions/{other.session}/inputs", {"text": "mine now", "files": [file]})
    assert (stolen.status, stolen.code) == (404, "file_not_found")
    control.close(world.owner, world.session, new_id())
    assert ana.upload(world.session, "a.png", PNG).code == "session_closing"
    assert ana.fetch(path).content == PNG


HOSTILE: list[tuple[str, bytes, str]] = [
    ("../../x.png", PNG, "x.png"),
    ("<img src=x onerror=alert(1)>.png", PNG, "<img src=x onerror=alert(1)>.png"),
    ('a"; filename="b.html', b"<script>alert(1)</script>", 'a"; filename="b.html'),
    ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "drawing.svg"),
    ("page.html", b"<!doctype html><script>alert(1)</script>", "page.html"),
    ("picture.png", b"<!doctype html><script>alert(1)</script>", "picture.png"),
    ("ünï 😀.png", PNG, "ünï 😀.png"),
]


@pytest.mark.parametrize(("name", "content", "stored"), HOSTILE, ids=range(len(HOSTILE)))
def test_names_and_bytes_do_no_harm(name: str, content: bytes, stored: str) -> None:
    world, ana = World.create("ana"), caller("ana")
    made = control.upload(world.owner, world.session, new_id(), name=name, content=content)
    assert made["name"] == stored
    through = ana.upload(world.session, name, content, type_="image/png").json
    assert (through["type"] == "image/png") == (content == PNG)
    answer: Any = ana.fetch(f"/sessions/{world.session}/files/{made['id']}")
    shown = content == PNG
    assert answer["Content-Type"] == ("image/png" if shown else "application/octet-stream")
    assert answer["Content-Disposition"].split(";")[0] == ("inline" if shown else "attachment")
    assert "\n" not in answer["Content-Disposition"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("default-src 'none'; sandbox")
    assert answer["Cache-Control"] == "private, no-cache", "whoever may read it is asked each time"
    assert "private" in answer["Cache-Control"]


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "application/octet-stream"),
        (b"%PDF-1.7", "application/pdf"),
        ("größer".encode(), "text/plain"),
        (b"a\0b", "application/octet-stream"),
        (b"\xff\xfe", "application/octet-stream"),
    ],
    ids=range(9),
)
def test_the_type_is_what_the_bytes_say(content: bytes, type_: str) -> None:
    assert uploading.type_of(content) == type_


@pytest.mark.rule("A3")
def test_erasing_forgets_bytes_and_names() -> None:
    world, ana = World.create("ana"), caller("ana")
    file = ana.upload(world.session, "secret.png", PNG).json["id"]
    ana.post(f"/sessions/{world.session}/inputs", {"text": "look", "files": [file]})
    event = world.events("InputQueued")[0]
    erased = ana.post(f"/sessions/{world.session}/events/{event.seq}/erase", {"reason": "a key in the picture"})
    assert erased.status == 200
    assert kept(world.session) == 0
    data = world.events("InputQueued")[0].data
    assert data["text"] == {"erased": True}
    assert data["files"] == [{"id": file, "name": {"erased": True}, "size": len(PNG), "type": "image/png"}]
    gone = ana.get(f"/sessions/{world.session}/files/{file}")
    assert (gone.status, gone.code) == (404, "file_not_found")
    assert ana.post(f"/sessions/{world.session}/inputs", {"text": "a", "files": [file]}).code == "file_not_found"
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("A2")
def test_verify_sees_a_file_that_is_gone_and_rebuild_says_who_named_it() -> None:
    world, ana = World.create("ana"), caller("ana")
    file = ana.upload(world.session, "a.png", PNG).json["id"]
    ana.post(f"/sessions/{world.session}/inputs", {"text": "look", "files": [file]})
    with db.cursor("read") as cur:
        cur.execute("UPDATE file SET seq = NULL")
    what = ["the table `file` differs from the fold of the log"]
    assert [fault.what for fault in chain.verify(world.session)] == what
    assert [fault.what for fault in chain.rebuild(world.session)] == what
    assert list(chain.verify(world.session)) == []
    with db.cursor("read") as cur:
        cur.execute("DELETE FROM file")
    assert [fault.what for fault in chain.verify(world.session)] == what


def test_what_no_message_has_named_goes_after_a_day() -> None:
    world, ana = World.create("ana"), caller("ana")
    named, left, fresh = (ana.upload(world.session, f"{n}.png", PNG).json["id"] for n in range(3))
    ana.post(f"/sessions/{world.session}/inputs", {"text": "look", "files": [named]})
    with db.cursor("read") as cur:
        cur.execute("UPDATE file SET at = at - interval '25 hours' WHERE id <> %s", (fresh,))
    files.tidy()
    path = f"/sessions/{world.session}/files"
    assert [ana.fetch(f"{path}/{file}").status_code for file in (named, left, fresh)] == [200, 404, 200]
