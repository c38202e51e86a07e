"""Reading a log: pages, snapshots that later events continue, what an observer gets, and the bell beside it."""

from typing import Any

import orjson
import psycopg
import pytest
import redis

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.engine.fold import fold
from sessions_app.engine.state import from_json, to_json
from sessions_app.ids import new_id
from sessions_app.log import bell, db, phases, read
from tests.support.world import World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def world() -> World:
    """A session with 15 events: three of its creation, and two turns."""
    world = World.create()
    for text in ("one", "two"):
        world.start(text)
        world.answer("done")
    return world


def seqs(frames: list[bytes]) -> list[int]:
    return [orjson.loads(frame)["seq"] for frame in frames]


@pytest.mark.rule("A1", "L1")
def test_pages_of_the_log(world: World) -> None:
    everything = read.events(world.session)
    assert seqs(everything) == list(range(1, 16))
    assert seqs(read.events(world.session, 4, limit=3)) == [5, 6, 7]
    assert seqs(read.events(world.session, 4, 7)) == [5, 6]
    assert seqs(read.events(world.session, order="desc", limit=2)) == [15, 14]
    assert seqs(read.events(world.session, before=5, order="desc", limit=2)) == [4, 3]
    assert seqs(read.events(world.session, types=["TurnDone", "InputQueued"])) == [4, 7, 10, 13]
    assert read.events(world.session, 15) == read.events(new_id()) == []
    in_loop = read.events(world.session, loop=new_id())
    assert [orjson.loads(frame)["type"] for frame in in_loop] == [
        "SessionCreated", "MemberChanged", "SessionIdle", "SessionIdle",
    ], "events of the session itself pass any loop"  # fmt: skip
    assert read.events(world.session, loop=world.loop) == everything
    paged: list[bytes] = []
    while page := read.events(world.session, len(paged), limit=4):
        paged += page
    assert paged == everything


@pytest.mark.rule("L1")
def test_the_frame_of_an_event(world: World) -> None:
    [queued] = [orjson.loads(frame) for frame in read.events(world.session, 3, limit=1)]
    assert queued == {
        "t": "event", "v": 1, "seq": 4, "type": "InputQueued", "at": queued["at"], "loop": world.loop, "turn": None,
        "step": None, "actor": world.owner.actor.json(), "cause": queued["cause"],
        "data": {
            "input": queued["data"]["input"], "text": "one", "agency": "human", "delivery": "queue", "position": 0,
        },
    }  # fmt: skip
    assert queued["at"].endswith("Z")


@pytest.mark.rule("L1", "A2")
def test_a_snapshot_and_what_comes_after_it_are_the_state_at_any_time(world: World) -> None:
    """The best test of an event system: old state and the events since then make the state fetched afresh."""
    world.start("work")
    world.plan("a", "b")
    waiting, steer = world.submit("later"), world.steer("left")
    old = read.snapshot(world.session)
    assert old["seq"] == world.events()[-1].seq
    assert old["texts"] == {waiting: "later", steer: "left"}
    world.start_tool("a")
    world.stop(queue="hold", then={"text": "do X instead"})
    world.end()
    world.claim()
    new = read.snapshot(world.session)
    after = read.engine_events(world.session, old["seq"])
    assert [event.seq for event in after] == list(range(old["seq"] + 1, new["seq"] + 1))
    told = to_json(fold(after, from_json(old["state"])))
    assert orjson.loads(orjson.dumps(told)) == new["state"]


@pytest.mark.rule("A3", "L1")
def test_a_snapshot_says_which_waiting_text_was_erased(world: World) -> None:
    waiting = world.submit("a pasted key")
    control.edit_input(world.owner, world.session, new_id(), waiting, text="a pasted key, again")
    control.erase(world.owner, world.session, new_id(), world.events("InputChanged")[0].seq, "a key")
    assert read.snapshot(world.session)["texts"] == {waiting: {"erased": True}}
    with pytest.raises(Refused, match="session_not_found"):
        read.snapshot(new_id())


@pytest.mark.rule("L4")
def test_an_observer_gets_every_number_but_not_what_is_not_theirs() -> None:
    owner = person("ana")
    made = control.create_session(owner, new_id(), instructions="be brief")
    world = World(owner, made["id"], made["loop"])
    person("kim")
    control.set_member(owner, world.session, new_id(), person="kim", role="observer")
    world.submit("hello")
    member = [orjson.loads(frame) for frame in read.events(world.session)]
    observer = [orjson.loads(frame) for frame in read.events(world.session, audience="observer")]
    assert [frame["seq"] for frame in observer] == [frame["seq"] for frame in member]
    assert [frame["type"] for frame in observer if frame["data"] == {}] == ["MemberChanged", "MemberChanged"]
    started = [frame["data"] for frame in (*member, *observer) if frame["type"] == "LoopStarted"]
    assert [data.get("instructions") for data in started] == ["be brief", None]
    assert {orjson.dumps(frame["actor"]["device"]) for frame in observer} == {b'{"kind":"desk"}'}
    assert observer[-1]["data"] == member[-1]["data"]


@pytest.mark.rule("L5")
def test_heads_are_the_slow_poll_behind_the_bell(world: World) -> None:
    other = World.create("ben")
    assert read.heads([world.session, other.session, new_id()]) == {world.session: 15, other.session: 3}


@pytest.mark.rule("L5", "L1")
def test_the_bell_carries_each_audience_s_frames_byte_for_byte(world: World, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as ears:
        ears.subscribe(bell.SESSION_CHANNEL.format(world.session), bell.LIST_CHANNEL)
        for _ in range(2):
            ears.get_message(timeout=5)
        world.submit("hello")
        heard = [message for _ in range(2) if (message := ears.get_message(timeout=5))]
    said = {message["channel"].decode(): orjson.loads(message["data"]) for message in heard}
    [frame], [hidden] = read.events(world.session, 15), read.events(world.session, 15, audience="observer")
    assert said == {
        bell.SESSION_CHANNEL.format(world.session): {
            "k": "events", "events": [{"seq": 16, "member": frame.decode(), "observer": hidden.decode()}],
        },
        bell.LIST_CHANNEL: {"id": world.session},
    }  # fmt: skip


@pytest.mark.rule("A1", "D9", "E2")
def test_what_a_worker_is_doing_stands_beside_the_log_and_is_handed_to_the_decision(world: World) -> None:
    turn = world.start()
    before = world.types()
    assert phases.set_retry(turn, world.epoch, 2, 4.0) is not None
    [doing] = read.phases(world.session)
    assert (doing["turn"], doing["phase"], doing["attempt"]) == (turn, "retry", 2)
    assert doing["next_at"] > doing["since"]
    lands = control.steer(world.owner, world.session, new_id(), text="left")["lands"]
    assert (lands["when"], lands["after"]) == ("safe_point", "retry")
    world.stop()
    assert world.events("InterruptRequested")[0].data["phases"] == {turn: "retry"}
    assert world.types()[len(before) :] == ["SteerQueued", "InterruptRequested"], "a phase is no event"
    assert phases.set_retry(turn, world.epoch + 1, 3, 1.0) is None, "a worker that lost its turn says nothing more"
    world.end()
    assert read.phases(world.session) == []


@pytest.mark.rule("E8", "E2")
def test_the_time_to_acknowledge_is_measured_once_by_the_database(world: World) -> None:
    turn = world.start()
    assert phases.acknowledge(turn) is None
    assert phases.marked_among([turn]) == []
    world.stop()
    request = world.events("InterruptRequested")[0].data["request"]
    assert phases.marked_among([turn, new_id()]) == [turn]
    first, again = phases.acknowledge(turn), phases.acknowledge(turn)
    assert first is not None
    assert first == again
    assert first[:2] == (request, "model")
    assert 0 <= first[2] < 60_000


@pytest.mark.rule("B2")
def test_the_session_says_in_a_word_what_it_does(world: World, sql: Sql) -> None:
    def word() -> tuple[str, bool]:
        [row] = sql.execute("SELECT word, runnable FROM session").fetchall()
        return row["word"], row["runnable"]

    assert word() == ("idle", False)
    world.submit("one")
    assert word() == ("waiting", True), "never running before a worker has it"
    assert phases.runnable_loops(10) == [(world.session, world.loop)]
    world.claim()
    assert word() == ("running", False)
    world.submit("two")
    assert word() == ("running", False)
    world.stop()
    assert word() == ("stopping", False)
    world.end()
    assert word() == ("waiting", True)
    world.stop()
    assert word() == ("idle", False)
    assert phases.runnable_loops(10) == []
    control.release(world.owner, world.session, new_id())
    world.claim()
    control.close(world.owner, world.session, new_id())
    assert word() == ("closing", False)
    world.end()
    assert word() == ("closed", False)


def test_a_pool_that_was_closed_says_so(world: World) -> None:
    with db.cursor("read") as cur:
        assert cur.execute("SELECT 1").fetchone() == (1,)
    db._pools["read"].close()
    try:
        with pytest.raises(psycopg.OperationalError, match="closed"):
            read.heads([world.session])
    finally:
        del db._pools["read"]
