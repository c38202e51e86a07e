"""The terminal's commands against a real web process; the test plays the worker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from sessions_app import control
from sessions_app.ids import new_id
from tests.conftest import MakeStack
from tests.doors.callers import token_of, worker_that_lives
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
    def json(self) -> object:
        return json.loads(self.out)


Run = Callable[..., Done]


def run(*arguments: str, stdin: str = "", **environment: str) -> Done:
    """One command as a process of its own, without any database it could reach."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("STEERWEB_", "DATABASE_", "REDIS_"))
    }
    env |= {"DATABASE_URL": "postgresql://nobody@/none?host=/nonexistent", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "steerweb", *arguments],
        cwd=REPOSITORY,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def web(make_stack: MakeStack) -> Stack:
    worker_that_lives()
    return make_stack(webs=1, workers=0)


@pytest.fixture
def ana(web: Stack) -> Run:
    """Runs commands as Ana."""
    token = token_of("ana")

    def as_ana(*arguments: str, stdin: str = "") -> Done:
        return run(*arguments, stdin=stdin, STEERWEB_URL=web.url, STEERWEB_TOKEN=token)

    return as_ana


def test_a_session_is_made_used_and_listed(ana: Run) -> None:
    made = ana("new", "--model", "demo:", "--title", "Build")
    assert (made.exit_code, made.err) == (0, "")
    session = made.out.strip()
    sent = ana("send", session, "list", "the", "files")
    assert sent.exit_code == 0
    assert sent.out.startswith("Queued; it is the next.")
    piped = ana("send", session, "-", "--json", stdin="from a pipe\n")
    assert piped.json["position"] == 1  # type: ignore[index]
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


@pytest.mark.rule("E3", "E4")
def test_a_stop_says_what_came_of_it_and_exits_by_it(ana: Run) -> None:
    world = World.create("ana")
    idle = ana("stop", world.session)
    assert (idle.exit_code, idle.out) == (0, "Nothing was running.\n")
    world.start()
    late = ana("stop", world.session, "--wait", "0.1", "--reason", "wrong branch")
    assert (late.exit_code, late.out) == (4, "")
    assert late.err == "steerweb: The stop goes on; it had not ended in time.\n"
    with ThreadPoolExecutor(max_workers=1) as pool:
        joining = pool.submit(ana, "stop", world.session, "--json")
        wait_until(joining.running, "the joining stop")
        world.end()
        assert joining.result().json["stopped"] is False  # type: ignore[index]
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
    assert as_json.json["code"] == "turn_mismatch"  # type: ignore[index]


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
        world.start("go")
        world.answer("done")
        control.close(world.owner, world.session, new_id())
        events = [frame for line in frames if (frame := json.loads(line))["t"] == "event"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["type"] == "SessionClosed"
        assert watch.wait(10) == 0
    finally:
        watch.kill()
        watch.wait()


@pytest.mark.rule("L1")
def test_watch_resumes_after_the_server_was_away(web: Stack) -> None:
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
def test_a_dead_token_is_told(web: Stack) -> None:
    answer = run("ls", STEERWEB_URL=web.url, STEERWEB_TOKEN="sw_" + "x" * 43)
    assert (answer.exit_code, answer.err) == (1, "steerweb: The token is not valid (any more).\n")


def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path) -> None:
    nowhere = {"STEERWEB_DATA": str(tmp_path)}
    no_server = run("ls", **nowhere)
    assert no_server.exit_code == 2
    assert no_server.err.startswith(f"steerweb: No steerweb runs on {tmp_path}: start one with `steerweb up`")
    no_token = run("ls", "--url", "http://127.0.0.1:9", **nowhere)
    assert no_token.exit_code == 2
    assert no_token.err.startswith("steerweb: No token: make one with `steerweb token create")
    silent = run("ls", "--url", "http://127.0.0.1:9", "--token", "sw_x", **nowhere)
    assert silent.exit_code == 3
    assert silent.err.startswith("steerweb: http://127.0.0.1:9 cannot be reached:")
    assert silent.err.count("\n") == 1
    no_address = run("ls", "--url", "example", "--token", "sw_x", **nowhere)
    assert no_address.err == "steerweb: 'example' is not an address like http://127.0.0.1:8000.\n"


@pytest.mark.parametrize(
    "arguments", [("send", "not-a-session", "hi"), ("stop",), ("send",), ("ls", "--limit", "many")]
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    answer = run(*arguments)
    assert answer.exit_code == 2
    assert "usage:" in answer.err
    assert "Traceback" not in answer.err
