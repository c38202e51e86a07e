"""The warden acts on its own authority: for marks it hears of, a dead or frozen worker, and a lease that ran out."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.shapes import Patience, TurnMarkedError, WardenError
from tests.support import services
from tests.support.waiting import wait_until
from tests.worker.wardens import ESCAPE, ESCAPED, MODES, alive, guarded, mark, new_token, reports, until


@pytest.mark.rule("E6", "E11")
@pytest.mark.parametrize("mode", MODES)
async def test_a_mark_kills_and_is_reported(
    tmp_path: Path, database: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEERWEB_ISOLATION", mode)
    token, other, turn = new_token(), new_token(), str(uuid4())
    async with guarded(tmp_path, database, patience=Patience(0.3)) as ward:
        call = await ward.sh(f"printf 'so far\\000'; {ESCAPE.format(token=token)}", turn=turn)
        bystander = await ward.sh(f"sleep {other}")
        await until(lambda: len(alive(token)) == ESCAPED and alive(other), "both trees")
        mark(database, ward.worker, turn)
        end = await call.wait()
        assert (end.killed_by, end.surviving) == ("stop", [])
        assert alive(token) == []
        assert len(alive(other)) == 1
        assert ward.marked == [turn]
        await until(lambda: reports(database, ward.worker), "the report")
        [row] = reports(database, ward.worker)
        assert (row["turn"], row["call"], row["epoch"], row["reason"]) == (turn, "call_1", 1, "mark")
        assert row["processes"] == {"ended": [process.to_json() for process in end.ended], "surviving": []}
        assert row["output"] == "so far\ufffd"
        await bystander.stop()


@pytest.mark.rule("E2")
async def test_a_marked_turn_starts_no_call(tmp_path: Path, database: str) -> None:
    turn = str(uuid4())
    async with guarded(tmp_path, database) as ward:
        mark(database, ward.worker, turn)
        await until(lambda: ward.marked == [turn], "the news of the mark")
        with pytest.raises(TurnMarkedError):
            await ward.run("echo never", turn=turn)
        assert ward.text() == ""
        assert (await ward.run("true")).code == 0


@pytest.mark.rule("L5", "E11")
async def test_a_missed_bell_is_made_up_for_by_the_poll(tmp_path: Path, database: str) -> None:
    turn, token = str(uuid4()), new_token()
    async with guarded(tmp_path, database) as ward:
        call = await ward.sh(f"sleep {token}", turn=turn)
        began = time.monotonic()
        mark(database, ward.worker, turn, ring=False)
        assert (await call.wait()).killed_by == "stop"
        assert time.monotonic() - began < 10


@pytest.mark.rule("E6")
async def test_a_turn_without_a_call_is_told_of_too_and_once(tmp_path: Path, database: str) -> None:
    turn, stranger = str(uuid4()), str(uuid4())
    async with guarded(tmp_path, database, poll_s=0.05) as ward:
        mark(database, ward.worker, turn)
        mark(database, str(uuid4()), stranger, ring=False)
        await until(lambda: ward.marked, "the news of the mark")
        await asyncio.sleep(0.3)
        assert ward.marked == [turn]
        assert reports(database, ward.worker) == []


@pytest.mark.rule("E11")
async def test_a_bell_is_heard_while_the_worker_is_busy_and_a_tool_floods(tmp_path: Path, database: str) -> None:
    turn = str(uuid4())
    async with guarded(tmp_path, database) as ward:
        call = await ward.start("yes", turn=turn)
        await until(lambda: len(ward.output) > 3_000_000, "the flood")
        pid = procfs.first_child(call.pid) or call.pid
        # From here on the worker's loop does not turn: nobody reads, nobody is asked.
        mark(database, ward.worker, turn)
        wait_until(lambda: procfs.read_stat(pid) is None, "the end of the flood")
        assert (await call.wait()).killed_by == "stop"


@pytest.mark.rule("E11", "L5")
async def test_postgresql_may_go_and_come_back(tmp_path: Path, database: str) -> None:
    server = services.postgres()
    turn, later, token = str(uuid4()), str(uuid4()), new_token()
    async with guarded(tmp_path, database) as ward:
        call = await ward.sh(f"sleep {token}", turn=turn)
        await until(lambda: alive(token), "the sleep")
        # In this thread: the server's life is bound to the thread that starts it.
        server.stop()
        try:
            assert (await ward.run("echo still served")).code == 0
            assert ward.text() == "still served\n"
        finally:
            server.start()
        mark(database, ward.worker, turn, ring=False)
        assert (await call.wait()).killed_by == "stop"
        call = await ward.sh(f"sleep {token}", turn=later)
        mark(database, ward.worker, later)
        assert (await call.wait()).killed_by == "stop"
        assert ward.marked == [turn, later]
        assert ward.gone == []


@pytest.mark.rule("J6", "A7")
async def test_a_lease_that_is_not_renewed_lapses(tmp_path: Path, database: str) -> None:
    token, turn = new_token(), str(uuid4())
    async with guarded(tmp_path, database, lease_s=4, patience=Patience(0.3)) as ward:
        began = time.monotonic()
        call = await ward.sh(f"sleep {token}", turn=turn)
        while time.monotonic() - began < 5:
            await asyncio.sleep(0.2)
            ward.warden.renew()
        renewed = time.monotonic()
        end = await call.wait()
        assert (end.killed_by, alive(token)) == ("lapse", [])
        # Dead before the lease is over, and not long before.
        assert 3 < time.monotonic() - renewed < 4
        await until(lambda: ward.gone, "the news of the lapse")
        with pytest.raises(WardenError):
            await ward.run("true")
        await until(lambda: len(reports(database, ward.worker)) == 2, "the reports")
        assert [(row["turn"], row["reason"]) for row in reports(database, ward.worker)] == [
            (turn, "lease_lapsed"),
            (None, "lease_lapsed"),
        ]
        await until(lambda: procfs.read_stat(ward.warden.pid) is None, "the warden's end")
        assert ward.gone == ["lapsed"]


@pytest.mark.rule("A7")
async def test_a_renewal_counts_from_when_it_was_asked_for(tmp_path: Path) -> None:
    async with guarded(tmp_path, lease_s=2, patience=Patience(0.3)) as ward:
        began = time.monotonic()
        while not ward.gone and time.monotonic() - began < 5:
            # A heartbeat whose database answers ever later: the lease it renewed is the old one.
            ward.warden.renew(began)
            await asyncio.sleep(0.05)
        assert ward.gone == ["lapsed"]
        assert time.monotonic() - began < 4


@pytest.mark.rule("J6")
async def test_a_warden_that_answers_nothing_is_ended_with_its_tools(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path, lease_s=1) as ward:
        await ward.sh(f"sleep {token}")
        os.kill(ward.warden.pid, signal.SIGSTOP)
        for _ in range(100):
            if ward.gone:
                break
            ward.warden.renew()
            await asyncio.sleep(0.05)
        assert ward.gone == ["unresponsive"]
        await until(lambda: alive(token) == [], "the end of the sleep")


@pytest.mark.rule("J6")
async def test_a_warden_that_was_frozen_itself_starts_nothing_afterwards(tmp_path: Path) -> None:
    async with guarded(tmp_path, lease_s=1, patience=Patience(0.1)) as ward:
        os.kill(ward.warden.pid, signal.SIGSTOP)
        start = asyncio.ensure_future(ward.run(f"touch {tmp_path}/late"))
        await asyncio.sleep(1.2)
        os.kill(ward.warden.pid, signal.SIGCONT)
        with pytest.raises(WardenError):
            await start
        assert not (tmp_path / "late").exists()


@dataclass
class Worker:
    """A worker process with a call that tries to get away."""

    process: "subprocess.Popen[str]"
    id: str
    turn: str
    token: str
    warden: int


@contextmanager
def working(folder: Path, database: str, lease_s: float) -> Iterator[Worker]:
    """A worker of its own process, its call running."""
    worker, turn, token = str(uuid4()), str(uuid4()), new_token()
    command = "echo begun; " + ESCAPE.format(token=token)
    argv = [worker, database, str(folder), turn, str(lease_s), command]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.worker.warden_worker", *argv],
        cwd=services.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        word, pid = process.stdout.readline().split()
        assert word == "ready"
        wait_until(lambda: len(alive(token)) == ESCAPED, "the call's tree")
        yield Worker(process, worker, turn, token, int(pid))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.rule("J6", "J2")
@pytest.mark.parametrize("mode", MODES)
def test_tools_die_with_their_worker(tmp_path: Path, database: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERWEB_ISOLATION", mode)
    with working(tmp_path, database, 30) as worker:
        worker.process.kill()
        wait_until(lambda: alive(worker.token) == [], "the end of the tools")
        wait_until(lambda: len(reports(database, worker.id)) == 2, "the reports")
        about_call, about_worker = reports(database, worker.id)
        assert (about_call["turn"], about_call["epoch"], about_call["reason"]) == (worker.turn, 3, "worker_died")
        assert about_call["output"] == "begun\n"
        assert len(about_call["processes"]["ended"]) >= ESCAPED
        assert about_call["processes"]["surviving"] == []
        assert (about_worker["turn"], about_worker["call"]) == (None, "")
        wait_until(lambda: procfs.read_stat(worker.warden) is None, "the warden's end")


@pytest.mark.rule("J6", "J2")
def test_tools_die_while_their_worker_is_frozen(tmp_path: Path, database: str) -> None:
    with working(tmp_path, database, 4) as worker:
        worker.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: alive(worker.token) == [], "the end of the tools")
        assert time.monotonic() - began < 5
        wait_until(lambda: len(reports(database, worker.id)) == 2, "the reports")
        assert {row["reason"] for row in reports(database, worker.id)} == {"lease_lapsed"}
        worker.process.send_signal(signal.SIGCONT)
        assert worker.process.stdout is not None
        assert worker.process.stdout.readline() == "gone lapsed\n"


@pytest.mark.rule("J6")
def test_a_report_waits_for_the_database(tmp_path: Path, database: str) -> None:
    server = services.postgres()
    with working(tmp_path, database, 30) as worker:
        server.stop()
        try:
            worker.process.kill()
            wait_until(lambda: alive(worker.token) == [], "the end of the tools")
            assert procfs.read_stat(worker.warden) is not None
        finally:
            server.start()
        wait_until(lambda: len(reports(database, worker.id)) == 2, "the reports")
        wait_until(lambda: procfs.read_stat(worker.warden) is None, "the warden's end")


@pytest.mark.rule("J6")
def test_a_terminal_s_interrupt_and_a_polite_kill_do_not_end_the_warden(tmp_path: Path, database: str) -> None:
    with working(tmp_path, database, 30) as worker:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(worker.warden, number)
        turn = str(uuid4())
        mark(database, worker.id, turn)
        mark(database, worker.id, worker.turn)
        wait_until(lambda: alive(worker.token) == [], "the end of the tools")
        assert procfs.read_stat(worker.warden) is not None
