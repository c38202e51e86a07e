"""Since when approvals wait, and how many: what the session list tells of them comes from the log alone."""

import orjson
import pytest

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.log import chain, read, watching
from sessions_app.log.frames import instant
from sessions_app.pages import words
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")


@pytest.fixture
def world() -> World:
    return World.create()


def row(world: World) -> tuple[str, int, str]:
    """The session's word, how many approvals wait, and since when the list counts."""
    found = watching.list_rows([world.session])[world.session]
    return found["state"], found["asks"], found["since"]


def opened(world: World) -> list[str]:
    """When each approval was asked for."""
    found, _ = read.page(world.session, types=["GateOpened"])
    return [orjson.loads(event)["at"] for event in found]


@pytest.mark.rule("H1", "J4")
def test_a_hand_over_does_not_start_the_clock_of_an_approval_anew(world: World) -> None:
    world.ask()
    (at,) = opened(world)
    assert row(world) == ("approval", 1, at)
    world.report(commands.HandOver(world.turn, world.epoch, "gate"))
    assert row(world) == ("approval", 1, at)
    assert world.claim()
    assert row(world) == ("approval", 1, at)
    (phase,) = read.phases(world.session)
    assert (phase["phase"], phase["since"][:23]) == ("gate", at[:23])  # to the millisecond
    assert list(chain.rebuild(world.session)) == []
    assert row(world) == ("approval", 1, at)


@pytest.mark.rule("H1", "G5")
def test_of_several_approvals_the_one_that_waits_longest_counts(world: World) -> None:
    world.start("compare the folders")
    first, second = world.delegate("one", "two")
    gates = []
    for child in (second, first):
        assert child.claim()
        control.set_mode(child.owner, child.session, new_id(), mode="ask", loop=child.loop)
        child.begin()
        child.plan("c1")
        gates.append(child.start_tool("c1", commands.Effect("command", "echo c1"))["gate"])
    oldest, newest = opened(world)
    assert row(world) == ("approval", 2, oldest)
    said = words.doing(watching.list_rows([world.session])[world.session])
    assert said == words.described("approval", read.snapshot(world.session)["state"]) == "Waiting for 2 approvals"
    control.resolve(world.owner, world.session, new_id(), gate=gates[0], decision="allow")
    assert row(world) == ("approval", 1, newest)
    assert instant(watching.now()) > newest
