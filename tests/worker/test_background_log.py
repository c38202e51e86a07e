"""The file of a background command's output: bounded, and never the worker's trouble (E13)."""

import os
from pathlib import Path

import pytest

from sessions_app.worker.background_log import KEPT_LOGS, LEFT_OUT, LOG_BYTES, BackgroundLog
from tests.support.waiting import wait_until


@pytest.mark.rule("E13")
def test_it_is_full_at_its_bound_and_says_so_last(tmp_path: Path) -> None:
    log = BackgroundLog.create(tmp_path, "call")
    log.add(b"x" * (LOG_BYTES - 1))
    log.add(b"y")
    wait_until(lambda: log.path.stat().st_size == LOG_BYTES, "a full file")
    log.add(b"z")
    log.add(b"z")
    log.close()
    log.add(b"z")
    wait_until(lambda: log.path.stat().st_size > LOG_BYTES, "the last line")
    wait_until(lambda: _open_files(log.path) == 0, "the end")
    assert log.path.read_bytes() == b"x" * (LOG_BYTES - 1) + b"y" + LEFT_OUT


@pytest.mark.rule("E13")
def test_an_id_names_a_file_in_the_folder_and_a_new_one_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "background"
    (tmp_path / "other.log").write_text("not yours")
    made = [BackgroundLog.create(folder, call) for call in ("../other", "../other", "a b", "x" * 300, "")]
    assert [log.path.name for log in made] == ["___other.log", "___other_2.log", "a_b.log", "x" * 80 + ".log", ".log"]
    assert {log.path.parent for log in made} == {folder}
    assert (tmp_path / "other.log").read_text() == "not yours"
    for log in made:
        log.discard()
    wait_until(lambda: list(folder.iterdir()) == [], "the end of the files")


@pytest.mark.rule("E13")
def test_a_full_disk_hurts_nobody(tmp_path: Path) -> None:
    full = BackgroundLog(tmp_path / "full", os.open("/dev/full", os.O_WRONLY))
    log = BackgroundLog.create(tmp_path, "call")
    for _ in range(3):
        full.add(b"x" * 100_000)
        log.add(b"still written\n")
    full.close()
    wait_until(lambda: log.path.read_bytes() == b"still written\n" * 3, "the other file")
    log.close()


def _open_files(path: Path) -> int:
    """How many descriptors of this process are open on a file."""
    handles = [handle.readlink() for handle in Path("/proc/self/fd").iterdir() if handle.is_symlink()]
    return handles.count(path)


@pytest.mark.rule("E13")
def test_the_oldest_of_ended_commands_make_room(tmp_path: Path) -> None:
    runs = BackgroundLog.create(tmp_path, "runs")
    ended = [tmp_path / f"{number}.log" for number in range(KEPT_LOGS)]
    for number, path in enumerate(ended):
        path.write_text("said")
        os.utime(path, ns=(number, number))
    new = BackgroundLog.create(tmp_path, "new")
    assert not ended[0].exists()
    assert set(tmp_path.iterdir()) == {runs.path, new.path, *ended[1:]}
    runs.discard()
    new.discard()
