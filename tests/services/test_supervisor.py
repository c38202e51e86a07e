"""Keeping parts alive and stopping them in order."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from steerweb.services import ServiceError
from steerweb.services.process import Child
from steerweb.up.supervisor import Program, StopAsked, Supervisor

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
    return Program("sleeper", child, 5, lambda: False)


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
        self.calls = calls
        self.up = False
        self.failures = 0

    def start(self) -> None:
        self.calls.append(f"start {self.name}")
        if self.failures:
            self.failures -= 1
            raise ServiceError("The disk is full.")
        self.up = True

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
    part = Program("stubborn", child, 0.3, lambda: False)
    supervisor = Supervisor(lambda _text: None)
    supervisor.start(part)
    supervisor.stop()
    assert not part.running()
