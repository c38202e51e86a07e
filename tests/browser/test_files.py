"""Files in messages, as people send and see them: pasted, dropped, chosen, kept with the draft, shown to everybody."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, WebSocketRoute, expect

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.log import db
from tests.browser.screens import Screens, live, observe
from tests.support.images import PNG
from tests.support.model_server import ModelServer, fail, say
from tests.support.running import Running
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Open = Callable[..., Screens]
PICTURE: Any = {"name": "plan.png", "mimeType": "image/png", "buffer": PNG}
NOTES: Any = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"words"}
BRINGS = """([kind, name, type, data, words]) => {
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  const brought = new DataTransfer();
  brought.items.add(new File([bytes], name, { type }));
  if (words) brought.setData("text/plain", words);
  const options = { bubbles: true, cancelable: true };
  if (kind === "paste") {
    const event = new ClipboardEvent(kind, { ...options, clipboardData: brought });
    return document.querySelector("#say textarea").dispatchEvent(event);
  }
  return document.querySelector(".line").dispatchEvent(new DragEvent(kind, { ...options, dataTransfer: brought }));
}"""


def bring(page: Page, kind: str, name: str = "image.png", words: str = "") -> bool:
    """A real event of the clipboard or of a drag; whether the browser would go on with it by itself."""
    return bool(page.evaluate(BRINGS, [kind, name, "image/png", base64.b64encode(PNG).decode(), words]))


def choose(page: Page, *files: Any) -> None:
    page.locator("#say input[type=file]").set_input_files(list(files))


def chips(page: Page, is_: str = "there") -> Locator:
    return page.locator(f"#say .file[data-is={is_}]")


def box(page: Page) -> Locator:
    return page.locator("#say textarea")


def seen(place: Locator) -> None:
    """The picture is really there."""
    expect(place).to_be_visible()
    place.scroll_into_view_if_needed()
    wait_until(lambda: place.evaluate("image => image.complete && image.naturalWidth") == 8, "the picture")


def test_a_picture_is_pasted_sent_and_seen_by_everybody(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    observe(world, "kim")
    ana, kim = opened.session("ana", world), opened.session("kim", world)
    assert not bring(ana, "paste"), "the browser does not paste its name"
    seen(chips(ana).locator("img"))
    box(ana).fill("look at this")
    box(ana).press("Enter")
    expect(chips(ana)).to_have_count(0)
    expect(box(ana)).to_have_value("")
    for page in (ana, kim):
        expect(page.locator("#waiting .chip .where")).to_have_text("next, with 1 file")
    world.claim()
    for page in (ana, kim):
        seen(page.locator(".said .file img"))
        link = page.get_by_role("link", name="image.png")
        expect(link).to_have_attribute("href", re.compile(f"^/api/v1/sessions/{world.session}/files/[0-9a-f-]+$"))
    assert kim.locator("#say").count() == 0
    with ana.expect_popup() as opening:
        ana.get_by_role("link", name="image.png").click()
    assert opening.value.url.startswith(f"{opened.stack.url}/api/v1/sessions/")


def test_words_with_a_picture_of_them_are_pasted_as_words(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    assert bring(page, "paste", words="from a word processor"), "the browser goes on and pastes the words"
    expect(page.locator("#say .file")).to_have_count(0)


def test_what_is_dropped_anywhere_is_a_file_of_the_message(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    bring(page, "dragenter")
    expect(page.locator(".dock[data-drop]")).to_be_visible()
    assert not bring(page, "dragover"), "else the browser would leave the page for the file"
    assert not bring(page, "drop", "dropped.png")
    expect(page.locator(".dock[data-drop]")).to_have_count(0)
    expect(chips(page)).to_contain_text("dropped.png")
    expect(box(page)).to_be_focused()


def test_files_alone_can_be_sent_and_one_can_be_removed(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    send = page.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_disabled()
    choose(page, PICTURE, NOTES)
    expect(chips(page)).to_have_count(2)
    page.get_by_role("button", name="Remove plan.png").click()
    expect(page.get_by_role("button", name="Remove notes.txt")).to_be_focused()
    send.click()
    expect(page.locator("#waiting .chip .what")).to_have_text("notes.txt")
    (event,) = world.events("InputQueued")
    assert [file["name"] for file in event.data["files"]] == ["notes.txt"]
    world.claim()
    with page.expect_download() as download:
        page.get_by_role("link", name="notes.txt 5 bytes").click()
    assert download.value.suggested_filename == "notes.txt"
    assert download.value.path().read_bytes() == b"words"


def test_what_is_too_large_or_empty_is_said_before_it_leaves_and_words_stay(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    box(page).fill("half a thought")
    choose(
        page, {**NOTES, "name": "film.mov", "buffer": b"x" * 14_000_000}, {**NOTES, "name": "none.txt", "buffer": b""}
    )
    said = page.locator("#says").get_by_role("alert")
    expect(said).to_contain_text("This file has 14 MB; at most 10 MB can be sent: film.mov")
    expect(said).to_contain_text("This file is empty: none.txt")
    expect(page.locator("#say .file")).to_have_count(0)
    expect(box(page)).to_have_value("half a thought")
    choose(page, *({**NOTES, "name": f"{n}.txt"} for n in range(12)))
    expect(chips(page)).to_have_count(10)
    expect(said).to_contain_text("At most 10 files go with one message. Left out: 10.txt")
    assert len(sent) == 10


def test_a_message_waits_for_its_files_and_one_that_failed_is_tried_again(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    held: list[Route] = []
    page.route("**/files", lambda route: held.append(route))
    choose(page, PICTURE)
    expect(chips(page, "going").get_by_role("progressbar", name="Uploading plan.png")).to_be_visible()
    box(page).fill("look")
    box(page).press("Enter")
    says = page.locator("#says").get_by_role("alert")
    expect(says).to_have_text("Not sent yet: 1 file is still being uploaded.")
    expect(box(page)).to_have_value("look")
    wait_until(lambda: held, "the upload")
    held[0].abort()
    expect(chips(page, "bad").get_by_role("alert")).to_have_text("The server could not be reached.")
    box(page).press("Enter")
    expect(says).to_have_text("Not sent: 1 file could not be uploaded. Try again, or remove it.")
    page.unroute("**/files")
    page.get_by_role("button", name="Try again: plan.png").click()
    expect(chips(page)).to_have_count(1)
    expect(says).to_have_count(0)
    box(page).press("Enter")
    expect(page.locator("#waiting .chip")).to_contain_text("with 1 file")


def test_a_draft_keeps_its_files_over_a_reload_and_says_which_is_gone(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    box(page).fill("look")
    page.reload()
    live(page)
    seen(chips(page).locator("img"))
    expect(box(page)).to_have_value("look")
    with db.cursor("write") as cur:
        cur.execute("DELETE FROM file")
    box(page).press("Enter")
    expect(page.locator("#says")).to_contain_text("A file of this message is not there, or was erased.")
    expect(chips(page, "bad")).to_contain_text("It is not there any more")
    page.get_by_role("button", name="Remove plan.png").click()
    box(page).press("Enter")
    expect(page.locator("#waiting .chip")).to_contain_text("look")


@pytest.mark.rule("B4")
def test_a_message_taken_back_brings_its_files_back(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.session("ana", world)
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    box(page).press("Alt+Enter")
    expect(page.locator("#waiting .chip")).to_contain_text("after this turn, with 1 file")
    page.locator("#waiting").get_by_role("button", name=re.compile("^More about")).click()
    page.get_by_role("button", name=re.compile("^Take back")).click()
    expect(chips(page)).to_have_count(1)
    expect(box(page)).to_have_value("", timeout=2_000)
    box(page).fill("with words")
    box(page).press("Enter")
    expect(page.locator("#waiting .chip")).to_contain_text("with words")
    assert world.events("SteerQueued")[0].data["files"] == world.events("InputQueued")[-1].data["files"]


@pytest.mark.rule("A3")
def test_an_erased_file_is_said_to_be_one(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    made = control.upload(world.owner, world.session, new_id(), name="<img src=x onerror=alert(1)>.png", content=PNG)
    control.submit(world.owner, world.session, new_id(), text="look", files=[made["id"]])
    world.claim()
    page = opened.session("ana", world)
    expect(page.get_by_role("link", name="<img src=x onerror=alert(1)>.png")).to_be_visible()
    control.erase(world.owner, world.session, new_id(), world.events("InputQueued")[0].seq, "secret")
    page.reload()
    live(page)
    expect(page.locator(".said .file")).to_have_text("erased file")


def test_without_scripts_files_are_links(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    ids = [
        control.upload(world.owner, world.session, new_id(), name=name, content=content)["id"]
        for name, content in (("plan.png", PNG), ("notes.txt", b"words"))
    ]
    control.submit(world.owner, world.session, new_id(), text="look", files=ids)
    world.claim()
    page = opened.open("ana", f"/s/{world.session}", java_script_enabled=False)
    expect(page.get_by_role("link", name="plan.png 74 bytes")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="notes.txt 5 bytes").click()
    assert download.value.suggested_filename == "notes.txt"


@pytest.mark.parametrize("size", ["phone", "small"])
def test_under_a_thumb_files_are_as_easy(screens: Open, size: str) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.session("ana", world, size)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").tap()
    assert chooser.value.is_multiple()
    chooser.value.set_files([PICTURE, {**NOTES, "name": f"{'a long name ' * 9}.txt"}])
    expect(chips(page)).to_have_count(2)
    for target in page.locator("#say .file button, #say .clip, #say .send").all():
        bounds = target.bounding_box()
        assert bounds is not None
        assert min(bounds["width"], bounds["height"]) >= 44
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Send", exact=True).tap()
    expect(page.locator("#waiting .chip")).to_contain_text("with 2 files")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.rule("E12")
def test_a_stop_sends_what_is_in_the_box_with_its_files(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.session("ana", world)
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    page.get_by_role("button", name="Stop, with choices").click()
    page.get_by_role("button", name="Stop and send what is in the box").click()
    wait_until(lambda: len(world.events("InputQueued")) == 2, "the message")
    assert world.events("InputQueued")[1].data["files"][0]["name"] == "plan.png"
    world.end()
    expect(page.locator("#say .file")).to_have_count(0)


def hold(page: Page, frame: str) -> list[tuple[str, Callable[[str], None]]]:
    """Frames of this kind that the page sends stay on their way, with what delivers them."""
    held: list[tuple[str, Callable[[str], None]]] = []

    def route(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(text: str | bytes) -> None:
            if f'"t":"{frame}"' in str(text):
                held.append((str(text), server.send))
            else:
                server.send(text)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws/sessions/**", route)
    return held


@pytest.mark.rule("E12")
@pytest.mark.parametrize("typed", ["", "and words"])
def test_files_added_while_a_stop_is_on_its_way_stay(screens: Open, typed: str) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.context("ana").new_page()
    stops = hold(page, "interrupt")
    page.route("**/interrupt", lambda _: None)  # nor does it come by its other way
    page.goto(f"/s/{world.session}")
    live(page)
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    uploads: list[Route] = []
    page.route("**/files", lambda route: uploads.append(route))
    page.get_by_role("button", name="Stop, with choices").click()
    page.get_by_role("button", name="Stop and send what is in the box").click()
    wait_until(lambda: stops, "the stop")
    choose(page, NOTES)
    box(page).fill(typed)
    expect(chips(page, "going")).to_contain_text("notes.txt")
    ((frame, deliver),) = stops
    deliver(frame)
    wait_until(lambda: len(world.events("InputQueued")) == 2, "the message")
    expect(chips(page)).to_have_count(0)
    expect(box(page)).to_have_value(typed)
    wait_until(lambda: uploads, "the upload")
    uploads[0].continue_()
    expect(chips(page)).to_contain_text("notes.txt")
    page.reload()
    live(page)
    expect(page.locator("#say .file .what bdi")).to_have_text(["notes.txt"])
    expect(box(page)).to_have_value(typed)


def taken_back(page: Page, world: World, text: str, *names: str) -> Locator:
    """What offers a message again that was taken back while something else stood in the box."""
    ids = [
        control.upload(world.owner, world.session, new_id(), name=name, content=name.encode())["id"] for name in names
    ]
    control.submit(world.owner, world.session, new_id(), text=text, files=ids)
    page.locator("#waiting").get_by_role("button", name=re.compile("^More about")).click()
    page.get_by_role("button", name=re.compile("^Take back")).click()
    return page.get_by_role("button", name="Put it into the box")


@pytest.mark.rule("B4")
def test_files_of_a_message_come_back_where_its_words_stand_already(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.session("ana", world)
    box(page).fill("look")
    put = taken_back(page, world, "look", "a.txt")
    put.click()
    expect(chips(page)).to_contain_text("a.txt")
    expect(box(page)).to_have_value("look")
    expect(put).to_be_hidden()
    page.get_by_role("button", name="Remove a.txt").click()
    choose(page, *({**NOTES, "name": f"{n}.txt"} for n in range(10)))
    expect(chips(page)).to_have_count(10)
    put.click()
    expect(page.locator("#says").get_by_role("alert")).to_have_text(
        "At most 10 files go with one message. Left out: a.txt"
    )
    expect(chips(page)).to_have_count(10)


@pytest.mark.rule("B4")
@pytest.mark.parametrize("names", [["\U0001f4c4" * 251 + ".txt"], [f"{n}{'x' * 250}" for n in range(5)]])
def test_files_with_long_names_come_back_without_words(screens: Open, names: list[str]) -> None:
    opened, world = screens(), World.create("ana")
    world.start("go")
    page = opened.session("ana", world)
    taken_back(page, world, "", *names)
    expect(chips(page)).to_have_count(len(names))
    assert world.events("InputQueued")[-1].data["text"] == ("1 file" if len(names) == 1 else "5 files")
    expect(box(page)).to_have_value("", timeout=2_000)


def test_a_folder_and_what_else_cannot_be_sent_are_both_said(screens: Open, tmp_path: Path) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.session("ana", world)
    (tmp_path / "folder").mkdir()
    (tmp_path / "film.mov").write_bytes(b"x" * 12_000_000)
    (tmp_path / "notes.txt").write_bytes(b"words")
    brought = [str(each) for each in tmp_path.iterdir()]
    protocol = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": brought, "dragOperationsMask": 1}
        protocol.send("Input.dispatchDragEvent", {"type": kind, "x": 400, "y": 400, "data": data})
    said = page.locator("#says").get_by_role("alert")
    expect(said).to_contain_text("A folder cannot be sent. Pack it into one file first.")
    expect(said).to_contain_text("This file has 12 MB; at most 10 MB can be sent: film.mov")
    expect(chips(page)).to_contain_text("notes.txt")


@pytest.mark.rule("A4")
def test_a_file_that_is_not_taken_leaves_the_message_the_same_command(screens: Open) -> None:
    opened, world = screens(), World.create("ana")
    page = opened.context("ana").new_page()
    held = hold(page, "submit")
    page.goto(f"/s/{world.session}")
    live(page)
    box(page).fill("once")
    box(page).press("Enter")
    page.get_by_role("button", name="Keep it as a draft").click()
    choose(page, {**NOTES, "name": "none.txt", "buffer": b""})
    expect(page.locator("#says")).to_contain_text("This file is empty: none.txt")
    box(page).press("Enter")
    wait_until(lambda: len(held) == 2, "the second try")
    for frame, deliver in held:
        deliver(frame)
    expect(box(page)).to_have_value("")
    assert len({json.loads(frame)["id"] for frame, _ in held}) == 1
    assert [event.data["text"] for event in world.events("InputQueued")] == ["once"]


def test_the_agent_gets_the_file_and_sees_the_picture(own_screens: Open, server: ModelServer) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    page = opened.open("ana", f"/s/{session.id}")
    live(page)
    server.script([say("A blue square.")])
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    box(page).fill("What is this?")
    box(page).press("Enter")
    expect(page.locator("#timeline")).to_contain_text("A blue square.")
    asked = server.requests[-1]
    found = re.search(r"\[Attached file: (\S+) \(image/png, 74 bytes\)\]", asked.text)
    assert found is not None
    assert base64.b64encode(PNG).decode() in str(asked.body)
    assert (session.workspace / found[1]).read_bytes() == PNG


def test_a_server_that_takes_no_pictures_is_asked_without_them(own_screens: Open, server: ModelServer) -> None:
    opened = own_screens(workers=1, env=server.environ())
    session = Running.create()
    page = opened.open("ana", f"/s/{session.id}")
    live(page)
    server.script([fail(400, "images are not supported")], [say("I read the file.")])
    choose(page, PICTURE)
    expect(chips(page)).to_have_count(1)
    box(page).press("Enter")
    expect(page.locator("#timeline")).to_contain_text("I read the file.")
    assert [base64.b64encode(PNG).decode() in str(asked.body) for asked in server.requests] == [True, False]
