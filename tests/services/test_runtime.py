"""The record of a running `up`."""

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from steerweb.runtime import Record, data_dir, process_started, read_record, remove_record, shown, write_record


def record_of(pid: int) -> Record:
    return Record(
        url="https://steer.example.org",
        web_url="http://127.0.0.1:8000",
        database_url="postgresql://steerweb@/steerweb?host=/tmp/x",
        redis_url="unix:///tmp/x/valkey.sock",
        secret_key="k" * 40,
        instance="0123456789abcdef",
        pid=pid,
        started=process_started(pid) or 0,
    )


def test_a_record_is_read_as_it_was_written_and_only_by_its_owner(tmp_path: Path) -> None:
    record = record_of(os.getpid())
    write_record(record, tmp_path)
    assert read_record(tmp_path) == record
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600
    remove_record(tmp_path)
    assert read_record(tmp_path) is None


def test_the_record_of_an_up_that_ended_is_not_believed(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"])
    write_record(record_of(process.pid), tmp_path)
    assert read_record(tmp_path) is not None
    process.kill()
    process.wait()
    assert read_record(tmp_path) is None


def test_the_record_is_not_believed_when_its_pid_belongs_to_another_process(tmp_path: Path) -> None:
    record = record_of(os.getpid())
    write_record(replace(record, started=record.started - 1), tmp_path)
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}'])
def test_a_record_nobody_can_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert read_record(tmp_path) is None


def test_the_data_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERWEB_DATA", "/srv/steer")
    assert data_dir() == Path("/srv/steer")
    monkeypatch.delenv("STEERWEB_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/share")
    assert data_dir() == Path("/srv/share/steerweb")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/ana")
    assert data_dir() == Path("/home/ana/.local/share/steerweb")


def test_a_command_is_shown_as_it_works_for_the_data_it_is_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STEERWEB_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plain = shown("signin ana")
    assert plain.endswith(" signin ana") and "STEERWEB_DATA" not in plain
    assert shown("signin ana", tmp_path / "my data") == f"STEERWEB_DATA='{tmp_path / 'my data'}' {plain}"
