"""Keeping parts alive and stopping them in order."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from steerweb.services import ServiceError
from steerweb.services.process import Child
from steerweb.up.at_work import stopping
from steerweb.up.supervisor import Program, StopAsked, Supervisor
from tests.support.waiting import wait_until

Heard = list[str]


def until(words: str, heard: Heard) -> Callable[[str], None]:
    """A `say` that notes what it hears and ends the supervisor's run after `words`."""

    def say(text: str) -> None:
        heard.append(text)
        if words in text:
            raise StopAsked

    return say


def sleeper(folder: Path, *argv: str) -> Program:
    child = Child(argv or ["sleep", "600"], log=folder / "sleeper.log", death_signal=signal.SIGKILL)
    return Program("sleeper", child, 5, lambda: 1)


def never() -> None:
    raise AssertionError("nothing is due for a quarter of a minute")


def test_what_dies_is_started_again_and_why_it_died_is_told(tmp_path: Path) -> None:
    heard: Heard = []
    supervisor = Supervisor(until("runs again", heard))
    part = sleeper(tmp_path, "sh", "-c", "echo a last word; exec sleep 600")
    supervisor.start(part)
    first = part.pid
    assert first is not None
    try:
        os.kill(first, signal.SIGKILL)
        with pytest.raises(StopAsked):
            supervisor.run(never)
        assert part.running()
        assert part.pid != first
    finally:
        supervisor.stop()
    assert heard[-1] == "sleeper runs again."
    assert heard[0].startswith("sleeper ended (killed by SIGKILL)")
    assert not part.running()


def test_what_keeps_dying_is_started_again_ever_more_slowly(tmp_path: Path) -> None:
    heard: Heard = []
    supervisor = Supervisor(until("in 0.8 s", heard))
    supervisor.start(sleeper(tmp_path, "sh", "-c", "echo no luck; exit 1"))
    with pytest.raises(StopAsked):
        supervisor.run(never)
    supervisor.stop()
    ended = [text for text in heard if "ended" in text]
    assert ended == [f"sleeper ended (no luck); starting it again in {delay} s." for delay in ("0.2", "0.4", "0.8")]


class Recorder:
    """A part that only notes what is asked of it."""

    def __init__(self, name: str, calls: Heard) -> None:
        self.name = name
        self.pid = None
        self.leaving_fd = None
        self.calls = calls
        self.up = False
        self.failures = 0

    def start(self) -> None:
        self.calls.append(f"start {self.name}")
        if self.failures:
            self.failures -= 1
            raise ServiceError("The disk is full.")
        self.up = True

    def replace(self) -> None:
        raise AssertionError("it never leaves")

    def running(self) -> bool:
        return self.up

    def ask_to_stop(self) -> None:
        self.calls.append(f"ask {self.name}")

    def stop(self) -> None:
        self.calls.append(f"stop {self.name}")

    def last_words(self) -> str:
        return ""


def test_parts_stop_in_the_reverse_order_and_workers_together() -> None:
    calls: Heard = []
    supervisor = Supervisor(calls.append)
    for name in ("PostgreSQL", "web", "worker 1", "worker 2"):
        supervisor.start(Recorder(name, calls))
    calls.clear()
    supervisor.stop()
    assert calls == [
        "ask worker 1", "ask worker 2", "stop worker 1", "stop worker 2", "ask web", "stop web", "ask PostgreSQL",
        "stop PostgreSQL",
    ]  # fmt: skip


def test_a_service_that_cannot_start_again_is_tried_until_it_can() -> None:
    heard: Heard = []
    supervisor = Supervisor(until("runs again", heard))
    part = Recorder("PostgreSQL", [])
    supervisor.start(part)
    part.up, part.failures = False, 1
    with pytest.raises(StopAsked):
        supervisor.run(never)
    assert heard == ["PostgreSQL ended; starting it again in 0.2 s.", "The disk is full.", "PostgreSQL runs again."]


def test_a_part_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "trap '' TERM; echo on; while :; do sleep 1; done"], log=tmp_path / "log",
                  death_signal=signal.SIGKILL)  # fmt: skip
    part = Program("stubborn", child, 0.3, lambda: 1)
    supervisor = Supervisor(lambda _text: None)
    supervisor.start(part)
    supervisor.stop()
    assert not part.running()


def test_what_takes_no_more_work_is_replaced_at_once_and_ends_beside_its_successor(tmp_path: Path) -> None:
    heard: Heard = []
    leaving, says = os.pipe()
    script = f"test -e {tmp_path}/told || {{ touch {tmp_path}/told; printf . >&{says}; }}; exec sleep 600"
    child = Child(["bash", "-c", script], log=tmp_path / "log", death_signal=signal.SIGKILL, pass_fds=(says,))
    part = Program("worker 1", child, 5, lambda: 1, leaving=leaving)
    supervisor = Supervisor(until("is drained", heard))
    supervisor.start(part)
    first = part.pid
    with pytest.raises(StopAsked):
        supervisor.run(never)
    part.replace()
    assert part.running() and part.pid != first
    assert part.pids == [first, part.pid]
    supervisor.stop()
    assert part.pids == []


def test_a_second_request_is_handed_on_and_a_third_kills(tmp_path: Path) -> None:
    asked = 1
    script = "trap 'echo told >>heard' TERM; echo on; while :; do sleep 0.05; done"
    child = Child(["bash", "-c", script], log=tmp_path / "log", death_signal=signal.SIGKILL, cwd=tmp_path)
    part = Program("worker 1", child, 600, lambda: asked, hurried_s=600)
    part.start()
    wait_until(lambda: "on" in child.tail(), "the trap")
    part.ask_to_stop()
    stopping = threading.Thread(target=part.stop)
    stopping.start()
    told = tmp_path / "heard"
    wait_until(lambda: told.exists(), "the first request")
    asked = 2
    wait_until(lambda: told.read_text() == "told\ntold\n", "the second request")
    assert part.running()
    asked = 3
    stopping.join(20)
    assert not part.running()


def test_what_up_says_at_ctrl_c_names_what_it_waits_for() -> None:
    assert stopping([], 20) == "Stopping. No command runs; all turns go on with the next start."
    assert stopping(["Tests", "Tests", "a\x1b[31mb"], 20).startswith(
        "Stopping. It waits up to 20 s for 3 running commands (“Tests”, “a [31mb”); what takes longer is ended and its "
        "turn interrupted. Ctrl-C again: it is ended now; "
    )
