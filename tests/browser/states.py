"""Every state a session can be seen in, played on the real database; each leaves `world` in it."""

from collections.abc import Callable
from typing import Final

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.log import bell, db
from tests.browser.screens import Stream
from tests.support.world import World, person


def nothing_yet(world: World) -> None:
    """Nobody has written anything."""


def waiting_for_a_worker(world: World) -> None:
    world.submit("Move the settings page to the new form")


def streaming(world: World) -> None:
    world.start("Move the settings page to the new form")
    Stream(world).say("I will look at the **old form** first:\n\n1. its fields\n2. what it val")


def in_a_tool(world: World) -> None:
    world.start("Run the tests")
    world.plan("c1", text="I run them.", command="make test")
    world.start_tool("c1", command="make test")
    Stream(world, "tool", "c1").say("\x1b[32m212 passed\x1b[0m, \x1b[31m1 failed\x1b[0m\n")


def asking(world: World) -> None:
    world.ask()


def retrying(world: World) -> None:
    world.start("Run the tests")
    with db.cursor("write") as cur:
        cur.execute("UPDATE running_turn SET phase = 'retry', next_at = now() + interval '1 minute'")
    frame = {"t": "retrying", "loop": world.loop, "turn": world.turn, "attempt": 2, "next_at": "2036-01-01T00:00:00Z"}
    bell.frame(world.session, frame)


def delegating(world: World) -> None:
    world.start("Compare the two folders")
    children = world.delegate("read the first folder", "read the second folder")
    for child in children:
        assert child.claim()
    children[0].begin()
    children[0].answer("It holds `a` and `b`.")


def handed_over(world: World) -> None:
    world.start("Run the tests")
    world.report(commands.HandOver(world.turn, world.epoch, "model"))


def stopping(world: World) -> None:
    world.start("Run the tests")
    world.plan("c1", command="make test")
    world.start_tool("c1", command="make test")
    world.stop(person("ana", "phone"), reason="wrong branch")


def stopped(world: World) -> None:
    in_a_tool(world)
    world.stop(person("ana", "phone"), reason="wrong branch")
    processes = {"ended": [{"pid": 7, "command": "pytest -x"}], "surviving": [], "background": []}
    settled = {"c1": commands.Settlement("interrupted", "212 passed, 1 failed\n", processes=processes)}
    world.end(acknowledged_ms=6, settlements=settled)


def paused(world: World) -> None:
    world.start("Run the tests")
    world.submit("then write the changelog")
    world.steer("mind the linter")
    world.stop(queue="hold")
    world.end(acknowledged_ms=6, cut_off={"text": "I ran half of th"})


def failed(world: World) -> None:
    world.start("Run the tests")
    world.report(commands.Fail(world.turn, world.epoch, "provider_error", "OpenAI answered with an error (500)."))


def worker_died(world: World) -> None:
    in_a_tool(world)
    lost = {"c1": commands.Settlement("lost")}
    end = commands.EndTurn(world.turn, world.epoch, "sweep", "worker_lost", lost, phase="tool", settled_ms=11_000)
    world.report(end)


def closed(world: World) -> None:
    world.start("Run the tests")
    world.answer("All of them pass.")
    control.close(world.owner, world.session, new_id())


STATES: Final[dict[str, Callable[[World], None]]] = {
    state.__name__: state
    for state in (
        nothing_yet, waiting_for_a_worker, streaming, in_a_tool, asking, retrying, delegating, handed_over, stopping,
        stopped, paused, failed, worker_died, closed,
    )
}  # fmt: skip
RUNNING: Final = ("streaming", "in_a_tool", "asking", "retrying", "delegating", "handed_over")
"""In these something runs that nobody stops yet."""
