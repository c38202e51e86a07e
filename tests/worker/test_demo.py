"""The scripted agent `demo:`: a believable task on real files, steers and stops taken seriously, and no state."""

import asyncio
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from sessions_app.engine.transcript_types import AssistantEntry, Call, Entry, Outcome, ResultEntry, UserEntry
from sessions_app.worker.models.base import Reasoning, Reply, Request, Text
from sessions_app.worker.models.demo import WORDS_PER_S, DemoModel, Line, next_line
from sessions_app.worker.models.demo_script import END
from sessions_app.worker.models.registry import open_model

PAUSE_S = 0.001
TASK = UserEntry("Show me what you can do")
STOPPED = "[Your last turn was stopped by Ana before you had finished. Your unfinished reply stands above.]"
"""As `engine.transcript` words it."""


class Workspace:
    """Plays a turn as the worker would: the demonstration's calls really run, in a directory of the test's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.calls: list[Call] = []

    def say(self, *texts: str) -> None:
        self.entries += [UserEntry(text) for text in texts]

    def step(self) -> Line:
        """One reply and the settlement of its call, if it asks for one."""
        line = self.reply()
        if line.call is not None:
            self.settle(line.call, "ok", self._run(line.call))
        return line

    def reply(self) -> Line:
        line = next_line(tuple(self.entries), PAUSE_S)
        self.entries.append(AssistantEntry(line.say, () if line.call is None else (line.call,)))
        return line

    def settle(self, call: Call, outcome: Outcome, text: str = "") -> None:
        self.calls.append(call)
        self.entries.append(ResultEntry(call.id, call.tool, text, outcome))

    def turn(self, at_most: int = 12) -> list[Line]:
        """Steps until a reply without a call, which must be the end."""
        lines = [self.step()]
        while lines[-1].call is not None:
            assert len(lines) < at_most, [line.say for line in lines]
            lines.append(self.step())
        return lines

    def until(self, act: str) -> Line:
        """Steps until the reply that asks for this act, whose call is left unsettled."""
        for _ in range(12):
            line = self.reply()
            if line.call is not None and act_of(line.call) == act:
                return line
            assert line.call is not None, f"the demonstration ended before {act}"
            self.settle(line.call, "ok", self._run(line.call))
        raise AssertionError(f"{act} never came")

    def _run(self, call: Call) -> str:
        arguments = {name: str(value) for name, value in call.arguments.items()}
        if call.tool == "shell":
            done = subprocess.run(  # noqa: S602 - it is the shell tool
                arguments["command"], shell=True, cwd=self.path, capture_output=True, text=True, timeout=30, check=False
            )
            return f"{done.stdout}{done.stderr}\nexit {done.returncode}"
        file = self.path / arguments["path"]
        if call.tool == "edit_file":
            before = file.read_text()
            assert before.count(arguments["old_text"]) == 1
            file.write_text(before.replace(arguments["old_text"], arguments["new_text"]))
        else:
            assert call.tool == "write_file"
            file.write_text(arguments["content"])
        return "done"

    def result(self, act: str) -> str:
        """What the newest call of this act gave."""
        results = [entry for entry in self.entries if isinstance(entry, ResultEntry)]
        return next(entry.text for entry in reversed(results) if entry.call.startswith(f"demo_{act}_"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    space = Workspace(tmp_path)
    space.say(TASK.text)
    return space


def steer(sender: str, text: str) -> str:
    """As `engine.transcript` words it."""
    return f"[Message from {sender} while you work]\n{text}"


def act_of(call: Call) -> str:
    match = re.fullmatch(r"demo_([a-z]+)_\d+", call.id)
    assert match
    return match[1]


def acts(calls: Iterable[Call]) -> list[str]:
    return [act_of(call) for call in calls]


def test_the_first_sentence_says_what_it_is(workspace: Workspace) -> None:
    first = workspace.step().say.split(". ")[0]
    assert "scripted demonstration" in first
    assert "no language model" in first
    assert TASK.text in workspace.entries[1].text


def test_a_whole_turn_finds_its_bug_mends_it_and_proves_it(workspace: Workspace) -> None:
    lines = workspace.turn()
    assert acts(workspace.calls) == ["look", "write", "tests", "run", "fix", "again", "long"]
    assert "FAILED (failures=1)" in workspace.result("run")
    assert workspace.result("again").endswith("OK\n\nexit 0")
    assert "round 45 of 45" in workspace.result("long")
    assert lines[-1].say.endswith(END)
    assert "came to its end" in lines[-1].say


def test_it_takes_about_a_minute_and_a_half_at_reading_speed(workspace: Workspace) -> None:
    words = sum(len(f"{line.think} {line.say}".split()) for line in workspace.turn())
    assert 80 <= words / WORDS_PER_S + 45 <= 120
    asked = next(
        entry for entry in workspace.entries if isinstance(entry, AssistantEntry) and "endurance run:" in entry.text
    )
    real = next_line(tuple(workspace.entries[: workspace.entries.index(asked)]), 1.0)
    assert real.call is not None
    assert "time.sleep(1.000)" in str(real.call.arguments["command"])


@pytest.mark.rule("D3")
def test_a_steer_is_quoted_written_down_and_the_task_goes_on(workspace: Workspace) -> None:
    workspace.step()
    workspace.step()
    workspace.say(steer("Ana", "use the staging database"), steer("Ben", "and be\nquick"))
    line = workspace.step()
    assert "“Ana: use the staging database” and “Ben: and be quick”" in line.say
    assert (workspace.path / "NOTES.md").read_text().splitlines()[2:] == [
        "- Ana: use the staging database",
        "- Ben: and be quick",
    ]
    lines = workspace.turn()
    assert lines[0].say.startswith("Noted.")
    assert acts(workspace.calls) == ["look", "write", "note", "tests", "run", "fix", "again", "long"]
    workspace.say("And tell Kim")
    workspace.step()
    assert "- And tell Kim" in (workspace.path / "NOTES.md").read_text()
    assert "staging database" in (workspace.path / "NOTES.md").read_text()


def test_a_later_turn_takes_note_checks_and_ends(workspace: Workspace) -> None:
    workspace.turn()
    workspace.say("now something else")
    lines = workspace.turn()
    assert acts(workspace.calls)[-2:] == ["note", "check"]
    assert "Still the scripted demonstration" in lines[0].say
    assert "the check came to its end" in lines[-1].say
    workspace.say("and again")
    assert acts([line.call for line in workspace.turn() if line.call]) == ["note", "check"]


@pytest.mark.rule("C4")
@pytest.mark.parametrize(
    ("outcome", "admits"),
    [("interrupted", "was stopped before it was through"), ("lost", "was lost together with the worker")],
)
def test_a_stopped_command_is_not_passed_off_as_done(workspace: Workspace, outcome: Outcome, admits: str) -> None:
    line = workspace.until("long")
    assert line.call
    workspace.settle(line.call, outcome, "round 3 of 45")
    workspace.say(f"{STOPPED}\n\nwhat happened?")
    lines = workspace.turn()
    assert admits in lines[0].say
    assert "“what happened?”" in lines[0].say
    assert "long" not in acts([line.call for line in lines if line.call]), "a stopped command must not simply run again"
    assert "did not come to its end, so I claim nothing" in lines[-1].say


def test_a_stop_without_new_words_is_admitted_too(workspace: Workspace) -> None:
    line = workspace.until("long")
    assert line.call
    workspace.settle(line.call, "lost")
    assert "lost together with the worker" in workspace.reply().say


@pytest.mark.rule("D5")
def test_a_withdrawn_call_is_made_again_after_the_steer(workspace: Workspace) -> None:
    line = workspace.until("tests")
    assert line.call
    workspace.settle(line.call, "not_run")
    workspace.say("wait, listen")
    assert "withdrawn before it started" in workspace.step().say
    after = workspace.step()
    assert after.call
    assert act_of(after.call) == "tests"


def test_a_refused_call_is_left_out(workspace: Workspace) -> None:
    line = workspace.until("run")
    assert line.call
    workspace.settle(line.call, "denied")
    after = workspace.step()
    assert "did not allow" in after.say
    assert after.call
    assert act_of(after.call) == "fix"


def test_an_act_that_keeps_being_stopped_is_given_up(workspace: Workspace) -> None:
    for _ in range(2):
        line = workspace.until("run")
        assert line.call
        workspace.settle(line.call, "interrupted")
    after = workspace.step()
    assert after.call
    assert act_of(after.call) == "fix"


@pytest.mark.rule("C3")
def test_a_reply_that_was_cut_off_is_said_again(workspace: Workspace) -> None:
    """Nothing of a discarded step is in the conversation, so the demonstration stands where the log stands."""
    workspace.step()
    lost = next_line(tuple(workspace.entries), PAUSE_S)
    assert next_line(tuple(workspace.entries), PAUSE_S) == lost
    workspace.say(f"{STOPPED}\n\ngo on")
    told = workspace.step().say
    assert told.startswith(
        "I am told: Your last turn was stopped by Ana before you had finished. I have heard you: “go on”."
    )
    after = workspace.step()
    assert after.call
    assert after.call.arguments == (lost.call.arguments if lost.call else None)


def test_a_stop_before_the_first_reply_leaves_a_greeting(workspace: Workspace) -> None:
    workspace.say("second try")
    line = workspace.step()
    assert "“Show me what you can do” and “second try”" in line.say
    assert line.call
    assert act_of(line.call) == "look"


def test_ids_of_calls_are_never_used_twice(workspace: Workspace) -> None:
    workspace.turn()
    for words in ("one", "two"):
        workspace.say(words)
        workspace.turn()
    assert len({call.id for call in workspace.calls}) == len(workspace.calls)


async def test_the_stream_equals_the_reply_and_keeps_the_pace() -> None:
    request = Request("demo:", "", (TASK,))
    started = time.monotonic()
    pieces = [piece async for piece in DemoModel(speed=20).stream(request)]
    took_s = time.monotonic() - started
    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert "".join(p.text for p in pieces if isinstance(p, Text)) == reply.text
    assert "".join(p.text for p in pieces if isinstance(p, Reasoning)) == reply.reasoning
    assert reply.usage.estimated
    assert took_s >= (len(pieces) - 1) / (WORDS_PER_S * 20)
    again = [piece async for piece in DemoModel(speed=500).stream(request)]
    assert again[-1] == reply, "the same conversation always gets the same reply, but for the pace of its commands"


@pytest.mark.rule("E6")
async def test_a_cancelled_demonstration_falls_silent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERWEB_DEMO_SPEED", "0.01")
    begun = asyncio.Event()

    async def watch() -> None:
        async for _ in open_model("demo:").stream(Request("demo:", "", (TASK,))):
            begun.set()

    task = asyncio.create_task(watch())
    await begun.wait()
    stopped = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - stopped < 0.5


def test_a_long_word_of_a_person_is_quoted_in_part(workspace: Workspace) -> None:
    workspace.step()
    workspace.say("x" * 5000)
    assert len(workspace.step().say) < 400
    assert "x" * 5000 in (workspace.path / "NOTES.md").read_text()


def test_a_partial_reply_in_the_history_is_not_the_end(workspace: Workspace) -> None:
    """With `keep_partial_reply` a cut-off text stands in the history as an entry of its own."""
    line = workspace.until("tests")
    assert line.call
    workspace.entries[-1] = AssistantEntry("A program without [cut off here]")
    workspace.say("go on")
    workspace.step()
    after = workspace.step()
    assert after.call
    assert act_of(after.call) == "tests"
