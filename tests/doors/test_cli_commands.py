"""The terminal's commands against a real web process; the test plays the worker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from django.core.management import ManagementUtility

from sessions_app import control
from sessions_app.engine.files import FILE_BYTES
from sessions_app.ids import new_id
from steerweb import runtime
from tests.conftest import MakeStack
from tests.doors.callers import token_of
from tests.support.services import REPOSITORY
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from tests.support.world import World


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


def run(*arguments: str, **environment: str) -> Done:
    """One command as a process of its own, without any database it could reach."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("STEERWEB_", "REDIS_"))}
    env |= {"DATABASE_URL": "postgresql://nobody@/none?host=/nonexistent", **environment}
    command = [sys.executable, "-m", "steerweb", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def steerweb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in this process: starting one of its own takes a second."""

    def in_process(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(stdin.encode())))
        capsys.readouterr()
        exit_code = 0
        try:
            ManagementUtility(["steerweb", *arguments]).execute()
        except SystemExit as ended:
            exit_code = int(ended.code or 0)
        printed = capsys.readouterr()
        return Done(exit_code, printed.out, printed.err)

    return in_process


@pytest.fixture
def ana(web: Stack, steerweb: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands as Ana."""
    monkeypatch.setenv("STEERWEB_URL", web.url)
    monkeypatch.setenv("STEERWEB_TOKEN", token_of("ana"))
    return steerweb


def test_a_session_is_made_used_and_listed(ana: Run) -> None:
    made = ana("new", "--model", "demo:", "--title", "Build")
    assert (made.exit_code, made.err) == (0, "")
    session = made.out.strip()
    sent = ana("send", session, "list", "the", "files")
    assert sent.exit_code == 0
    assert sent.out.startswith("Queued; it is the next.")
    piped = ana("send", session, "-", "--json", stdin="from a pipe\n")
    assert piped.json["position"] == 1
    steered = ana("steer", session, "and be brief", "--urgent")
    assert steered.out.startswith("Accepted; it lands with the next turn; nothing is running.")
    listed = ana("ls")
    assert session in listed.out
    assert "Build" in listed.out
    history = ana("history", session)
    assert (history.exit_code, history.out) == (0, "No interruptions.\n")
    seen = ana("watch", session, "--once")
    assert seen.exit_code == 0
    assert seen.out.splitlines()[0] == "Build"
    assert "list the files" in seen.out
    assert "from a pipe" in seen.out
    assert "and be brief" in seen.out


def test_files_go_along(ana: Run, tmp_path: Path) -> None:
    world = World.create("ana")
    (tmp_path / "plan.txt").write_text("words")
    sent = ana("send", world.session, "look", "--file", str(tmp_path / "plan.txt"))
    assert sent.out.startswith("Queued")
    assert ana("steer", world.session, "--file", str(tmp_path / "plan.txt")).exit_code == 0
    assert [event.data["files"][0]["name"] for event in world.events("InputQueued", "SteerQueued")] == ["plan.txt"] * 2
    assert world.events("SteerQueued")[0].data["text"] == "plan.txt"
    assert "· with plan.txt, 5 bytes" in ana("watch", world.session, "--once").out
    missing = ana("send", world.session, "look", "--file", str(tmp_path / "none"))
    assert (missing.exit_code, "cannot be read" in missing.err) == (2, True)
    assert ana("send", world.session).exit_code == 2


def test_what_cannot_be_sent_is_not_read(ana: Run, tmp_path: Path) -> None:
    world = World.create("ana")
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(FILE_BYTES + 1)
    os.mkfifo(tmp_path / "pipe")
    for path, words in [
        (str(large), "has 10,000,001 bytes; at most 10,000,000 can be sent"),
        ("/dev/zero", "it is no ordinary file"),
        (str(tmp_path / "pipe"), "it is no ordinary file"),
        (str(tmp_path), "it is no ordinary file"),
    ]:
        refused = ana("send", world.session, "look", "--file", path)
        assert (refused.exit_code, refused.out) == (2, "")
        assert f"{path} " in refused.err and words in refused.err
    assert world.events("InputQueued") == []


def test_watch_names_the_agents_also_from_the_middle(ana: Run) -> None:
    world = World.create("ana")
    world.start("compare the folders")
    (child,) = world.delegate("read the first folder")
    assert child.claim()
    child.begin()
    begun = world.events()[-1].seq
    child.answer("It is empty.")
    told = ["── sub-agent “read the first folder”", "It is empty."]
    settled = "[sub-agent “read the first folder”: ok"
    whole = ana("watch", world.session, "--once").out
    assert [whole.count(words) for words in (*told, settled)] == [1, 1, 1]
    later = ana("watch", world.session, "--once", "--after", str(begun)).out.splitlines()
    assert later[1:3] == told
    assert later[4] == "── main agent"
    assert later[5].startswith(settled)


@pytest.mark.rule("E3", "E4")
def test_a_stop_says_what_came_of_it_and_exits_by_it(ana: Run, web: Stack) -> None:
    world = World.create("ana")
    idle = ana("stop", world.session)
    assert (idle.exit_code, idle.out) == (0, "Nothing was running.\n")
    world.start()
    as_ana = {"STEERWEB_URL": web.url, "STEERWEB_TOKEN": token_of("ana")}
    with ThreadPoolExecutor(max_workers=1) as pool:
        stop = pool.submit(run, "stop", world.session, "--reason", "wrong branch", **as_ana)
        wait_until(lambda: world.events("InterruptRequested"), "the mark")
        world.end()
        done = stop.result()
    assert (done.exit_code, done.out, done.err) == (0, "Stopped.\n", "")
    device = world.events("TurnInterrupted")[0].actor.device
    assert device is not None and device.kind == "cli"
    world.start("and on")
    late = ana("stop", world.session, "--wait", "0.1")
    assert (late.exit_code, late.out) == (4, "")
    assert late.err == "steerweb: The stop goes on; it had not ended in time.\n"
    history = ana("history", world.session)
    assert "wrong branch" in history.out
    assert "ana" in history.out
    refused = ana("stop", new_id())
    assert refused.exit_code == 1
    assert refused.err.startswith("steerweb: There is no such session")


@pytest.mark.rule("M")
def test_refusals_are_one_sentence_and_json_when_asked(ana: Run) -> None:
    world = World.create("ana")
    blank = ana("send", world.session, " ")
    assert (blank.exit_code, blank.err) == (1, "steerweb: The message is empty.\n")
    as_json = ana("steer", world.session, "hi", "--turn", new_id(), "--json")
    assert as_json.exit_code == 1
    assert as_json.json["code"] == "turn_mismatch"


@pytest.mark.rule("L1", "L2")
def test_watch_follows_live_and_ends_with_the_session(web: Stack) -> None:
    world, token = World.create("ana"), token_of("ana")
    env = {**os.environ, "STEERWEB_URL": web.url, "STEERWEB_TOKEN": token, "PYTHONUNBUFFERED": "1"}
    watch = subprocess.Popen(
        [sys.executable, "-m", "steerweb", "watch", world.session, "--json"],
        cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdout is not None
    try:
        frames = iter(watch.stdout)
        assert json.loads(next(frames))["t"] == "hello"
        world.start("go \x9b2J")
        world.answer("done")
        control.close(world.owner, world.session, new_id())
        lines = list(frames)
        assert all(line.isascii() for line in lines), "a terminal would take U+009B as an order"
        events = [frame for line in lines if (frame := json.loads(line))["t"] == "event"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["type"] == "SessionClosed"
        assert watch.wait(10) == 0
    finally:
        watch.kill()
        watch.wait()


@pytest.mark.rule("L1")
def test_watch_resumes_after_the_server_was_away(make_stack: MakeStack) -> None:
    web = make_stack(webs=1, workers=0)
    world, token = World.create("ana"), token_of("ana")
    env = {**os.environ, "STEERWEB_URL": web.url, "STEERWEB_TOKEN": token, "PYTHONUNBUFFERED": "1"}
    watch = subprocess.Popen(
        [sys.executable, "-m", "steerweb", "watch", world.session],
        cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdout is not None
    assert watch.stderr is not None
    try:
        assert next(iter(watch.stdout)) == "A test\n"
        web.web.stop(signal.SIGKILL, 10)
        assert "trying again" in next(iter(watch.stderr))
        world.submit("while it was away")
        web.web.start()
        web.wait_web()
        control.close(world.owner, world.session, new_id())
        rest = watch.stdout.read()
        assert rest.count("while it was away") == 2  # said once, given back once with the closed session
        assert watch.wait(10) == 0
    finally:
        watch.kill()
        watch.wait()


def test_watch_says_why_it_may_not(ana: Run) -> None:
    stranger = World.create("ben")
    answer = ana("watch", stranger.session)
    assert answer.exit_code == 1
    assert answer.err.startswith("steerweb: There is no such session")


@pytest.mark.rule("A5")
def test_a_dead_token_is_told(web: Stack, steerweb: Run) -> None:
    answer = steerweb("ls", "--url", web.url, "--token", "sw_" + "x" * 43)
    assert (answer.exit_code, answer.err) == (1, "steerweb: The token is not valid (any more).\n")


def test_what_is_missing_is_said_in_one_sentence(
    steerweb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEERWEB_DATA", str(tmp_path))
    no_server = steerweb("ls")
    assert no_server.exit_code == 2
    assert no_server.err.startswith(f"steerweb: No steerweb runs on {tmp_path}: start one with `steerweb up`")
    no_token = steerweb("ls", "--url", "http://127.0.0.1:9")
    assert no_token.exit_code == 2
    assert no_token.err.startswith("steerweb: No token: make one with `steerweb token create")
    silent = steerweb("ls", "--url", "http://127.0.0.1:9", "--token", "sw_x")
    assert silent.exit_code == 3
    assert silent.err.startswith("steerweb: http://127.0.0.1:9 cannot be reached:")
    assert silent.err.count("\n") == 1
    no_address = steerweb("ls", "--url", "example", "--token", "sw_x")
    assert no_address.err == "steerweb: 'example' is not an address like http://127.0.0.1:8000.\n"


def test_the_address_comes_from_the_record_of_a_running_up(
    steerweb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEERWEB_DATA", str(tmp_path))
    started = runtime.process_started(os.getpid())
    assert started is not None
    record = runtime.Record("http://lan:9", "http://127.0.0.1:9", "", "", "key", "instance", os.getpid(), started)
    runtime.write_record(record, tmp_path)
    answer = steerweb("ls", "--token", "sw_x")
    assert answer.err.startswith("steerweb: http://127.0.0.1:9 cannot be reached:")


@pytest.mark.parametrize("arguments", [("send", "not-a-session", "hi"), ("stop",), ("ls", "--limit", "many")])
def test_wrong_usage_exits_with_2(steerweb: Run, arguments: tuple[str, ...]) -> None:
    answer = steerweb(*arguments)
    assert answer.exit_code == 2
    assert "usage: steerweb " in answer.err
