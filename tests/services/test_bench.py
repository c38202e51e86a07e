"""`steerweb bench`: its report's documented shape, and that it leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sessions_app.bench.appends import Appends, Rates
from sessions_app.bench.fanout import Fanout, Flow
from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.machine import describe
from sessions_app.bench.report import Report
from tests.support.services import REPOSITORY


def bench(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "steerweb", "bench", *arguments],
        env={**os.environ, **env}, cwd=REPOSITORY, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def check_spread(spread: dict[str, Any]) -> None:
    assert list(spread) == ["n", "p50", "p99", "worst"]
    assert spread["n"] > 0
    assert 0 < spread["p50"] <= spread["p99"] <= spread["worst"]


def test_a_quick_run_tells_what_an_append_costs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    elsewhere = {"DATABASE_URL": "postgresql:///another", "REDIS_URL": "unix:///another"}
    done = bench("--quick", "--only", "append", "--json", "-", TMPDIR=str(tmp_path), **elsewhere)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sorted(told) == ["append", "at", "machine", "quick", "v"]
    assert (told["v"], told["quick"]) == (1, True)
    assert sorted(told["machine"]) == ["cores", "cpu", "disk", "load", "memory_gib", "system", "versions"]
    assert sorted(told["append"]) == ["many", "one"]
    for name, sessions in (("one", 1), ("many", 20)):
        rates = told["append"][name]
        assert sorted(rates) == ["bare_ms", "bare_per_s", "ours_ms", "ours_per_s", "ratio", "sessions"]
        assert rates["sessions"] == sessions
        assert rates["ratio"] == pytest.approx(rates["ours_per_s"] / rates["bare_per_s"], rel=0.05)
        check_spread(rates["ours_ms"])
        check_spread(rates["bare_ms"])
    assert list(tmp_path.iterdir()) == []


def test_a_quick_run_tells_what_a_page_costs() -> None:
    done = bench("--quick", "--only", "page", "--json", "-")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["page"]
    assert (told["events"] > 1000, told["lines"], told["deltas"]) == (True, 2000, 2000)
    for name in ("paint_ms", "live_ms", "jump_ms", "key_ms"):
        check_spread(told[name])
    assert told["paint_ms"]["p50"] < told["live_ms"]["p50"]
    assert told["heap_before_mib"] > 0


def test_a_quick_run_tells_how_fast_a_stop_is_and_what_watchers_cost() -> None:
    done = bench("--quick", "--only", "stop,fanout", "--json", "-")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for work in ("shell", "stream"):
        for name in ("terminal_ms", "ended_ms"):
            check_spread(told["stop"][work][name])
    ours = told["fanout"]["ours"]
    assert (ours["frames"] > 0, ours["lost"]) == (True, 0)
    check_spread(ours["took_ms"])


def test_a_part_that_does_not_exist_is_named_with_those_that_do() -> None:
    done = bench("--only", "append,speed")
    assert done.returncode == 2
    assert "'append,speed' is not a choice of stop, append, page, fanout, start" in done.stderr


def test_the_spread_of_thirty_tries_is_their_median_and_their_worst() -> None:
    assert spread_of([number / 1000 for number in range(30, 0, -1)]) == Spread(30, 15.0, 30.0, 30.0)


def test_the_table_says_what_was_not_installed_and_what_was_lost() -> None:
    took = Spread(3, 1.0, 2.0, 3000.0)
    flow, late = Flow(600, 0, took, 0.02), Flow(0, 600, None, 0.5)
    rates = Rates(20, 200.0, 800.0, 0.25, took, took)
    report = Report(
        "2026-11-29T12:00:00Z", True, describe(Path("/")),
        append=Appends(rates, rates), fanout=Fanout(200, 50, flow, late, None, flow),
    )  # fmt: skip
    lines = report.text().splitlines()
    assert "200/s; the same SQL alone 800/s: 0.25 of it" in lines[1]
    assert "600 of 600 frames late or lost" in lines[4]
    assert lines[5].endswith("channels_redis is not installed")
    assert "stop" not in report.json()
