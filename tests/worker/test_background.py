"""Background processes that a call declared (E13): they outlive their turn, and nothing else."""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

import psycopg
import pytest

from sessions_app.worker.background import BackgroundNews
from sessions_app.worker.background_log import LEFT_OUT, LOG_BYTES
from sessions_app.worker.tools.base import ToolContext, ToolOutcome
from sessions_app.worker.tools.registry import run_tool
from sessions_app.worker.warden.shapes import Patience
from tests.support.stack import free_port
from tests.support.waiting import stays_true
from tests.worker.wardens import (
    ESCAPE,
    ESCAPED,
    MODES,
    Ward,
    alive,
    guarded,
    mark,
    new_token,
    reports,
    tool_context,
    until,
)

SETTLE = "sessions_app.worker.tools.shell.BACKGROUND_SETTLE_S"


def order(database: str, ward: Ward, turn: str, *, ring: bool) -> None:
    """Ask for the end of a kept call, by the bell alone or by the row alone."""
    with psycopg.connect(database) as connection:
        if ring:
            payload = json.dumps({"calls": [[turn, "call_1"]]})
            connection.execute("SELECT pg_notify('steerweb_stop', %s)", (payload,))
        else:
            connection.execute(
                """INSERT INTO background_process (session, loop, turn, call, worker, started_at, kill_at)
                VALUES (%s, %s, %s, 'call_1', %s, now(), now())""",
                (uuid4(), uuid4(), turn, ward.worker),
            )


async def shell(context: ToolContext, command: str, **arguments: object) -> ToolOutcome:
    """A command that is declared to run in the background."""
    return await run_tool("shell", {"command": command, "background": True, **arguments}, context)


def logs(ward: Ward) -> list[Path]:
    """The files of background output, by name."""
    return sorted((ward.folder / "home" / "background").glob("*"))


# -- the tool


@pytest.mark.rule("E13")
async def test_a_server_runs_on_and_its_file_has_all_its_output(tmp_path: Path, database: str) -> None:
    port = free_port()
    async with guarded(tmp_path, database) as ward:
        emitted: list[str] = []
        context = tool_context(ward, emitted)
        server = f"{sys.executable} -u -m http.server {port} --bind 127.0.0.1"
        outcome = await shell(context, f"echo early; {server} & wait")
        [log] = logs(ward)
        assert (outcome.outcome, outcome.exit, outcome.ended, outcome.surviving) == ("ok", None, [], [])
        assert outcome.output.startswith("early\n")
        assert f"runs on in the background, its output goes to the file {log}, and it ends when" in outcome.output
        assert log == tmp_path / "home" / "background" / "call_1.log"
        assert any(server in process.command for process in outcome.background)
        assert all(Path(f"/proc/{process.pid}").exists() for process in outcome.background)

        mark(database, ward.worker, context.turn)
        await until(lambda: ward.marked == [context.turn], "the news of the mark")
        live = "".join(emitted)
        await until(lambda: _answers(port), "the server")
        await until(lambda: "GET /?late" in log.read_text(), "the later output")
        assert log.read_text().startswith("early\n")
        assert "".join(emitted) == live
        assert (ward.background.running(context.session), ward.news) == ([(context.turn, "call_1")], [])


def _answers(port: int) -> bool:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/?late", timeout=10) as answer:
        return bool(answer.status == 200)
    return False


@pytest.mark.rule("E13", "C4")
async def test_a_command_that_ends_at_once_has_an_ordinary_result(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        context = tool_context(ward)
        outcome = await shell(context, "echo no such port; exit 3")
        assert outcome == ToolOutcome("error", "no such port\n", exit=3)
        await until(lambda: logs(ward) == [], "the end of the file")
        assert (ward.background.running(context.session), ward.news) == ([], [])


@pytest.mark.rule("E13")
async def test_what_it_leaves_behind_does_not_run_on_without_its_command(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        outcome = await shell(tool_context(ward), f"(setsid sleep {token} &); echo started")
        assert (outcome.outcome, outcome.background, alive(token)) == ("ok", [], [])
        assert [process.command for process in outcome.ended] == [f"sleep {token}"]


@pytest.mark.rule("E13", "E6")
@pytest.mark.parametrize("heard_by", ["worker", "warden"])
async def test_a_stop_before_it_has_settled_ends_it(
    tmp_path: Path, database: str, heard_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTLE, 60.0)
    token = new_token()
    async with guarded(tmp_path, database, patience=Patience(0.3)) as ward:
        emitted: list[str] = []
        context = tool_context(ward, emitted)
        running = asyncio.ensure_future(shell(context, f"echo on; {ESCAPE.format(token=token)}"))
        await until(lambda: len(alive(token)) == ESCAPED and emitted, "the tree")
        if heard_by == "worker":
            context.stop.set()
        else:
            mark(database, ward.worker, context.turn)
        outcome = await running
        assert (outcome.outcome, outcome.output, outcome.background) == ("interrupted", "on\n", [])
        assert alive(token) == []
        assert (ward.background.running(context.session), ward.news) == ([], [])


@pytest.mark.rule("E13")
async def test_a_cancelled_turn_leaves_no_background_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTLE, 60.0)
    token = new_token()
    async with guarded(tmp_path) as ward:
        running = asyncio.ensure_future(shell(tool_context(ward), f"sleep {token}"))
        await until(lambda: alive(token), "the sleep")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: (alive(token), logs(ward)) == ([], []), "the end of the sleep and its file")


@pytest.mark.rule("E13")
async def test_its_own_end_is_told_once(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        context = tool_context(ward)
        outcome = await shell(context, "echo on; while [ ! -e go ]; do sleep 0.05; done; echo bye; exit 4")
        assert outcome.background != []
        assert ward.background.running(context.session) == [(context.turn, "call_1")]
        (tmp_path / "go").touch()
        await until(lambda: ward.news, "the news")
        await ward.background.end_all()
        ids = (context.session, context.loop, context.turn, "call_1")
        assert ward.news == [BackgroundNews(*ids, ended=[], surviving=[], code=4, signal=None, killed_by=None)]
        assert ward.background.running(context.session) == []
        [log] = logs(ward)
        await until(lambda: log.read_text() == "on\nbye\n", "all of the output")


@pytest.mark.rule("E13")
async def test_a_time_limit_counts_if_one_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(tmp_path) as ward:
        monkeypatch.setattr(SETTLE, 60.0)
        outcome = await shell(tool_context(ward), "sleep 1000", timeout_s=1)
        assert (outcome.outcome, outcome.output) == ("error", "[ended after its time limit of 1 s]")
        monkeypatch.setattr(SETTLE, 0.1)
        outcome = await shell(tool_context(ward), "sleep 1000", timeout_s=3)
        assert outcome.outcome == "ok"
        await until(lambda: ward.news, "the end")
        assert [news.killed_by for news in ward.news] == ["timeout"]


@pytest.mark.rule("E13")
async def test_an_order_by_name_ends_all_of_that_name_and_no_other(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        first, other = tool_context(ward), tool_context(ward)
        tokens = [new_token() for _ in range(3)]
        contexts = [first, first, other]
        await asyncio.gather(*(shell(each, f"sleep {token}") for each, token in zip(contexts, tokens, strict=True)))
        assert [log.name for log in logs(ward)] == ["call_1.log", "call_1_2.log", "call_1_3.log"]
        ward.background.kill(first.turn, "call_2")
        ward.background.kill(first.turn, "call_1")
        await until(lambda: len(ward.news) == 2, "both ends")
        assert [alive(token) != [] for token in tokens] == [False, False, True]
        assert ward.background.running(first.session) == []
        assert ward.background.running(other.session) == [(other.turn, "call_1")]
        await ward.background.end_all()
        assert [news.killed_by for news in ward.news] == ["stop"] * 3
        assert alive(tokens[2]) == []


@pytest.mark.rule("E13")
async def test_a_session_has_so_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.worker.tools.shell.MOST_IN_BACKGROUND", 2)
    async with guarded(tmp_path) as ward:
        context, other = tool_context(ward), tool_context(ward)
        token, unwanted = new_token(), new_token()
        await asyncio.gather(*(shell(context, f"sleep {token}") for _ in range(2)))
        refused = await shell(context, f"sleep {unwanted}")
        assert refused.outcome == "error"
        assert refused.output.startswith("2 commands of this session run in the background")
        assert alive(unwanted) == []
        assert (await shell(other, f"sleep {token}")).outcome == "ok"
        ward.background.kill(context.turn, "call_1")
        await until(lambda: len(ward.news) == 2, "both ends")
        assert (await shell(context, f"sleep {token}")).outcome == "ok"


@pytest.mark.rule("E13")
async def test_a_flood_is_bounded_on_disk(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        assert (await shell(tool_context(ward), "yes")).outcome == "ok"
        [log] = logs(ward)
        await until(lambda: log.stat().st_size == LOG_BYTES + len(LEFT_OUT), "a full file")
        assert (await ward.run("echo still served")).code == 0
        stays_true(lambda: log.stat().st_size == LOG_BYTES + len(LEFT_OUT), "the bound", 0.3)
        await ward.background.end_all()
        text = log.read_bytes()
        assert text.startswith(b"y\ny\n")
        assert text.endswith(b"y\n" + LEFT_OUT)


@pytest.mark.rule("E13", "C4")
@pytest.mark.parametrize("background", [True, False])
async def test_where_there_can_be_no_file_nothing_is_run(tmp_path: Path, background: bool) -> None:
    async with guarded(tmp_path) as ward:
        (tmp_path / "home").write_text("in the way")
        context = tool_context(ward)
        outcome = await run_tool("shell", {"command": "touch ran", "background": background}, context)
        assert outcome.outcome == "error"
        assert outcome.output.startswith("shell failed: ")
        assert not (tmp_path / "ran").exists()


# -- the warden


@pytest.mark.rule("E13", "E7")
@pytest.mark.parametrize("ring", [True, False], ids=["bell", "poll"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_kill_order_ends_the_whole_tree(
    tmp_path: Path, database: str, mode: str, ring: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEERWEB_ISOLATION", mode)
    token, other, turn = new_token(), new_token(), str(uuid4())
    async with guarded(tmp_path, database, patience=Patience(0.3), poll_s=0.2) as ward:
        call = await ward.sh(ESCAPE.format(token=token), turn=turn)
        neighbour = await ward.sh(f"sleep {other}")
        await until(lambda: len(alive(token)) == ESCAPED and alive(other), "both trees")
        running = await call.keep()
        assert running is not None
        assert len([process for process in running if process.command.endswith(token)]) == ESCAPED
        assert {process.pid for process in running} >= set(alive(token))
        assert await neighbour.keep() is not None
        order(database, ward, turn, ring=ring)
        end = await call.wait()
        assert (end.killed_by, end.surviving, alive(token)) == ("stop", [], [])
        assert len([process for process in end.ended if process.command.endswith(token)]) == ESCAPED
        assert len(alive(other)) == 1  # the same id in another turn
        assert (await neighbour.stop()).killed_by == "stop"


@pytest.mark.rule("E13")
async def test_an_order_for_a_call_that_nobody_kept_does_nothing(tmp_path: Path, database: str) -> None:
    token, turn, later = new_token(), str(uuid4()), str(uuid4())
    async with guarded(tmp_path, database) as ward:
        call = await ward.sh(f"sleep {token}", turn=turn)
        await until(lambda: alive(token), "the sleep")
        order(database, ward, turn, ring=True)
        mark(database, ward.worker, later)
        await until(lambda: ward.marked == [later], "the bell after it")
        stays_true(lambda: len(alive(token)) == 1, "the sleep", 0.3)
        assert (await call.stop()).killed_by == "stop"


@pytest.mark.rule("E13", "L5")
async def test_a_bell_that_cannot_be_read_does_not_make_the_next_one_deaf(tmp_path: Path, database: str) -> None:
    turn, other = str(uuid4()), str(uuid4())
    async with guarded(tmp_path, database, poll_s=60) as ward:
        mark(database, ward.worker, other)
        await until(lambda: ward.marked == [other], "that it listens")
        call = await ward.sh("sleep 1000", turn=turn)
        assert await call.keep() is not None
        payloads = ["", "[]", "5", '{"calls": 5}', '{"calls": ["ab", [1]]}', '{"turns": null, "calls": [[{}, null]]}']
        with psycopg.connect(database) as connection:
            for payload in payloads:
                connection.execute("SELECT pg_notify('steerweb_stop', %s)", (payload,))
        order(database, ward, turn, ring=True)
        assert (await call.wait()).killed_by == "stop"
        assert (ward.marked, ward.gone) == ([other], [])


@pytest.mark.rule("E13")
async def test_a_mark_that_came_first_wins(tmp_path: Path, database: str) -> None:
    turn = str(uuid4())
    async with guarded(tmp_path, database, patience=Patience(30)) as ward:
        call = await ward.sh(
            "trap 'echo asked; while [ ! -e go ]; do sleep 0.05; done; exit' TERM; sleep 1000 & wait", turn=turn
        )
        mark(database, ward.worker, turn)
        await until(lambda: "asked" in ward.text(), "the kill")
        keeping = asyncio.ensure_future(call.keep())
        await ward.run("true")  # what the warden was asked before this it has read
        assert not keeping.done()
        (tmp_path / "go").touch()
        assert await keeping is None
        assert (await call.wait()).killed_by == "stop"


@pytest.mark.rule("E13")
async def test_what_ended_by_itself_while_it_was_kept_is_not_called_ended(tmp_path: Path) -> None:
    passing, token = new_token(), new_token()
    async with guarded(tmp_path) as ward:
        call = await ward.sh(f"sh -c 'while [ ! -e go ]; do sleep 0.05; done' {passing}; sleep {token}")
        await until(lambda: alive(passing), "the first command")
        running = await call.keep()
        assert passing in str(running)
        (tmp_path / "go").touch()
        await until(lambda: alive(token), "the second command")
        end = await call.stop()
        assert not [process for process in end.ended if process.command.startswith("sh -c while")]
        assert f"sleep {token}" in [process.command for process in end.ended]


@pytest.mark.rule("E13")
async def test_a_call_that_has_ended_is_not_kept(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        call = await ward.sh("exit 5")
        await call.wait()
        assert await call.keep() is None
        assert (await call.wait()).code == 5


@pytest.mark.rule("E13", "J6")
async def test_a_lapsed_lease_ends_what_is_kept(tmp_path: Path, database: str) -> None:
    token, turn = new_token(), str(uuid4())
    async with guarded(tmp_path, database, lease_s=2, patience=Patience(0.3)) as ward:
        call = await ward.sh(f"sleep {token}", turn=turn)
        assert await call.keep() is not None
        end = await call.wait()
        assert (end.killed_by, alive(token)) == ("lapse", [])
        await until(lambda: len(reports(database, ward.worker)) == 2, "the reports")
        rows = [(row["turn"], row["reason"]) for row in reports(database, ward.worker)]
        assert rows == [(turn, "lease_lapsed"), (None, "lease_lapsed")]


@pytest.mark.rule("E13", "J6")
async def test_the_warden_s_end_ends_what_is_kept(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        context = tool_context(ward)
        assert (await shell(context, ESCAPE.format(token=token))).outcome == "ok"
        await until(lambda: len(alive(token)) == ESCAPED, "the tree")
        await ward.warden.aclose()
        assert alive(token) == []
        await until(lambda: ward.news, "the news")
        assert [(news.killed_by, news.surviving) for news in ward.news] == [("worker", [])]


@pytest.mark.rule("E13", "J6")
async def test_the_warden_s_death_ends_what_is_kept(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        context = tool_context(ward)
        assert (await shell(context, ESCAPE.format(token=token))).outcome == "ok"
        os.kill(ward.warden.pid, signal.SIGKILL)
        await until(lambda: ward.gone and not alive(token), "the end of the tree")
        await ward.background.end_all()
        assert (ward.background.running(context.session), ward.news) == ([], [])
