"""The course of one `steerweb bench`: the chosen parts, one after the other, on one stage."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

from sessions_app.bench import appends, fanout, machine, pages, starts, stops
from sessions_app.bench.model import Model
from sessions_app.bench.report import Report
from sessions_app.bench.stage import Stage
from steerweb.up.address import bind


def run(parts: Collection[str], say: Callable[[str], None], *, quick: bool) -> Report:
    """Measure these of `report.PARTS`; `say` hears what is being done. ServiceError where something cannot start."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    described = machine.describe(Path(gettempdir()))
    started = None
    if "start" in parts:
        say("Starting and stopping `up` ...")
        started = starts.measure(quick=quick)
    if not {"stop", "append", "page", "fanout"} & set(parts):
        return Report(at, quick, described, start=started)
    appended = stopped = paged = fanned = None
    say("Starting servers in a temporary directory ...")
    with bind("127.0.0.1", 0) as listener:
        model = Model(listener)
        with Stage(model.environment) as stage:
            if "append" in parts:  # before a worker runs
                say("Appending ...")
                appended = appends.measure(stage, quick=quick)
            if "page" in parts and not pages.possible():
                say("Pages are left out: that needs Playwright and a Chromium.")
            elif "page" in parts:  # before a worker runs
                say("Opening a long session in Chromium ...")
                paged = pages.measure(stage, quick=quick)
            if "fanout" in parts:
                say("Sending deltas to watchers ...")
                fanned = fanout.measure(stage, model, quick=quick)
            if "stop" in parts:
                say("Stopping commands and streams ...")
                stopped = stops.measure(stage, model, quick=quick)
    return Report(at, quick, described, stopped, appended, paged, fanned, started)
