"""The measurements as a table for people."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from sessions_app.bench.appends import Appends, Rates
from sessions_app.bench.fanout import Fanout, Flow
from sessions_app.bench.figures import Spread
from sessions_app.bench.machine import Machine
from sessions_app.bench.pages import PER_S, SLOWER, Pages
from sessions_app.bench.starts import Starts
from sessions_app.bench.stops import Stops
from sessions_app.cli.tables import table

PARTS: Final = ("stop", "append", "page", "fanout", "start")
"""What can be measured, each a field of the report."""
HEAD: Final = ("what", "p50", "p99", "beside it")
Row = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """One run; a part is None where it was not measured. `at` is RFC 3339 in UTC."""

    at: str
    quick: bool
    machine: Machine
    stop: Stops | None = None
    append: Appends | None = None
    page: Pages | None = None
    fanout: Fanout | None = None
    start: Starts | None = None

    def rows(self) -> Iterator[Row]:
        """The table's rows, in the order of the parts."""
        if self.stop is not None:
            yield from _stop(self.stop)
        if self.append is not None:
            yield _rates(self.append.one)
            yield _rates(self.append.many)
        if self.page is not None:
            yield from _page(self.page)
        if self.fanout is not None:
            yield from _fanout(self.fanout)
        if self.start is not None:
            yield "first start of `up`", f"{self.start.first_s:.1f} s", "", "with the creation of its database"
            yield "later start", f"{self.start.later_s:.1f} s", "", f"median of {self.start.later}"

    def json(self) -> dict[str, Any]:
        """As a value for an encoder, without the parts that were not measured."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in PARTS}

    def text(self) -> str:
        """The table, and the machine below it."""
        quick = "\nA quick run: few tries, no figures to keep." if self.quick else ""
        return f"{table(HEAD, self.rows())}\n\n{self.machine.words}{quick}"


def _stop(found: Stops) -> Iterator[Row]:
    for name, end, stop in (("a command", "its processes dead", found.shell), ("a stream", "closed", found.stream)):
        tries = f"{stop.terminal_ms.n} tries"
        yield f"stop {name}: the other client knows", *_times(stop.terminal_ms), tries
        yield f"stop {name}: {end}", *_times(stop.ended_ms), tries


def _rates(found: Rates) -> Row:
    name = "append in one session" if found.sessions == 1 else f"append in {found.sessions} sessions"
    bare = f"{found.ours_per_s:.0f}/s; the same SQL alone {found.bare_per_s:.0f}/s: {found.ratio:.2f} of it"
    return name, *_times(found.ours_ms), bare


def _page(found: Pages) -> Iterator[Row]:
    name, slowed = f"a session of {found.events:,} events", f"on a {SLOWER} times slower CPU"
    yield f"{name}: first contentful paint", *_times(found.paint_ms), f"{found.paint_ms.n} tries"
    yield f"{name}: live", *_times(found.live_ms), f"{found.live_ms.n} tries"
    yield f"{name}: a jump to a turn", *_times(found.jump_ms), f"{found.jump_ms.n} tries"
    yield f"a key while {PER_S} deltas/s stream", *_times(found.key_ms), f"{found.key_ms.n} tries"
    for what, longest in (
        ("it opens", found.longest_open_ms), ("one jumps", found.longest_jump_ms),
        (f"{found.lines:,} lines stream in", found.longest_lines_ms),
    ):  # fmt: skip
        yield f"longest task while {what}", "", _ms(longest), slowed
    grew = f"{found.heap_before_mib:.1f} MiB before, {found.nodes_after:,} elements after"
    yield f"heap after {found.deltas:,} deltas", f"{found.heap_after_mib:.1f} MiB", "", grew


def _fanout(found: Fanout) -> Iterator[Row]:
    name = f"{found.per_s}/s to {found.watchers} watchers"
    yield f"{name}: steerweb", *_flow(found.ours)
    yield f"{name}: bare broadcast", *_flow(found.bare)
    if found.stock is None:
        yield f"{name}: group_send", "", "", "channels_redis is not installed"
    else:
        yield f"{name}: group_send", *_flow(found.stock)
    yield f"{name}: a model's tokens", *_flow(found.model)


def _flow(found: Flow) -> tuple[str, str, str]:
    lost = f", {found.lost} of {found.frames + found.lost} frames late or lost" if found.lost else ""
    beside = f"{found.cpu_s_per_1000:.3f} s of CPU per 1,000 frames{lost}"
    return (*_times(found.took_ms), beside) if found.took_ms else ("falls behind", "", beside)


def _times(found: Spread) -> tuple[str, str]:
    return _ms(found.p50), _ms(found.p99)


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"
