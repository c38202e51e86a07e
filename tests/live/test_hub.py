"""The hub against a real Valkey and a real PostgreSQL: order, gaps, repair, late joiners, a bell that is gone."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
import redis

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.live.client import DROP_ABOVE, MERGE_ABOVE, STALL_S
from sessions_app.live.counters import counters
from sessions_app.live.feed import Reader
from sessions_app.live.hub import Hub
from sessions_app.live.watch import Watch
from sessions_app.log import bell, stream
from sessions_app.log.stream import Piece
from tests.live.recording import RecordingWire, Watcher
from tests.support import services
from tests.support.waiting import PATIENCE_S, wait_until_async
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
async def hub(database: str, redis_url: str) -> AsyncIterator[Hub]:
    hub = Hub(redis_url)
    hub.start()
    await until(lambda: hub.hearing.up, "hearing")
    yield hub
    await hub.stop()


@pytest.fixture
def world(database: str, redis_url: str) -> World:
    return World.create()


async def until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    async def asked() -> Any:
        return condition()

    return await wait_until_async(asked, what, timeout_s)


@asynccontextmanager
async def watching(hub: Hub, world: World, *watchers: Watcher) -> AsyncIterator[Watch]:
    async with hub.watching(world.session) as watch:
        for watcher in watchers:
            hub.join(watch, watcher.client)
            await watch.catch_up(watcher.client)
        yield watch
        for watcher in watchers:
            hub.leave(watch, watcher.client)


@asynccontextmanager
async def only_the_bell(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    """A hub that has no poll: what the bell does not bring is not there."""
    monkeypatch.setattr("sessions_app.live.poll.POLL_S", 3600)
    hub = Hub(redis_url)
    hub.start()
    try:
        await until(lambda: hub.hearing.up, "hearing")
        yield hub
    finally:
        await hub.stop()


def delta(world: World, offset: int, text: str, kind: str = "text", attempt: int = 1, call: str = "") -> None:
    frame = {"t": "delta", "loop": world.loop, "turn": world.turn, "step": world.step, "attempt": attempt, "kind": kind}
    bell.delta(world.session, {**frame, "offset": offset, "text": text, **({"call": call} if call else {})})


def save(world: World, text: str, kind: str = "text", attempt: int = 1, call: str = "") -> None:
    stream.save([Piece(world.session, world.loop, world.turn, world.step, attempt, kind, text, call)])


def publish(world: World, redis_url: str, **message: Any) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.publish(bell.SESSION_CHANNEL.format(world.session), orjson.dumps(message))


@pytest.mark.rule("L1")
async def test_a_client_gets_the_replay_then_the_marker_then_what_happens(hub: Hub, world: World) -> None:
    world.submit("before")
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher):
        assert watcher.seqs() == [1, 2, 3, 4]
        assert [frame["t"] for frame in watcher.wire.frames][-1] == "caught_up"
        assert watcher.frames("caught_up") == [{"t": "caught_up", "seq": 4}]
        world.submit("after")
        await until(lambda: watcher.seqs() == [1, 2, 3, 4, 5], "the live event")


@pytest.mark.rule("L1")
@pytest.mark.scenario("D16")
async def test_a_client_that_resumes_gets_only_what_is_newer(hub: Hub, world: World) -> None:
    for number in range(150):
        input_id = world.submit(f"text {number}")
        control.retract_input(world.owner, world.session, new_id(), input_id)
    resumed, ahead = Watcher(world.owner, after=290), Watcher(world.owner, after=303)
    async with watching(hub, world, resumed, ahead):
        assert resumed.seqs() == list(range(291, 304))
        assert ahead.seqs() == []
        assert ahead.frames("caught_up") == [{"t": "caught_up", "seq": 303}]


@pytest.mark.rule("A3", "L1")
async def test_a_client_that_resumes_never_gets_an_erased_text(hub: Hub, world: World) -> None:
    watcher, resumed = Watcher(world.owner), Watcher(world.owner, after=3)
    async with watching(hub, world, watcher) as watch:
        world.submit("a pasted key")
        await until(lambda: watcher.seqs()[-1] == 4, "the event")
        control.erase(world.owner, world.session, new_id(), 4, "a key")
        await until(lambda: watcher.seqs()[-1] == 5, "the erase")
        hub.join(watch, resumed.client)
        await watch.catch_up(resumed.client)
        assert resumed.seqs() == [4, 5]
        assert b"a pasted key" not in orjson.dumps(resumed.wire.frames)
        hub.leave(watch, resumed.client)


@pytest.mark.rule("L1", "L5")
async def test_hints_that_are_lost_repeated_or_out_of_order_change_nothing(
    hub: Hub, world: World, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher) as watch:
        rung: list[Any] = []
        monkeypatch.setattr("sessions_app.control.transact.bell.ring", rung.append)
        for number in range(12):
            world.submit(f"text {number}")
        missed = counters.gaps_missed
        for at in (3, 4, 2, 11, 3, 0, 1, 11):  # of the twelve, most are never rung, some twice, none in order
            with monkeypatch.context() as real:
                real.undo()
                bell.ring(rung[at])
        await until(lambda: watcher.seqs() == list(range(1, 16)), "every event once, in order")
        assert watch.head == 15
        assert counters.gaps_missed > missed
        assert counters.gaps_repaired >= 10


@pytest.mark.rule("L5")
async def test_events_that_are_never_rung_are_found_by_the_slow_poll(
    hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher):
        monkeypatch.setattr("sessions_app.control.transact.bell.ring", lambda appended: None)
        world.submit("unheard")
        await until(lambda: watcher.seqs() == [1, 2, 3, 4], "the event by the poll", 5)


@pytest.mark.rule("L5")
async def test_a_hint_that_is_not_true_is_ignored(hub: Hub, world: World, redis_url: str) -> None:
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher) as watch:
        publish(world, redis_url, k="events", events=[{"seq": 9_000, "member": "{}", "observer": "{}"}])
        world.submit("true")
        await until(lambda: watcher.seqs() == [1, 2, 3, 4], "the true event")
        await until(lambda: watch.known == 4, "forgetting the false one")


@pytest.mark.rule("L4")
async def test_observers_get_their_own_encoding_live_and_replayed(hub: Hub, world: World) -> None:
    member, observer = Watcher(world.owner), Watcher(person("kim"), "observer")
    async with watching(hub, world, member, observer):
        world.submit("hello")
        await until(lambda: observer.seqs() == member.seqs() == [1, 2, 3, 4], "both up to date")
        late = Watcher(person("kim"), "observer")
        async with watching(hub, world, late):
            assert late.frames("event") == observer.frames("event")
    changed = observer.frames("event")[1]
    assert (changed["type"], changed["data"]) == ("MemberChanged", {})
    assert member.frames("event")[1]["data"]["role"] == "owner"
    assert observer.frames("event")[3]["actor"]["device"] == {"kind": "desk"}
    assert member.frames("event")[3]["actor"]["device"] == {"kind": "desk", "name": "ana's desk"}


@pytest.mark.rule("L2")
async def test_a_late_joiner_gets_the_text_so_far_and_then_the_rest(hub: Hub, world: World) -> None:
    world.start()
    early, late = Watcher(world.owner), Watcher(world.owner)
    async with watching(hub, world, early) as watch:
        delta(world, 0, "Once upon ")
        delta(world, 10, "a time")
        await until(lambda: early.text() == "Once upon a time", "the first half")
        hub.join(watch, late.client)
        [so_far] = watch.streams.steps()
        delta(world, 16, ", a \U0001f680")
        await until(lambda: early.text().endswith("\U0001f680"), "the second half")
        assert late.frames("delta") == []  # not before its replay is over
        await watch.catch_up(late.client)
        await until(lambda: late.text(start=so_far.text) == "Once upon a time, a \U0001f680", "the rest")
        delta(world, 21, "!")
        await until(lambda: late.text(start=so_far.text) == early.text() == "Once upon a time, a \U0001f680!", "live")


@pytest.mark.rule("L2")
async def test_a_process_that_watches_late_has_the_saved_text_and_closes_the_gap(hub: Hub, world: World) -> None:
    world.start()
    save(world, "Once upon")
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher) as watch:
        [so_far] = watch.streams.steps()
        assert so_far.text == "Once upon"
        delta(world, 16, ", the end")
        await until(watch.streams.gaps, "the gap")
        save(world, "Once upon a time, the")
        whole = "Once upon a time, the end"
        await until(lambda: watcher.text(start=so_far.text) == whole, "the whole text")
        assert not watch.streams.gaps()


@pytest.mark.rule("L2")
async def test_deltas_of_a_finished_step_are_ignored_and_a_higher_attempt_starts_again(hub: Hub, world: World) -> None:
    world.start()
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher) as watch:
        delta(world, 0, "first")
        delta(world, 0, "second", attempt=2)
        delta(world, 5, " late")
        await until(lambda: len(watcher.frames("delta")) == 2, "both attempts")
        assert [(f["attempt"], f["offset"], f["text"]) for f in watcher.frames("delta")] == [
            (1, 0, "first"),
            (2, 0, "second"),
        ]
        world.plan("a")
        delta(world, 6, " late", attempt=2)
        world.start_tool("a")
        delta(world, 0, "output", kind="tool", call="a")
        await until(lambda: watcher.text("tool") == "output", "the output")
        world.settle("a")
        delta(world, 6, " late", kind="tool", call="a")
        await until(lambda: watcher.frames("event")[-1]["type"] == "StepDone", "the end of the step")
        world.submit("marker")
        await until(lambda: watcher.frames("event")[-1]["type"] == "InputQueued", "the marker")
        assert len(watcher.frames("delta")) == 3
        assert list(watch.streams.steps()) == []


@pytest.mark.rule("L1", "L2", "L5")
@pytest.mark.scenario("D33")
async def test_redis_gone_and_started_empty_costs_latency_not_events(hub: Hub, world: World, redis_url: str) -> None:
    world.start()
    watcher = Watcher(world.owner)
    async with watching(hub, world, watcher):
        delta(world, 0, "before ")
        await until(lambda: watcher.text() == "before ", "text before the outage")
        services.valkey().stop()
        await until(lambda: not hub.hearing.up, "the outage")
        world.steer("during")
        save(world, "before during ")
        await until(lambda: watcher.frames("event")[-1]["type"] == "SteerQueued", "an event during the outage", 3)
        await until(lambda: watcher.text() == "before during ", "text during the outage", 3)
        services.valkey().start()
        await until(lambda: hub.hearing.up, "Redis again")
        bell.configure(redis_url)  # its publisher keeps quiet for a second after a failure, which is not tested here
        delta(world, 14, "after")
        await until(lambda: watcher.text() == "before during after", "text by the new subscription", 3)
        world.plan("a")
        await until(lambda: watcher.frames("event")[-1]["type"] == "StepPlanned", "events by the new subscription")
        assert watcher.seqs() == list(range(1, world.events()[-1].seq + 1))


@pytest.mark.rule("L3")
@pytest.mark.scenario("D21")
async def test_a_client_that_is_behind_gets_its_text_merged_not_dropped(hub: Hub, world: World) -> None:
    world.start()
    slow, quick = Watcher(world.owner), Watcher(world.owner)
    async with watching(hub, world, slow, quick):
        delta(world, 0, "a")
        await until(lambda: slow.text() == "a", "the first delta")
        slow.wire.full = MERGE_ABOVE + 1
        for number in range(1, 30):
            delta(world, number, "a")
        await until(lambda: len(quick.text()) == 30, "the quick client")
        assert slow.text() == "a"
        world.steer("now")
        await until(lambda: slow.frames("event")[-1]["type"] == "SteerQueued", "events go on")
        slow.wire.full = 0
        await until(lambda: slow.text() == "a" * 30, "the text it was owed")
        assert len(slow.frames("delta")) == 2
        delta(world, 30, "b")
        await until(lambda: slow.text() == quick.text() == "a" * 30 + "b", "live again")


@pytest.mark.rule("L3")
@pytest.mark.scenario("D21")
async def test_a_client_that_is_far_behind_is_told_to_resume(hub: Hub, world: World) -> None:
    slow, quick = Watcher(world.owner), Watcher(world.owner)
    async with watching(hub, world, slow, quick):
        slow.wire.full = DROP_ABOVE + 1
        dropped = counters.clients_dropped_slow
        world.submit("too much")
        await until(lambda: slow.wire.code is not None, "its end")
        assert (slow.wire.code, slow.wire.frames[-1]) == (4408, {"t": "resync", "after": 3})
        assert counters.clients_dropped_slow == dropped + 1
        world.submit("goes on")
        await until(lambda: quick.seqs() == [1, 2, 3, 4, 5], "the others")


@pytest.mark.rule("L3")
@pytest.mark.scenario("D21")
async def test_a_client_that_takes_nothing_for_ten_seconds_has_stalled(world: World) -> None:
    stalled, slow, idle = Watcher(world.owner), Watcher(world.owner), Watcher(world.owner)
    begin = time.monotonic()
    for second in range(int(STALL_S) + 2):
        stalled.wire.full = slow.wire.full = 1000
        slow.wire.has_taken = second
        for watcher in (stalled, slow, idle):
            watcher.client.check_pace(begin + second)
    assert (stalled.wire.code, slow.wire.code, idle.wire.code) == (4408, None, None)


@pytest.mark.rule("L4")
async def test_filters_choose_events_and_live_text_apart(hub: Hub, world: World) -> None:
    world.start()
    other = "0192f3a4-0000-7000-8000-00000000000f"
    types = Watcher(world.owner, types=frozenset({"SteerQueued"}), live=False)
    loops = Watcher(world.owner, loops=frozenset({other}), live_loops=frozenset({other}))
    live = Watcher(world.owner, live_loops=frozenset({world.loop}))
    async with watching(hub, world, types, loops, live):
        delta(world, 0, "text")
        world.steer("left")
        await until(lambda: types.frames("event"), "the steer")
        await until(lambda: live.text() == "text", "the text")
    assert [frame["type"] for frame in types.frames("event")] == ["SteerQueued"]
    assert [frame["type"] for frame in loops.frames("event")] == ["SessionCreated", "MemberChanged"]
    assert types.frames("delta") == loops.frames("delta") == []


@pytest.mark.rule("L5")
async def test_other_live_frames_reach_everybody_who_wants_them(hub: Hub, world: World) -> None:
    watcher, quiet = Watcher(world.owner), Watcher(world.owner, live=False)
    stopping = {"t": "stopping", "request": "r", "turn": "t", "phase": "tool", "acknowledged_ms": 3}
    async with watching(hub, world, watcher, quiet):
        bell.frame(world.session, stopping)
        await until(lambda: watcher.frames("stopping") == [stopping], "the frame")
        assert quiet.frames("stopping") == []


@pytest.mark.rule("L1", "L5")
@pytest.mark.scenario("D34")
async def test_clients_that_come_and_go_cost_the_steady_ones_nothing(
    world: World, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steady clients in two sessions, three that come and go there and in a third, where nobody stays.

    The bell alone has to bring everything: what the log had to make up for would be counted as missed.
    """
    monkeypatch.setattr("sessions_app.live.hub.LINGER_S", 0.0)
    second, third = World.create(), World.create()
    steady = {each.session: [Watcher(world.owner), Watcher(world.owner)] for each in (world, second)}
    over = asyncio.Event()
    visits = [0, 0, 0]

    async def come_and_go(hub: Hub, number: int) -> None:
        cursors = {each.session: 0 for each in (world, second, third)}
        while not over.is_set():
            for each in (world, third, second):
                visitor = Watcher(world.owner, after=cursors[each.session])
                async with watching(hub, each, visitor):
                    await asyncio.sleep(0)
                seqs = visitor.seqs()
                assert seqs == list(range(cursors[each.session] + 1, cursors[each.session] + 1 + len(seqs)))
                cursors[each.session] += len(seqs)
            visits[number] += 1

    async with (
        only_the_bell(redis_url, monkeypatch) as hub,
        watching(hub, world, *steady[world.session]),
        watching(hub, second, *steady[second.session]),
    ):
        missed, repaired, lost = counters.gaps_missed, counters.gaps_repaired, counters.bell_lost
        coming = [asyncio.create_task(come_and_go(hub, number)) for number in range(3)]
        for number in range(40):
            for each in (world, second, third):
                await asyncio.to_thread(each.steer if number % 10 == 9 else each.submit, f"text {number}")
        await until(lambda: min(visits) >= 25, "visits enough")
        over.set()
        await asyncio.gather(*coming)
        for watchers in steady.values():
            for watcher in watchers:
                await until(lambda seqs=watcher.seqs: seqs() == list(range(1, 44)), "every event once")  # type: ignore[misc]
        assert (counters.gaps_missed, counters.gaps_repaired, counters.bell_lost) == (missed, repaired, lost)


@pytest.mark.rule("L5")
@pytest.mark.scenario("D34")
async def test_what_a_steady_client_is_not_brought_is_counted_and_fetched(
    hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady, ring = Watcher(world.owner), bell.ring
    async with watching(hub, world, steady):
        missed, repaired = counters.gaps_missed, counters.gaps_repaired
        monkeypatch.setattr("sessions_app.control.transact.bell.ring", lambda appended: None)
        world.submit("not heard")
        monkeypatch.setattr("sessions_app.control.transact.bell.ring", ring)
        world.submit("heard, and out of sequence")
        await until(lambda: steady.seqs() == [1, 2, 3, 4, 5], "both")
        assert counters.gaps_missed > missed and counters.gaps_repaired > repaired


async def test_a_session_nobody_watches_is_let_go_of(hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.live.hub.LINGER_S", 0.1)
    async with watching(hub, world, Watcher(world.owner)):
        assert world.session in hub.watches
    await until(lambda: world.session not in hub.watches, "the end of the watch")
    again = Watcher(world.owner)
    async with watching(hub, world, again):
        world.submit("heard again")
        await until(lambda: again.seqs() == [1, 2, 3, 4], "the event")


@pytest.mark.rule("L1", "L5", "J5")
@pytest.mark.scenario("D35")
async def test_who_is_idle_for_longer_than_anything_lasts_sees_the_turn_that_starts_then(
    hub: Hub, world: World, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that expires does so within a second here, and the bell alone has to bring the events."""
    for name, short in (
        ("presence.EXPIRES_S", 1), ("attendance.REFRESH_S", 0.3), ("hub.LINGER_S", 0.2), ("hub.BEAT_S", 0.2),
        ("hearing.SILENCE_S", 0.3),
    ):  # fmt: skip
        monkeypatch.setattr(f"sessions_app.live.{name}", short)
    tab = Watcher(world.owner)
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("timeout", 1)  # connections without traffic are closed
        try:
            async with only_the_bell(redis_url, monkeypatch) as another, watching(another, world, tab):
                missed, lost = counters.gaps_missed, counters.bell_lost
                head, beats = tab.seqs()[-1], len(tab.frames("beat"))
                client.set("not-renewed", 1, ex=3)
                await until(lambda: not client.exists("not-renewed"), "three times as long as anything lasts")
                assert tab.seqs()[-1] == head, "idle all the while"
                heads = {beat["head"] for beat in tab.frames("beat")[beats:]}
                assert heads == {head}, "beats say so, by which silence is told from a quiet session"
                people = await hub.people_of_sessions([world.session])
                assert [person["name"] for person in people[world.session]] == ["ana"], "known elsewhere still"
                await asyncio.to_thread(world.start)
                await until(lambda: "TurnStarted" in [frame["type"] for frame in tab.frames("event")], "the turn")
                assert (counters.gaps_missed, counters.bell_lost) == (missed, lost), "heard, not made up for"
        finally:
            client.config_set("timeout", 0)


@pytest.mark.rule("A7", "L5")
@pytest.mark.scenario("D35")
async def test_a_beat_tells_the_newest_seq_and_the_databases_time(
    hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessions_app.live.hub.BEAT_S", 0.2)
    replaying, watcher = Watcher(world.owner, after=1), Watcher(world.owner)
    again = Hub(hub.redis_url)
    again.start()
    async with watching(again, world, watcher) as watch:
        again.join(watch, replaying.client)
        await until(lambda: watcher.frames("beat") and "now" in watcher.frames("beat")[-1], "beats")
        beat = watcher.frames("beat")[-1]
        assert beat["head"] == 3
        assert abs((datetime.fromisoformat(beat["now"]) - datetime.now(UTC)).total_seconds()) < 30
        assert replaying.frames("beat")[-1]["head"] == 1
    await again.stop()


@pytest.mark.rule("L5")
async def test_the_list_is_told_by_the_slow_poll_what_the_bell_did_not_bring(
    hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = RecordingWire()
    reader = Reader(wire, world.owner, "observer", caught_up=True)
    await hub.feed.join(reader)
    assert [(frame["id"], frame["state"]) for frame in wire.frames] == [(world.session, "idle")]
    await until(lambda: hub.feed.seen.get(world.session) == 3, "a round of the poll, so that what follows is news", 5)
    monkeypatch.setattr("sessions_app.control.transact.bell.ring", lambda appended: None)
    world.submit("unheard")
    await until(lambda: wire.frames[-1]["state"] == "waiting", "the new state", 5)
    hub.feed.leave(reader)


@pytest.mark.rule("L5")
async def test_presence_merges_devices_people_and_processes(hub: Hub, world: World, redis_url: str) -> None:
    desk, second, phone = Watcher(world.owner), Watcher(world.owner), Watcher(person("ana", "phone"))
    elsewhere = Hub(redis_url)
    elsewhere.start()
    ana = {"id": str(world.owner.person), "name": "ana", "role": "owner"}
    try:
        async with watching(hub, world, desk, second):
            kim = Watcher(person("kim"), "observer")
            async with watching(elsewhere, world, kim, phone):
                kims = {
                    "id": str(person("kim").person),
                    "name": "kim",
                    "role": "observer",
                    "devices": 1,
                    "kinds": ["desk"],
                }
                await until(lambda: desk.frames("presence"), "presence")
                await until(
                    lambda: (
                        [{**p, "devices": 0, "kinds": []} for p in desk.frames("presence")[-1]["people"]]
                        == [{**ana, "devices": 0, "kinds": []}, {**kims, "devices": 0, "kinds": []}]
                    ),
                    "both people on this side",
                )
                await until(lambda: len(kim.frames("presence")[-1]["people"]) == 2, "both people on the other side")
            await until(lambda: len(desk.frames("presence")[-1]["people"]) == 1, "kim gone")
    finally:
        await elsewhere.stop()
