"""Files of messages reach the agent: in its workspace, in what it is told, and images before its eyes."""

import base64
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sessions_app import control
from sessions_app.engine.files import File
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import UserEntry
from sessions_app.ids import new_id
from sessions_app.log import files
from sessions_app.worker import uploads
from sessions_app.worker.models.base import Reply, Request
from sessions_app.worker.models.providers import close_connections
from sessions_app.worker.models.registry import open_model
from sessions_app.worker.uploads import Uploads
from tests.support.images import PNG
from tests.support.model_server import PROVIDERS, ModelServer, say
from tests.support.world import World

database = pytest.mark.usefixtures("database", "redis_url")


def sent(world: World, name: str, content: bytes) -> File:
    made = control.upload(world.owner, world.session, new_id(), name=name, content=content)
    return File(**made)


def told(world: World, workspace: Path, *entries: UserEntry) -> tuple[list[str], dict[str, bytes]]:
    brought, images = Uploads(world.session).bring(workspace, entries)
    return [entry.text for entry in brought], images


@database
def test_a_file_lies_in_the_workspace_and_the_words_say_where(tmp_path: Path) -> None:
    world = World.create()
    picture, notes = sent(world, "../../x y.png", PNG), sent(world, "notes.txt", b"words")
    texts, images = told(world, tmp_path, UserEntry("look", files=(picture, notes)), UserEntry("and go on"))
    assert picture.path == f".steerweb/uploads/{picture.id}-x_y.png"
    line = f"[Attached file: {notes.path} (text/plain, 5 bytes)]"
    assert texts == [
        f"look\n\n[Attached file: {picture.path} (image/png, {len(PNG)} bytes)]\n{line}",
        "and go on",
    ]
    assert (tmp_path / picture.path).read_bytes() == PNG
    assert (tmp_path / notes.path).read_bytes() == b"words"
    assert (tmp_path / ".steerweb/uploads/.gitignore").read_text() == "*\n"
    assert images == {picture.id: PNG}


@database
def test_what_the_agent_has_changed_is_left_alone(tmp_path: Path) -> None:
    world = World.create()
    entry = UserEntry("look", files=(sent(world, "notes.txt", b"words"),))
    told(world, tmp_path, entry)
    (tmp_path / entry.files[0].path).write_text("changed")
    told(world, tmp_path, entry)
    assert (tmp_path / entry.files[0].path).read_text() == "changed"


@pytest.mark.rule("A3")
@database
def test_an_erased_file_is_removed_whatever_it_was_called(tmp_path: Path) -> None:
    world = World.create()
    file = sent(world, "secret.png", PNG)
    told(world, tmp_path, UserEntry("look", files=(file,)))
    texts, images = told(world, tmp_path, UserEntry("[erased]", files=(File(file.id, None, file.size, file.type),)))
    assert texts == [f"[erased]\n\n[Attached file: erased (image/png, {len(PNG)} bytes)]"]
    assert not images
    assert [path.name for path in (tmp_path / ".steerweb/uploads").iterdir()] == [".gitignore"]


@pytest.mark.rule("A3")
@pytest.mark.parametrize("which", ["InputQueued", "InputCancelled", "SteerQueued"])
@database
def test_one_erased_event_of_several_that_name_a_file_is_enough(tmp_path: Path, which: str) -> None:
    world = World.create()
    world.start()
    file = sent(world, "secret.png", PNG)
    queued = control.submit(world.owner, world.session, new_id(), text="look", files=[file.id])["input"]
    control.edit_input(world.owner, world.session, new_id(), queued, promote="normal")
    world.plan("c1")
    world.start_tool("c1")
    world.settle("c1")
    world.begin()
    held = Uploads(world.session)

    def asked() -> tuple[str, dict[str, bytes]]:
        transcript = Transcript()
        transcript.feed(world.events())
        entries, images = held.bring(tmp_path, transcript.entries)
        [text] = [entry.text for entry in entries if isinstance(entry, UserEntry) and entry.files]
        return text, images

    text, images = asked()
    assert file.path in text and images == {file.id: PNG}
    [event] = [each for each in world.events(which) if each.data.get("files")]
    control.erase(world.owner, world.session, new_id(), event.seq, "a key was in it")
    text, images = asked()
    assert text.endswith(f"[Attached file: erased (image/png, {len(PNG)} bytes)]") and "secret" not in text
    assert images == {}
    assert [path.name for path in (tmp_path / ".steerweb/uploads").iterdir()] == [".gitignore"]


@pytest.mark.rule("A3")
@database
def test_an_erased_file_s_copy_that_cannot_be_removed_is_not_called_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World.create()
    secret, other = sent(world, "secret.png", PNG), sent(world, "other.png", PNG)
    told(world, tmp_path, UserEntry("look", files=(secret, other)))
    folder = tmp_path / ".steerweb/uploads"
    (folder / f"{secret.id}-a").mkdir()
    (folder / f".{secret.id}-secret.png.0a1b2c3d").write_bytes(PNG)  # what a writer leaves that was killed
    entry = UserEntry("look", files=tuple(replace(file, name=None) for file in (secret, other)))
    held = Uploads(world.session)
    with caplog.at_level(logging.WARNING):
        [brought], _ = held.bring(tmp_path, [entry])
        held.bring(tmp_path, [entry])
    about = f"(image/png, {len(PNG)} bytes)"
    assert isinstance(brought, UserEntry) and brought.text.splitlines()[2:] == [
        f"[Attached file: erased {about}; what lies in .steerweb/uploads of it could not be removed]",
        f"[Attached file: erased {about}]",
    ]
    assert {path.name for path in folder.iterdir()} == {".gitignore", f"{secret.id}-a"}
    assert caplog.text.count(secret.id) == 1 and "secret" not in caplog.text
    (folder / f"{secret.id}-a").rmdir()
    [brought], _ = held.bring(tmp_path, [entry])
    assert isinstance(brought, UserEntry) and "could not" not in brought.text


@pytest.mark.rule("A3")
@database
def test_an_erased_file_behind_a_link_is_not_called_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World.create()
    file = sent(world, "secret.png", PNG)
    told(world, tmp_path, UserEntry("look", files=(file,)))
    (tmp_path / ".steerweb").rename(tmp_path / "elsewhere")
    (tmp_path / ".steerweb").symlink_to("elsewhere")
    texts, _ = told(world, tmp_path, UserEntry("look", files=(replace(file, name=None),)))
    assert "erased" in texts[0] and "could not be removed" in texts[0]
    assert (tmp_path / "elsewhere/uploads" / Path(file.path).name).exists()
    assert file.id in caplog.text


@pytest.mark.parametrize("link", [".steerweb", ".steerweb/uploads"])
@database
def test_a_link_to_another_folder_of_the_workspace_is_not_written_to(tmp_path: Path, link: str) -> None:
    world = World.create()
    (tmp_path / "src").mkdir()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "src")
    texts, _ = told(world, tmp_path, UserEntry("look", files=(sent(world, "notes.txt", b"words"),)))
    assert f"could not be put into the workspace: {link} is a symbolic link" in texts[0]
    assert list((tmp_path / "src").iterdir()) == []


@database
def test_a_link_that_the_agent_put_in_a_file_s_place_is_left_alone(tmp_path: Path) -> None:
    world = World.create()
    file = sent(world, "notes.txt", b"words")
    told(world, tmp_path, UserEntry("look", files=(file,)))
    (tmp_path / file.path).unlink()
    (tmp_path / file.path).symlink_to("/nowhere")
    texts, _ = told(world, tmp_path, UserEntry("look", files=(file,)))
    assert "could not" not in texts[0] and (tmp_path / file.path).is_symlink()


@database
def test_a_link_in_the_way_leads_nowhere_else_and_the_words_say_so(tmp_path: Path) -> None:
    world = World.create()
    workspace, outside = tmp_path / "w", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / ".steerweb").symlink_to(outside)
    texts, _ = told(world, workspace, UserEntry("look", files=(sent(world, "notes.txt", b"words"),)))
    assert "could not be put into the workspace" in texts[0]
    assert list(outside.iterdir()) == []


@database
def test_the_newest_images_are_shown_as_far_as_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.create()
    pictures = [sent(world, f"{n}.png", PNG + bytes([n])) for n in range(4)]
    entries = [UserEntry("look", files=(file,)) for file in pictures]
    monkeypatch.setattr(uploads, "IMAGES_BYTES", 3 * pictures[0].size)
    monkeypatch.setattr(uploads, "IMAGES_AT_ONCE", 2)
    assert set(told(world, tmp_path, *entries)[1]) == {pictures[2].id, pictures[3].id}
    monkeypatch.setattr(uploads, "IMAGE_BYTES", 1)
    assert told(world, tmp_path, *entries)[1] == {}


@database
def test_no_more_images_are_read_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.create()
    pictures = [sent(world, f"{n}.png", PNG + bytes([n])) for n in range(4)]
    entries = [UserEntry("look", files=(file,)) for file in pictures]
    told(world, tmp_path, *entries)
    monkeypatch.setattr(uploads, "IMAGES_AT_ONCE", 2)
    read: list[str] = []
    content = files.content

    def noted(session: str, id: str) -> tuple[str, str, bytes] | None:
        read.append(id)
        return content(session, id)

    monkeypatch.setattr(files, "content", noted)
    assert set(told(world, tmp_path, *entries)[1]) == set(read) == {pictures[2].id, pictures[3].id}
    assert len(read) == 2


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    with ModelServer() as server:
        for key, value in server.environ(*PROVIDERS).items():
            monkeypatch.setenv(key, value)
        yield server
        await close_connections()


def images_in(body: Any) -> list[str]:
    """The data of every image in a request, however its dialect spells it."""
    match body:
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return [url.partition("base64,")[2]]
        case {"type": "image", "source": {"data": str(data)}} | {"inlineData": {"data": str(data)}}:
            return [data]
        case dict():
            return [found for value in body.values() for found in images_in(value)]
        case list():
            return [found for value in body for found in images_in(value)]
        case _:
            return []


@pytest.mark.parametrize(
    "name", ["openai-chat:m-1", "openai:m-1", "anthropic:claude-opus-5", "google:gemini-3.8-flash"]
)
async def test_every_provider_is_shown_the_image(server: ModelServer, name: str) -> None:
    server.script([say("Blue.")])
    file = File("0197", "a.png", len(PNG), "image/png")
    request = Request(name, "Be good.", (UserEntry("Which colour?", files=(file,)),), (), {"0197": PNG})
    items = [item async for item in open_model(name).stream(request)]
    assert isinstance(items[-1], Reply)
    assert server.violations == []
    [seen] = server.requests
    assert "Which colour?" in seen.text
    shown = [base64.b64decode(data.replace("-", "+").replace("_", "/")) for data in images_in(seen.body)]
    assert shown == [PNG]
