"""A kill reaches everything a call started, whatever that does to get away (E7), and says truthfully what it did."""

import asyncio
import os
import signal
import time
from pathlib import Path
from uuid import uuid4

import pytest

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.census import _role, kill_marked
from sessions_app.worker.warden.shapes import Patience, SurvivorsNews
from tests.support.frost import frost
from tests.support.waiting import stays_true, wait_until
from tests.worker.wardens import ESCAPE, ESCAPED, MODES, alive, guarded, new_token, until


@pytest.fixture(params=MODES, autouse=True)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test here runs in each way of keeping processes together."""
    monkeypatch.setenv("STEERWEB_ISOLATION", request.param)
    return str(request.param)


@pytest.mark.rule("E7")
@pytest.mark.scenario("D05")
async def test_a_stop_ends_the_whole_tree(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path, patience=Patience(0.3)) as ward:
        call = await ward.sh(ESCAPE.format(token=token))
        wait_until(lambda: len(alive(token)) == ESCAPED, "all of the tree")
        end = await call.stop()
        assert alive(token) == []
        assert (end.killed_by, end.surviving) == ("stop", [])
        assert len([process for process in end.ended if process.command.endswith(token)]) == ESCAPED
        assert procfs.descendants(procfs.scan(), [ward.warden.pid]) == set()


@pytest.mark.rule("E7")
async def test_term_comes_first_and_is_enough_for_most(tmp_path: Path) -> None:
    async with guarded(tmp_path, patience=Patience(30)) as ward:
        call = await ward.sh("trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        await until(lambda: "ready" in ward.text(), "the start")
        began = time.monotonic()
        end = await call.stop()
        assert time.monotonic() - began < 20
        assert (end.code, end.killed_by) == (0, "stop")
        assert ward.text().endswith("tidied\n")


@pytest.mark.rule("E7")
async def test_a_stopped_process_hears_term_too(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path, patience=Patience(30)) as ward:
        call = await ward.sh(f"sleep {token}")
        wait_until(lambda: alive(token), "the sleep")
        os.kill(alive(token)[0], signal.SIGSTOP)
        began = time.monotonic()
        await call.stop()
        assert time.monotonic() - began < 20
        assert alive(token) == []


@pytest.mark.rule("C4")
async def test_a_command_that_had_ended_is_not_called_killed(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        # The command has ended, what it left behind has not: the kill that comes now ends only that.
        call = await ward.sh(f"sleep {token} & exit 5")
        wait_until(lambda: alive(token), "the sleep")
        await asyncio.sleep(0.1)
        end = await call.stop()
        assert (end.code, end.killed_by) == (5, None)
        assert [process.command for process in end.ended] == [f"sleep {token}"]


@pytest.mark.rule("E7")
@pytest.mark.parametrize(
    ("hop", "by"), [("", "stop"), ("setsid", "stop"), ("setsid", "sweep"), ("setsid", "warden's death")]
)
async def test_a_process_that_is_always_the_child_of_its_former_self(tmp_path: Path, hop: str, by: str) -> None:
    token = new_token()
    hops = tmp_path / "hops"
    (tmp_path / "chain.sh").write_text(f"echo >> hops; {hop} sh ./chain.sh {token} &\nexit 0\n")
    async with guarded(tmp_path, patience=Patience(0.2)) as ward:
        call = await ward.sh(f"sh ./chain.sh {token}; exec sleep {token}")
        await until(lambda: hops.exists() and hops.stat().st_size > 20, "the chain")
        if by == "stop":
            assert (await call.stop()).surviving == []
        elif by == "sweep":
            assert (await asyncio.to_thread(kill_marked, ward.worker)).surviving == ()
        else:
            os.kill(ward.warden.pid, signal.SIGKILL)
            await until(lambda: _of(ward.worker) == [], "the end of the reaper")
        length = hops.stat().st_size
        stays_true(lambda: hops.stat().st_size == length, "the end of the chain", 0.5)
        assert (alive(token), _of(ward.worker)) == ([], [])


@pytest.mark.rule("E7")
async def test_killing_the_reaper_is_no_way_out(tmp_path: Path, mode: str) -> None:
    if mode != "marker":
        pytest.skip("a tool cannot reach its reaper from inside a namespace")
    token = new_token()
    async with guarded(tmp_path, patience=Patience(0.3)) as ward:
        tree = ESCAPE.format(token=token).replace("wait\n", f"kill -9 $PPID; exec sleep {token}\n")
        end = await ward.run(tree)
        assert alive(token) == []
        assert end.surviving == []
        assert procfs.descendants(procfs.scan(), [ward.warden.pid]) == set()


@pytest.mark.rule("E7")
async def test_stopping_the_reaper_is_no_way_out(tmp_path: Path, mode: str) -> None:
    if mode != "marker":
        pytest.skip("a tool cannot reach its reaper from inside a namespace")
    token = new_token()
    async with guarded(tmp_path, patience=Patience(0.3)) as ward:
        call = await ward.sh(f"sleep 0.2; kill -STOP $PPID; exec sleep {token}")
        wait_until(lambda: alive(token), "the sleep")
        end = await call.stop()
        assert (alive(token), end.surviving) == ([], [])


@pytest.mark.rule("E7")
async def test_a_root_that_is_killed_from_outside_takes_its_tree_along(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path, patience=Patience(0.3)) as ward:
        call = await ward.sh(ESCAPE.format(token=token))
        wait_until(lambda: len(alive(token)) == ESCAPED, "all of the tree")
        os.kill(call.pid, signal.SIGKILL)
        end = await call.wait()
        assert (end.signal, end.surviving, alive(token)) == (signal.SIGKILL, [], [])


@pytest.mark.rule("J6")
async def test_no_tool_outlives_its_warden(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path) as ward:
        call = await ward.sh(ESCAPE.format(token=token))
        wait_until(lambda: len(alive(token)) == ESCAPED, "all of the tree")
        os.kill(ward.warden.pid, signal.SIGKILL)
        wait_until(lambda: alive(token) == [], "the end of the tree")
        with pytest.raises(OSError, match="gone"):
            await call.wait()
        assert ward.gone == ["ended"]


@pytest.mark.rule("E7")
async def test_an_endless_flood_is_bounded_and_ends_at_once(tmp_path: Path) -> None:
    async with guarded(tmp_path) as ward:
        received: list[int] = []
        ward.on_output = lambda data: received.append(len(data))
        call = await ward.start("yes")
        before = _rss(ward.warden.pid)
        await until(lambda: sum(received) > 20_000_000, "20 MB")
        # The worker's loop stands still, so nothing is taken: the pipe fills, the warden does not.
        stays_true(lambda: _rss(ward.warden.pid) < before + 8_000_000, "a small warden", 1)
        began = time.monotonic()
        end = await call.stop()
        assert time.monotonic() - began < 5
        assert (end.killed_by, end.surviving) == ("stop", [])


@pytest.mark.rule("E9", "J6")
async def test_everything_of_a_worker_can_be_killed_from_anywhere(tmp_path: Path) -> None:
    token, other = new_token(), new_token()
    async with guarded(tmp_path) as ward, guarded(tmp_path) as neighbour:
        call = await ward.sh(ESCAPE.format(token=token))
        theirs = await neighbour.sh(f"sleep {other}")
        wait_until(lambda: len(alive(token)) == ESCAPED and alive(other), "both trees")
        os.kill(ward.warden.pid, signal.SIGSTOP)
        killed = await asyncio.to_thread(kill_marked, ward.worker)
        os.kill(ward.warden.pid, signal.SIGCONT)
        assert alive(token) == []
        assert killed.surviving == ()
        assert len([process for process in killed.ended if process.command.endswith(token)]) == ESCAPED
        assert not [process for process in killed.ended if "init.py" in process.command]
        assert len(alive(other)) == 1
        end = await call.wait()
        assert end.signal == signal.SIGKILL
        assert (await asyncio.to_thread(kill_marked, ward.worker)).ended == ()
        await theirs.stop()


@pytest.mark.rule("E9")
async def test_one_turn_of_a_worker_can_be_killed_alone(tmp_path: Path) -> None:
    token, other, turn = new_token(), new_token(), str(uuid4())
    async with guarded(tmp_path) as ward:
        call = await ward.sh(f"setsid sleep {token} & wait", turn=turn)
        bystander = await ward.sh(f"sleep {other}")
        await until(lambda: alive(token) and alive(other), "both sleeps")
        killed = await asyncio.to_thread(kill_marked, ward.worker, turn)
        assert (alive(token), killed.surviving) == ([], ())
        assert len(alive(other)) == 1
        assert (await call.wait()).signal == signal.SIGKILL
        await bystander.stop()


@pytest.mark.rule("E7")
async def test_a_survivor_is_named_and_its_later_end_too(tmp_path: Path) -> None:
    token = new_token()
    async with guarded(tmp_path, patience=Patience(0.2)) as ward:
        call = await ward.sh(f"sleep {token} & wait")
        wait_until(lambda: alive(token), "the sleep")
        [pid] = alive(token)
        with frost(pid) as thaw:
            end = await call.stop()
            assert [(process.pid, process.command) for process in end.surviving] == [(pid, f"sleep {token}")]
            assert pid not in [process.pid for process in end.ended]
            assert ward.survivors_ended == []
            thaw()
            await until(lambda: ward.survivors_ended, "the news of the survivor's end")
        [news] = ward.survivors_ended
        [spec] = ward.specs
        assert news == SurvivorsNews(spec.session, spec.loop, spec.turn, "call_1", end.surviving)
        assert alive(token) == []


@pytest.mark.rule("E7")
async def test_a_dying_first_process_of_a_namespace_is_no_tools_process(tmp_path: Path, mode: str) -> None:
    if mode == "marker":
        pytest.skip("no namespace in this mode")
    token = new_token()
    async with guarded(tmp_path) as ward:
        call = await ward.sh(f"sleep {token} & wait")
        wait_until(lambda: alive(token), "the sleep")
        [pid] = alive(token)
        [first] = [each for each in _of(ward.worker) if procfs.begins_namespace(each)]
        assert not procfs.begins_namespace(pid)
        with frost(pid):
            os.kill(ward.warden.pid, signal.SIGSTOP)
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: not procfs.environment(first), "its dying")
            assert _role(first, procfs.environment(first)) == b"namespace"
            killed = await asyncio.to_thread(kill_marked, ward.worker, for_s=0.1)
            assert [process.pid for process in killed.surviving] == [pid]
            os.kill(ward.warden.pid, signal.SIGCONT)
        await call.wait()


def _of(worker: str) -> list[int]:
    """The living processes that carry a worker's marker."""
    entry = f"STEERWEB_WORKER={worker}".encode()
    return [pid for pid, stat in procfs.scan().items() if stat.alive and entry in procfs.environment(pid)]


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
