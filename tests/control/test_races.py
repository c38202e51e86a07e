"""Real threads and connections on one session: whoever has the lock first wins, and everybody sees the same winner."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sessions_app import control
from sessions_app.engine import commands
from sessions_app.engine.actors import SYSTEM
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Draft
from sessions_app.engine.fold import fold
from sessions_app.engine.transcript import Transcript
from sessions_app.ids import new_id
from sessions_app.log import chain, db, read
from sessions_app.log.append import append, lock
from tests.engine.invariants import check_log
from tests.support.together import together
from tests.support.waiting import wait_until
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
TERMINALS = ("TurnDone", "TurnFailed", "TurnInterrupted")


@pytest.fixture
def world() -> World:
    return World.create()


class Reader:
    """Follows a log from its cursor in a thread of its own; whatever it sees must continue what it saw (A1)."""

    def __init__(self, world: World) -> None:
        self.session, self.seen, self._over = world.session, 0, threading.Event()

    def follow(self) -> None:
        while True:
            over = self._over.is_set()
            page = read.engine_events(self.session, self.seen)
            assert [event.seq for event in page] == list(range(self.seen + 1, self.seen + 1 + len(page))), "a gap"
            self.seen += len(page)
            if over:
                return

    def until(self, *work: Callable[[], object]) -> None:
        """Follow while the work is done, together, and to its end."""

        def working() -> None:
            try:
                together(work)
            finally:
                self._over.set()

        together([self.follow, working])


@pytest.mark.rule("A1", "A7")
def test_eight_writers_on_one_session_leave_no_gap_and_a_reader_misses_nothing(world: World) -> None:
    world.start()
    ben = person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")

    def worker() -> None:
        for number in range(8):
            world.plan(f"call{number}")
            world.start_tool(f"call{number}")
            world.settle(f"call{number}")
            world.begin()

    refusals: list[str] = []

    def often(action: Callable[[], object]) -> Callable[[], None]:
        def repeat() -> None:
            for _ in range(8):
                try:
                    action()
                except Refused as refused:
                    refusals.append(refused.code)

        return repeat

    writers = [worker]
    writers += [often(lambda: world.steer("left")), often(lambda: world.steer("right", who=ben))]
    writers += [often(world.submit), often(lambda: world.submit("x", ben)), often(lambda: world.submit("y"))]
    writers += [often(lambda: world.stop(turn=new_id()))] * 2
    reader = Reader(world)
    reader.until(*writers)
    log = world.events()
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert reader.seen == len(log)
    assert set(refusals) <= {"steer_full"}
    assert [event.at_ms for event in log] == sorted(event.at_ms for event in log)
    assert len(world.events("InputQueued")) == 25
    assert len(world.events("ToolSettled")) == 8
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("A1", "L1")
@pytest.mark.scenario("D18")
def test_a_reader_never_skips_what_a_slow_writer_commits_late(world: World) -> None:
    """A writer has its number and is slow to commit; another writer and a reader come meanwhile (D18)."""
    head = len(world.events())
    numbered, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        with db.cursor("write") as cur:
            locked = lock(cur, world.session)
            append(cur, locked, [Draft("SessionChanged", {"title": "slow"})], SYSTEM, None)
            assert locked.head == head + 1
            numbered.set()
            assert go_on.wait(10)

    def quick() -> None:
        numbered.wait(10)
        world.submit("quick")

    def reading() -> list[str]:
        numbered.wait(10)
        before = world.types(head)
        wait_until(lambda: waits_for_lock(), "the quick writer waiting")
        before += world.types(head)
        go_on.set()
        return before

    seen = together([slow, quick, reading])[2]
    assert seen == [], "nobody saw a later number before the earlier one"
    assert [(event.seq, event.type) for event in world.events()[head:]] == [
        (head + 1, "SessionChanged"), (head + 2, "InputQueued"),
    ]  # fmt: skip


def waits_for_lock() -> bool:
    with db.cursor("read") as cur:
        found = cur.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return found.fetchone() is not None


def ended(world: World, turn: str) -> list[str]:
    with db.cursor("read") as cur:
        rows = cur.execute("SELECT type FROM event WHERE turn = %s AND type = ANY(%s)", (turn, list(TERMINALS)))
        return [row[0] for row in rows.fetchall()]


@pytest.mark.rule("E3", "E5", "B6")
@pytest.mark.scenario("D14")
@pytest.mark.parametrize("how", ["answer", "fail"])
def test_a_stop_around_completion_has_one_outcome_that_everybody_sees(world: World, how: str) -> None:
    """200 runs each: a stop lands 0 to 5 ms around the end of the turn (D14)."""
    chance, winners = random.Random(14), Counter[str]()

    def finish() -> bool:
        if how == "answer":
            return "outcome" in world.answer()
        return "outcome" in world.report(commands.Fail(world.turn, world.epoch, "provider_error", "HTTP 500"))

    for _ in range(200):
        turn = world.start()
        racers: list[Callable[[], Any]] = [finish, lambda: world.stop(queue="run")]
        outcomes = together(racers, [chance.uniform(0, 0.005), chance.uniform(0, 0.005)])
        finished, receipt = outcomes
        assert finished != receipt["accepted"], "one of them wins, not both, not neither"
        if receipt["accepted"]:
            world.end()
        control.release(world.owner, world.session, new_id())
        outcome = control.stop_outcome(world.session, receipt)
        natural = "TurnDone" if how == "answer" else "TurnFailed"
        assert ended(world, turn) == ["TurnInterrupted" if receipt["accepted"] else natural]
        assert outcome is not None
        assert outcome["stopped"] == receipt["accepted"]
        assert outcome["note"] == (None if receipt["accepted"] else "idle")
        winners[ended(world, turn)[0]] += 1
    assert len(winners) == 2, f"the race was none: {winners}"
    assert len(world.events("TurnStarted")) == 200, "no turn ran twice"
    log = world.events()
    check_log(log, fold(log))


@pytest.mark.rule("E5", "E10")
@pytest.mark.scenario("D12")
def test_what_is_sent_right_after_a_stop_runs_and_the_old_stop_leaves_it_alone(world: World) -> None:
    """80 rounds of a stop and, 0 to 4 ms after it, "do X instead" (D12)."""
    chance = random.Random(12)
    for number in range(80):
        stopped = world.start()
        text = f"do {number} instead"

        def stop_then_send(text: str = text) -> str:
            world.stop(queue="hold")
            return world.submit(text)

        def end() -> None:
            wait_until(lambda: world.begin().get("marked"), "the mark")
            world.end()

        racers: list[Callable[[], object]] = [stop_then_send, end]
        together(racers, [0.0, chance.uniform(0, 0.004)])
        assert ended(world, stopped) == ["TurnInterrupted"]
        assert world.claim()
        assert world.answer("fine")["outcome"] == "done"
        assert not world.claim()
    assert Counter(world.types())["TurnStarted"] == 160
    assert len(world.events("TurnDone")) == 80


@pytest.mark.rule("D4", "D8", "D3")
@pytest.mark.scenario("D15")
def test_of_200_steers_around_the_end_of_turns_none_is_lost_and_none_doubled(world: World) -> None:
    """Four at a time, each with a word of its own, at random offsets around the end of a turn (D15)."""
    chance = random.Random(15)
    words = [f"word{number}." for number in range(200)]

    def finish() -> None:
        while world.answer()["outcome"] != "done":
            world.step += 1

    for first in range(0, 200, 4):
        world.start()
        racers: list[Callable[[], object]] = [finish]
        racers += [partial(world.steer, word) for word in words[first : first + 4]]
        together(racers, [chance.uniform(0, 0.008) for _ in range(5)])
    superseded = len(world.events("OutputSuperseded"))
    late = len(world.state()["steers"])
    world.start("the last turn takes what is left")
    log = world.events()
    delivered = Counter(event.data["steer"] for event in log if event.type == "SteerDelivered")
    assert set(delivered.values()) == {1}
    assert sorted(delivered) == sorted(event.data["steer"] for event in log if event.type == "SteerQueued")
    transcript = Transcript()
    transcript.feed(log)
    conversation = "\n".join(entry.text for entry in transcript.entries)
    assert Counter(conversation.count(word) for word in words) == {1: 200}
    assert superseded, "some arrived before the end"
    assert late or any(event.step == 1 for event in log if event.type == "SteerDelivered"), "some came after it"
    check_log(log, fold(log))
