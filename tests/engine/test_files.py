"""Files of messages: named by the event that queues the message, kept wherever it goes, forgotten with its texts."""

import pytest

from sessions_app.engine import commands as c
from sessions_app.engine.files import File, cleaned_name
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import UserEntry
from tests.engine.harness import ANA, BEN, LOOP, Memory


def described(memory: Memory, *files: str) -> list[dict[str, object]]:
    return [memory.uploads[each] for each in files]


def told(memory: Memory) -> list[UserEntry]:
    transcript = Transcript()
    transcript.feed(memory.log)
    return [entry for entry in transcript.entries if isinstance(entry, UserEntry)]


@pytest.mark.rule("B1")
def test_an_input_names_its_files_and_they_come_with_its_words() -> None:
    memory = Memory()
    file = memory.upload()
    memory.submit("look at this", files=[file, file])
    assert memory.data("InputQueued")[0]["files"] == described(memory, file)
    memory.resume()
    assert told(memory) == [UserEntry("look at this", files=(File(file, "plan.png", 3, "image/png"),))]


@pytest.mark.rule("B1")
def test_a_file_that_is_not_there_refuses_the_whole_message() -> None:
    memory = Memory()
    error = memory.refused(c.Submit("one", "look", files=[memory.upload(), "gone"]))
    assert (error.code, error.status, error.data["files"]) == ("file_not_found", 404, ["gone"])
    many = [memory.upload() for _ in range(11)]
    assert memory.refused(c.Submit("one", "look", files=many)).code == "invalid"
    memory.do(c.Submit("one", "look", files=many[1:]), ANA)


@pytest.mark.rule("B1", "D1")
def test_files_without_a_word_are_called_by_their_names() -> None:
    memory = Memory()
    memory.submit(" ", files=[memory.upload("a.png"), memory.upload("b.png")])
    assert memory.data("InputQueued")[0]["text"] == "a.png, b.png"
    memory.do(c.SendSteer("s", "", files=[memory.upload("x" * 250) for _ in range(10)]), ANA)
    assert memory.data("SteerQueued")[0]["text"] == "10 files"
    memory.do(c.SendSteer("s", "", files=[memory.upload("\U0001f4c4" * 255)]), ANA)
    assert memory.data("SteerQueued")[1]["text"] == "1 file"
    for length, text in ((1, "x"), (1000, "x" * 1000), (1001, "1 file")):
        memory.do(c.SendSteer(f"s{length}", "", files=[memory.upload("x" * length)]), ANA)
        assert memory.data("SteerQueued")[-1]["text"] == text
    assert memory.refused(c.Submit("i", " ")).code == "blank"


@pytest.mark.rule("D3")
def test_a_steer_brings_its_files() -> None:
    memory = Memory()
    memory.start()
    file = memory.upload()
    memory.do(c.SendSteer("s", "left", loop=LOOP, files=[file]), BEN)
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    assert told(memory)[-1] == UserEntry(
        "[Message from Ben while you work]\nleft", True, (File(file, "plan.png", 3, "image/png"),)
    )


@pytest.mark.rule("B3", "B4")
def test_an_edited_message_keeps_its_files_when_it_is_folded_in() -> None:
    memory = Memory()
    memory.start()
    file = memory.upload()
    waiting = memory.submit("first", delivery="fold", files=[file])
    memory.do(c.EditInput(waiting, "second"), ANA)
    memory.plan("a")
    memory.call("a")
    memory.settle("a")
    memory.begin()
    assert told(memory)[-1] == UserEntry("second", files=(File(file, "plan.png", 3, "image/png"),))


@pytest.mark.rule("B4", "D8")
def test_a_message_takes_its_files_along_as_steer_as_message_and_back() -> None:
    memory = Memory()
    memory.start()
    file = memory.upload()
    waiting = memory.submit("words", files=[file])
    memory.do(c.EditInput(waiting, promote="normal", steer="s"), BEN)
    assert memory.data("InputCancelled")[-1]["files"] == memory.data("SteerQueued")[-1]["files"]
    memory.do(c.EditSteer("s", "other words"), ANA)
    memory.do(c.EditSteer("s", as_input=True, input="again"), ANA)
    assert memory.data("InputQueued")[-1]["files"] == described(memory, file)
    memory.do(c.RetractInput("again"), ANA)
    assert memory.data("InputCancelled")[-1] == {
        "input": "again", "reason": "client_retracted", "text": "other words", "files": described(memory, file),
    }  # fmt: skip
    assert memory.data("SteerWithdrawn")[-1]["files"] == described(memory, file)


@pytest.mark.rule("B9")
def test_another_try_has_the_same_files() -> None:
    memory = Memory()
    file = memory.upload()
    first = memory.submit("words", files=[file])
    memory.resume()
    memory.fail()
    memory.do(c.Retry(first, "again"), ANA)
    assert memory.data("InputQueued")[-1]["files"] == described(memory, file)
    memory.resume()
    assert [entry.files for entry in told(memory)] == [(File(file, "plan.png", 3, "image/png"),)]


@pytest.mark.rule("E12")
def test_what_a_stop_sends_may_have_files() -> None:
    memory = Memory()
    memory.start()
    error = memory.refused(c.Interrupt("r", then=c.Then("n", "this first", ["gone"])))
    assert error.code == "file_not_found", "and nothing was marked"
    file = memory.upload()
    memory.stop(BEN, then=c.Then("n", "", [file]))
    assert memory.data("InputQueued")[-1] == {
        "input": "n", "text": "plan.png", "agency": "human", "delivery": "queue", "position": 0,
        "files": described(memory, file), "request": memory.data("InterruptRequested")[0]["request"],
    }  # fmt: skip


@pytest.mark.rule("A2", "A3")
def test_an_erased_name_changes_no_state() -> None:
    memory = Memory()
    memory.submit("words", files=[memory.upload("secret.png")])
    assert memory.forgetful == memory.state
    memory.resume()
    memory.erase(memory.events("InputQueued")[0].seq)
    entry = told(memory)[0]
    assert (entry.text, [file.name for file in entry.files]) == ("[erased]", [None])
    assert "secret" not in repr(memory.log)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("plan.png", "plan.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ana\\plan.png", "plan.png"),
        ("<img src=x onerror=alert(1)>.png", "<img src=x onerror=alert(1)>.png"),
        ("a\x00b\n\u202egnp.exe", "a\ufffdbgnp.exe"),
        ("plans/OLD X/", "OLD X"),
        ("..", "file"),
        (".", "file"),
        ("  ", "file"),
        ("x" * 300 + ".png", "x" * 251 + ".png"),
        ("a.b" + "x" * 300 + ".png", "a.b" + "x" * 248 + ".png"),
        ("x" * 300 + "." + "e" * 30, "x" * 224 + "." + "e" * 30),
        ("x" * 300 + "." + "e" * 31, "x" * 255),
        ("a." + "e" * 300, "a." + "e" * 253),
        ("ünï 😀.png", "ünï 😀.png"),
    ],
)
def test_names_are_cleaned(given: str, name: str) -> None:
    assert cleaned_name(given) == name


@pytest.mark.parametrize(
    "name", ["../../x", "<img src=x>", "a b\nc", "-rf", ".bashrc", "ünï", None, "x" * 255 + ".png"]
)
def test_a_path_in_the_workspace_is_plain(name: str | None) -> None:
    path = File("0197", name, 1, "image/png").path
    folder, _, last = path.rpartition("/")
    assert folder == ".steerweb/uploads"
    assert last.startswith("0197-")
    assert len(last) < 200
    assert last.isascii()
    assert all(each.isalnum() or each in "._-" for each in last)


@pytest.mark.rule("G3", "D8")
def test_a_message_that_moves_twice_in_one_decision_keeps_its_files() -> None:
    memory = Memory()
    file = memory.upload()
    memory.start()
    memory.plan_delegates("d")
    memory.at = memory.delegate()
    task = memory.loop.inbox[0].id
    shown = memory.submit("look at this", files=[file])
    memory.do(c.RetractInput(task), ANA)
    memory.do(c.EditInput(shown, promote="urgent", steer="s"), ANA)
    (withdrawn,) = memory.data("SteerWithdrawn")
    assert (withdrawn["text"], withdrawn["files"]) == ("look at this", described(memory, file))
