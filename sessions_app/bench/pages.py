"""A session's page in Chromium: a long session opened and gone about in, and what streams into it, by the browser's own
clocks.

First contentful paint, long tasks and event timing are what Chromium reports of itself. A worker is played (see
`played`), so that a model's or a command's own time is no part of it. Needs Playwright and a Chromium, which steerweb
itself does not.
"""

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessions_app.bench.browser import find_chromium
from sessions_app.bench.figures import Spread, spread_of
from sessions_app.bench.helper import Helper
from sessions_app.bench.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PER_S: Final = 50
SLOWER: Final = 4
A_TURN: Final = 1000
"""How many deltas make up an answer, where an hour's worth of them comes in minutes."""
LONGEST_S: Final = 900.0
_WAIT_MS: Final = 300_000
_EVENT_MS: Final = 16
"""A browser reports only what took longer; what was quicker counts as this."""
_NOTED: Final = """
window.noted = { live: null, tasks: [], keys: [] };
new PerformanceObserver((list) => noted.tasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });
const isKey = (each) => each.name === "keydown";
new PerformanceObserver((list) => noted.keys.push(...list.getEntries().filter(isKey).map((each) => each.duration)))
  .observe({ type: "event", durationThreshold: 16, buffered: true });
(function look() {
  if (document.querySelector("#connection")?.dataset.is === "live") noted.live = performance.now();
  else requestAnimationFrame(look);
})();
"""
_JUMP: Final = """async (number) => {
  const field = document.querySelector("input[aria-label='Number of the turn']");
  const began = performance.now();
  field.value = number;
  field.form.requestSubmit();
  for (;;) {
    await new Promise(requestAnimationFrame);
    const headings = [...document.querySelectorAll(".turn > header > b")];
    const heading = headings.find((each) => each.textContent === `Turn ${number}`);
    const { top, bottom } = heading?.getBoundingClientRect() || { top: -1, bottom: -1 };
    if (top >= 0 && bottom <= innerHeight) return performance.now() - began;
    if (performance.now() - began > 60_000) throw new Error(`no turn ${number}`);
  }
}"""
_PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True, slots=True)
class Pages:
    """A page of a session of `events`; times are from the navigation, the press or the key on.

    `live_ms`: until it shows the newest screenful and what happens from then on; `longest_*_ms`: the longest task of
    the page's main thread on a CPU slowed `SLOWER` times, 0 where none was over 50 ms; `key_ms`: a key in the message
    box while `PER_S` deltas a second stream; `heap_*_mib`: after a garbage collection, before and after `deltas`.
    """

    events: int
    outputs: int
    paint_ms: Spread
    live_ms: Spread
    jump_ms: Spread
    longest_open_ms: float
    longest_jump_ms: float
    longest_lines_ms: float
    lines: int
    key_ms: Spread
    deltas: int
    heap_before_mib: float
    heap_after_mib: float
    nodes_after: int


@dataclass(frozen=True, slots=True)
class _Size:
    turns: int
    outputs: int
    tries: int
    lines: int
    keys: int
    deltas: int


def possible() -> bool:
    """Whether there is what it needs."""
    return importlib.util.find_spec("playwright") is not None and find_chromium() is not None


def measure(stage: Stage, *, quick: bool) -> Pages:
    """Measure on a stage where no worker runs, or it would take the turns."""
    size = _Size(100, 10, 2, 2_000, 10, 2_000) if quick else _Size(10_010, 300, 10, 50_000, 100, PER_S * 3600)
    stage.start_web()
    arguments = (stage.person, str(size.turns), str(size.outputs))
    log = stage.folder / "played.log"
    with (
        Helper("played", *arguments, env=stage.environment(), log=log, longest_s=LONGEST_S) as played,
        _signed_in(stage, made := played.answer()) as context,
    ):
        return _measured(context, played, made, size)


@contextmanager
def _signed_in(stage: Stage, made: dict[str, Any]) -> "Iterator[BrowserContext]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        context = browser.new_context(
            base_url=f"http://127.0.0.1:{stage.port}", viewport={"width": 1440, "height": 900}, service_workers="block"
        )
        context.set_default_timeout(_WAIT_MS)
        context.add_init_script(_NOTED)
        context.new_page().goto(made["link"])
        try:
            yield context
        finally:
            browser.close()


def _measured(context: "BrowserContext", played: Helper, made: dict[str, Any], size: _Size) -> Pages:
    path = f"/s/{made['session']}"
    opened = [_opened(context.pages[0], path) for _ in range(size.tries + 1)][1:]  # the first one fills the cache
    page = context.pages[0]
    jumps = [float(page.evaluate(_JUMP, number)) for number in _numbers(size)]

    slowed = context.new_cdp_session(page)
    slowed.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    _opened(page, path)
    longest_open = _longest(page)
    for number in _numbers(size):
        page.evaluate(_JUMP, number)
    longest_jump = _longest(page)
    _opened(page, path)
    _longest(page)
    played.ask({"lines": size.lines})
    page.get_by_text("It was made.", exact=True).last.wait_for()
    longest_lines = _longest(page)
    slowed.send("Emulation.setCPUThrottlingRate", {"rate": 1})

    _opened(page, path)
    keys = _typed(page, played, size)
    _opened(page, path)
    before = _heap(context, page)
    played.ask({"words": size.deltas, "per_s": PER_S * 20, "a_turn": A_TURN})
    last = size.turns + 2 + -(-size.deltas // A_TURN)
    page.locator(".turn > header > b", has_text=f"Turn {last}").wait_for()
    page.locator(".halts[data-is=idle]").wait_for()
    after = _heap(context, page)
    nodes = int(page.evaluate("document.querySelectorAll('*').length"))
    paints, lives = (_spread(list(times)) for times in zip(*opened, strict=True))
    return Pages(
        made["events"], size.outputs, paints, lives, _spread(jumps), longest_open, longest_jump, longest_lines,
        size.lines, _spread(keys), size.deltas, before, after, nodes,
    )  # fmt: skip


def _spread(times_ms: list[float]) -> Spread:
    return spread_of([each / 1000 for each in times_ms])


def _numbers(size: _Size) -> list[int]:
    """Turns all over the session, none beside the one before."""
    return [(at * 7 % size.tries * size.turns) // size.tries + 1 for at in range(size.tries)]


def _opened(page: "Page", path: str) -> tuple[float, float]:
    """Milliseconds until the first paint, and until it is live."""
    page.goto("about:blank")
    page.goto(path)
    page.locator("#connection[data-is=live]").wait_for(state="attached")
    return float(page.evaluate(_PAINTED)), float(page.evaluate("noted.live"))


def _longest(page: "Page") -> float:
    """The longest task since it was asked last, in milliseconds."""
    page.wait_for_timeout(500)  # so that the last one has been told
    return float(page.evaluate("Math.max(0, ...noted.tasks.splice(0))"))


def _typed(page: "Page", played: Helper, size: _Size) -> list[float]:
    """What each of some keys in the message box took while an answer streams."""
    count = size.keys * PER_S // 10 + PER_S * 2  # as long as the keys take, a tenth of a second each, and a little more
    with ThreadPoolExecutor(1) as beside:
        streamed = beside.submit(played.ask, {"words": count, "per_s": PER_S, "a_turn": count})
        page.locator(".step .prose", has_text="it says").last.wait_for()
        box = page.locator("#say textarea")
        box.focus()
        for _ in range(size.keys):
            box.press("x")
            page.wait_for_timeout(100)
        streamed.result()
    reported = [float(each) for each in page.evaluate("noted.keys")]
    box.fill("")
    return [*reported, *[float(_EVENT_MS)] * (size.keys - len(reported))][: size.keys]


def _heap(context: "BrowserContext", page: "Page") -> float:
    asked = context.new_cdp_session(page)
    asked.send("HeapProfiler.collectGarbage")
    used = float(asked.send("Runtime.getHeapUsage")["usedSize"])
    asked.detach()
    return round(used / 2**20, 1)
