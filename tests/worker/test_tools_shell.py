"""`shell`: what its model gets, what people see live, and how it ends."""

import asyncio
import dataclasses
import socket
import sys
from pathlib import Path

import pytest

from sessions_app.log.stream import LIVE_CHARS, LIVE_NOTE, clip
from sessions_app.worker.tools.base import ToolOutcome
from sessions_app.worker.tools.registry import run_tool
from sessions_app.worker.tools.transcript import HEAD_BYTES, TAIL_BYTES, Transcript
from sessions_app.worker.warden.shapes import Patience
from tests.support.stack import free_port
from tests.worker.wardens import ESCAPE, ESCAPED, alive, guarded, mark, new_token, tool_context, until


async def shell(folder: Path, command: str, **arguments: object) -> tuple[ToolOutcome, str]:
    """(outcome, live text) of one command."""
    emitted: list[str] = []
    async with guarded(folder) as ward:
        outcome = await run_tool("shell", {"command": command, **arguments}, tool_context(ward, emitted))
    return outcome, "".join(emitted)


@pytest.mark.rule("C4")
async def test_a_command_and_its_exit_code(tmp_path: Path) -> None:
    outcome, live = await shell(tmp_path, "pwd; echo $HOME; ls $TMPDIR; printf err >&2; exit 3")
    assert outcome == ToolOutcome("error", f"{tmp_path}\n{tmp_path}/home\nerr", exit=3)
    assert live == outcome.output
    outcome, _ = await shell(tmp_path, "printf done > made; cat made")
    assert outcome == ToolOutcome("ok", "done", exit=0)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D27")
async def test_nul_characters(tmp_path: Path) -> None:
    outcome, live = await shell(tmp_path, r"printf 'D\0i\0s\0k\0\nplain\n'")
    assert outcome.output == live == "D\ufffdi\ufffds\ufffdk\ufffd\nplain\n"
    assert (outcome.outcome, outcome.replaced) == ("ok", True)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D28")
async def test_bad_bytes_and_a_character_in_two_writes(tmp_path: Path) -> None:
    command = r"printf 'start\n\344\n\342\202'; sleep 0.3; printf '\254\n'; head -c 2048 /dev/urandom"
    command += r"; printf '\nend\n'; exit 7"
    outcome, live = await shell(tmp_path, command)
    assert outcome.output.startswith("start\n\ufffd\n€\n")
    assert outcome.output.endswith("\nend\n")
    assert outcome.output == live
    assert (outcome.outcome, outcome.exit, outcome.replaced) == ("error", 7, True)
    outcome.output.encode()


async def test_a_split_character_alone_replaces_nothing(tmp_path: Path) -> None:
    outcome, live = await shell(tmp_path, r"printf '\342\202'; sleep 0.2; printf '\254'")
    assert (outcome.output, live, outcome.replaced) == ("€", "€", False)


@pytest.mark.rule("E7")
@pytest.mark.scenario("D05", "D08")
async def test_a_stop_ends_the_tree_and_keeps_the_output_so_far(tmp_path: Path) -> None:
    token = new_token()
    emitted: list[str] = []
    async with guarded(tmp_path, patience=Patience(0.3)) as ward:
        context = tool_context(ward, emitted)
        command = f"echo line 1; {ESCAPE.format(token=token)}"
        running = asyncio.ensure_future(run_tool("shell", {"command": command}, context))
        await until(lambda: len(alive(token)) == ESCAPED and emitted, "the tree")
        context.stop.set()
        outcome = await running
        assert alive(token) == []
        assert (outcome.outcome, outcome.output, outcome.surviving) == ("interrupted", "line 1\n", [])
        assert len([process for process in outcome.ended if process.command.endswith(token)]) == ESCAPED


@pytest.mark.rule("E7")
@pytest.mark.scenario("D06")
async def test_a_stopped_server_gives_its_port_back(tmp_path: Path) -> None:
    port = free_port()
    command = f"sh -c 'setsid {sys.executable} -m http.server {port} --bind 127.0.0.1 & wait'"
    async with guarded(tmp_path) as ward:
        for _ in range(2):
            context = tool_context(ward)
            running = asyncio.ensure_future(run_tool("shell", {"command": command}, context))
            await until(lambda: _answers(port), "the server")
            context.stop.set()
            assert (await running).outcome == "interrupted"
            assert not _answers(port)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.rule("E6")
async def test_a_mark_that_the_warden_hears_first_interrupts_too(tmp_path: Path, database: str) -> None:
    async with guarded(tmp_path, database) as ward:
        emitted: list[str] = []
        context = tool_context(ward, emitted)
        running = asyncio.ensure_future(run_tool("shell", {"command": "echo on; sleep 1000"}, context))
        await until(lambda: emitted, "the first output")
        mark(database, ward.worker, context.turn)
        outcome = await running
        assert (outcome.outcome, outcome.output) == ("interrupted", "on\n")
        outcome = await run_tool("shell", {"command": "echo never"}, context)
        assert outcome.outcome == "interrupted"
        assert "nothing was run" in outcome.output


@pytest.mark.rule("C4")
async def test_a_command_that_ended_before_the_stop_is_ok(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        emitted: list[str] = []
        context = tool_context(ward, emitted)
        running = asyncio.ensure_future(run_tool("shell", {"command": f"sleep {token} & echo done"}, context))
        await until(lambda: emitted, "the output")
        await asyncio.sleep(0.05)
        context.stop.set()
        outcome = await running
        assert (outcome.outcome, outcome.exit, outcome.output) == ("ok", 0, "done\n")
        assert [process.command for process in outcome.ended] == [f"sleep {token}"]


@pytest.mark.rule("E6")
async def test_a_cancelled_turn_leaves_no_process(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        running = asyncio.ensure_future(run_tool("shell", {"command": f"sleep {token}"}, tool_context(ward)))
        await until(lambda: alive(token), "the sleep")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: alive(token) == [], "the end of the sleep")


async def test_a_time_limit(tmp_path: Path) -> None:
    outcome, _ = await shell(tmp_path, "echo some; sleep 1000", timeout_s=1)
    assert (outcome.outcome, outcome.exit) == ("error", None)
    assert outcome.output == "some\n[ended after its time limit of 1 s]"


async def test_a_signal_is_named(tmp_path: Path) -> None:
    outcome, _ = await shell(tmp_path, "kill -9 $$")
    assert (outcome.outcome, outcome.output) == ("error", "[ended by signal 9]")


async def test_a_very_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    outcome, live = await shell(tmp_path, "echo first; seq 1 400000; echo last")
    assert outcome.outcome == "ok"
    assert outcome.output.startswith("first\n1\n2\n")
    assert outcome.output.endswith("400000\nlast\n")
    assert " bytes left out …]\n" in outcome.output
    assert len(outcome.output) < HEAD_BYTES + TAIL_BYTES + 100
    assert len(live) == LIVE_CHARS + 1
    assert clip(live) == live[:LIVE_CHARS] + LIVE_NOTE


def test_what_is_left_out_is_cut_between_characters() -> None:
    transcript = Transcript(lambda text: None)
    whole = ("€" * 1000 + "\U0001f680" * 1000) * 30
    data = b"x" + whole.encode()
    for start in range(0, len(data), 997):
        transcript.add(data[start : start + 997])
    text, replaced = transcript.finish()
    assert not replaced
    assert "\ufffd" not in text
    head, note, tail = text.split("\n")
    assert ("x" + whole).startswith(head)
    assert whole.endswith(tail)
    left_out = int(note.split()[1].replace(",", ""))
    assert len(head.encode()) + left_out + len(tail.encode()) == len(data)


async def test_bad_arguments_come_back_in_words(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        context = tool_context(ward)
        cases: list[tuple[dict[str, object], str]] = [
            ({}, "`command` is missing"),
            ({"command": 5}, "`command` must be a string, not a number"),
            ({"command": "  "}, "`command` is empty"),
            ({"command": "ls", "timeout_s": 0}, "must be between 1 and"),
            ({"command": "ls", "timeout_s": "soon"}, "`timeout_s` must be an integer, not a string"),
            ({"command": "ls", "cwd": "/"}, 'no argument "cwd"; it has command, timeout_s'),
            ({"_invalid": "{"}, "not a JSON object"),
        ]
        for arguments, words in cases:
            outcome = await run_tool("shell", arguments, context)
            assert outcome.outcome == "error"
            assert words in outcome.output
        outcome = await run_tool("sell", {"command": "ls"}, context)
        assert (
            outcome.output
            == "there is no tool 'sell'; there are shell, read_file, search, write_file, edit_file, delegate"
        )


async def test_a_vanished_workspace_is_an_error_in_words(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        context = dataclasses.replace(tool_context(ward), workspace=tmp_path / "gone")
        outcome = await run_tool("shell", {"command": "ls"}, context)
        assert outcome.outcome == "error"
        assert "could not be started" in outcome.output
