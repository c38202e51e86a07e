"""`verify` finds whatever somebody did to a log behind the product's back, and names it; `rebuild` mends the caches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import chain
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def world() -> World:
    world = World.create()
    world.start("one")
    world.answer("done")
    world.start("two")
    world.answer("done")
    return world


@contextmanager
def behind_its_back(sql: Sql) -> Iterator[None]:
    """As a superuser who has switched the triggers off."""
    sql.execute("SET session_replication_role = replica")
    yield
    sql.execute("SET session_replication_role = DEFAULT")


def faults(world: World) -> list[tuple[int | None, str]]:
    return [(fault.seq, fault.what) for fault in chain.verify(world.session)]


MOVED = "it does not follow from the event before it: changed, moved or inserted"
COPY = """INSERT INTO event (session_id, seq, type, at, loop, turn, step, actor, cause, facts, texts, facts_digest,
    texts_digest, link, erases) SELECT session_id, %s, type, at, loop, turn, step, actor, cause, facts, texts,
    facts_digest, texts_digest, link, erases FROM event WHERE seq = 4"""
DAMAGES: list[tuple[str, int, str]] = [
    (
        "UPDATE event SET facts = replace(encode(facts, 'escape'), 'human', 'robot')::bytea WHERE seq = 4",
        4,
        "its facts were changed",
    ),
    ("UPDATE event SET texts = '\"0ne\"' WHERE seq = 4", 4, "its texts were changed"),
    ("UPDATE event SET texts = NULL WHERE seq = 4", 4, "its texts are gone, and no ContentErased says why"),
    ("UPDATE event SET at = at + interval '1 s' WHERE seq = 6", 6, MOVED),
    ("UPDATE event SET actor = replace(actor, 'ana', 'ben') WHERE seq = 4", 4, MOVED),
    ("UPDATE event SET cause = 'x' WHERE seq = 4", 4, MOVED),
    ("UPDATE event SET type = 'LoopIdle' WHERE seq = 9", 9, MOVED),
    ("UPDATE event SET type = 'TurnDone' WHERE seq = 4", 4, MOVED),
    ("UPDATE event SET step = 2 WHERE seq = 6", 6, MOVED),
    ("UPDATE event SET turn = NULL WHERE seq = 5", 5, MOVED),
    ("UPDATE event SET loop = NULL WHERE seq = 5", 5, MOVED),
    ("UPDATE event SET erases = 4 WHERE seq = 6", 6, MOVED),
    ("UPDATE event SET link = facts_digest WHERE seq = 6", 6, MOVED),
    ("DELETE FROM event WHERE seq = 5", 6, "event 5 is missing"),
    ("DELETE FROM event WHERE seq BETWEEN 5 AND 7", 8, "event 5 is missing"),
    ("DELETE FROM event WHERE seq = 1", 2, "event 1 is missing"),
    ("DELETE FROM event WHERE seq = 15", 15, "it is missing, with all events up to 15"),
    ("DELETE FROM event", 1, "it is missing, with all events up to 15"),
    ("UPDATE event SET seq = 21 - seq WHERE seq IN (10, 11)", 10, MOVED),
    ("UPDATE event SET seq = seq + 1 WHERE seq > 9; " + COPY % 10, 10, MOVED),
    (COPY % 16, 16, MOVED),
]


@pytest.mark.rule("A3")
def test_whatever_was_done_is_found_and_named(world: World, sql: Sql) -> None:
    assert (faults(world), world.events()[-1].seq) == ([], 15)
    sql.execute("CREATE TABLE saved AS TABLE event")
    sql.execute("ALTER TABLE event DROP CONSTRAINT event_pkey")  # or a renumbering would trip over itself
    for statement, seq, what in DAMAGES:
        with behind_its_back(sql):
            sql.execute(statement)
        assert (seq, what) in faults(world), statement
        with behind_its_back(sql):
            sql.execute("DELETE FROM event; INSERT INTO event TABLE saved")
        assert faults(world) == []


@pytest.mark.rule("A3")
def test_a_log_written_anew_from_some_point_on_still_differs_from_its_session(world: World, sql: Sql) -> None:
    """Whoever can compute the chain can forge a log; the session's own link, and any copy of it, gives them away."""
    with behind_its_back(sql):
        sql.execute("DELETE FROM event WHERE seq > 13")
    found = faults(world)
    assert (14, "it is missing, with all events up to 15") in found
    assert (None, "the cached column `chain` differs from the fold of the log") in found


@pytest.mark.rule("A3")
def test_only_the_session_that_was_touched_is_named(world: World, sql: Sql) -> None:
    other = World.create("ben")
    with behind_its_back(sql):
        sql.execute("UPDATE event SET cause = 'x' WHERE seq = 4")
    assert {fault.session for fault in chain.verify()} == {world.session}
    assert faults(other) == []


@pytest.mark.rule("A2")
def test_a_cached_column_that_differs_is_reported_and_rebuilt(world: World, sql: Sql) -> None:
    before = sql.execute("SELECT * FROM session").fetchall()
    damages = {
        "head": "UPDATE session SET head = 3",
        "chain": "UPDATE session SET chain = 'x'",
        "state": "UPDATE session SET state = jsonb_set(state, '{status}', '\"closed\"')",
        "fold": "UPDATE session SET fold = 0",
        "word": "UPDATE session SET word = 'running'",
        "word_since": "UPDATE session SET word_since = word_since + interval '1 us'",
        "active_at": "UPDATE session SET active_at = active_at - interval '1 us'",
        "runnable": "UPDATE session SET runnable = true",
        "settings": 'UPDATE session SET settings = \'{"stop_queue": "run"}\'',
        "title": "UPDATE session SET title = 'x'",
    }
    for column, statement in damages.items():
        sql.execute(statement)
        what = f"the cached column `{column}` differs from the fold of the log"
        assert (None, what) in faults(world)
        assert (None, what) in [(fault.seq, fault.what) for fault in chain.rebuild(world.session)]
        assert sql.execute("SELECT * FROM session").fetchall() == before
        assert faults(world) == []
    world.start("and it goes on")
    assert world.answer()["outcome"] == "done"


@pytest.mark.rule("A2", "A3")
def test_a_rebuild_leaves_a_damaged_log_and_what_shows_the_damage_alone(world: World, sql: Sql) -> None:
    for statement in ("DELETE FROM event WHERE seq > 13", "UPDATE event SET cause = 'x' WHERE seq = 4"):
        with behind_its_back(sql):
            sql.execute(statement)
        before = faults(world)
        assert before
        assert [(fault.seq, fault.what) for fault in chain.rebuild(world.session)] == before
        assert faults(world) == before


@pytest.mark.rule("A2")
def test_a_cache_of_another_fold_is_not_used_until_it_is_rebuilt(world: World, sql: Sql) -> None:
    sql.execute("UPDATE session SET fold = 0, state = '{}'")
    with pytest.raises(Refused) as refused:
        world.submit("three")
    assert refused.value.code == "unavailable"
    assert len(list(chain.rebuild())) == 2
    world.submit("three")


@pytest.mark.rule("A2")
def test_a_rebuild_in_the_middle_of_everything_changes_nothing(sql: Sql) -> None:
    world = World.create("kim")
    world.start("work")
    world.plan("a", "b")
    world.start_tool("a")
    world.submit("later")
    world.steer("left")
    world.stop(queue="hold", then={"text": "do X instead"})
    before = sql.execute("SELECT * FROM session").fetchall()
    assert list(chain.rebuild()) == []
    assert sql.execute("SELECT * FROM session").fetchall() == before
    world.end()
    assert [entry["held"] for entry in world.state()["inbox"]] == [False, True]


@pytest.mark.rule("A2")
def test_members_and_interruptions_are_compared_with_the_log_and_rebuilt(world: World, sql: Sql) -> None:
    person("kim")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="observer")
    turns = []
    for reason in ("wrong way", "a secret", None):
        turns.append(world.start("work"))
        world.stop(reason=reason)
        world.end(cut_off={"text": "half"})
    control.give_reason(world.owner, turns[2], new_id(), "too slow")
    control.erase(world.owner, world.session, new_id(), world.events("TurnInterrupted")[1].seq, "a key")
    assert faults(world) == []
    tables = {"member": "SELECT * FROM member ORDER BY 1, 2", "interruption": "SELECT * FROM interruption ORDER BY seq"}
    before = {table: sql.execute(query).fetchall() for table, query in tables.items()}
    assert [(row["reason"], row["cut_off"]) for row in before["interruption"]] == [
        ("wrong way", 4), (None, 4), ("too slow", 4),
    ]  # fmt: skip
    for statement in (
        "DELETE FROM member WHERE role = 'observer'",
        "UPDATE member SET role = 'owner'",
        "DELETE FROM interruption WHERE reason = 'too slow'",
        "UPDATE interruption SET reason = 'x'",
        "UPDATE interruption SET cut_off = 7 WHERE reason = 'too slow'",
    ):
        sql.execute(statement)
        table = "member" if "member" in statement else "interruption"
        found = [what for _, what in faults(world)]
        assert found, statement
        assert all(what.startswith(f"the table `{table}` differs") for what in found)
        assert [fault.what for fault in chain.rebuild(world.session)] == found
        assert sql.execute(tables[table]).fetchall() == before[table]
        assert faults(world) == []


@pytest.mark.rule("A2", "E13")
def test_background_processes_are_compared_with_the_log_and_rebuilt(world: World, sql: Sql) -> None:
    for call in ("a", "b"):
        world.start("serve")
        world.plan(call)
        world.start_tool(call)
        kept = {"ended": [], "surviving": [], "background": [{"pid": 9, "command": "npm start"}]}
        world.report(commands.SettleTool(world.turn, world.epoch, 1, call, commands.Settlement("ok", processes=kept)))
        world.begin()
        world.answer()
    control.kill_processes(world.owner, world.session, new_id(), "a")
    assert faults(world) == []
    query = "SELECT loop, turn, call, worker, started_at, kill_at IS NULL AS runs FROM background_process ORDER BY call"
    before = sql.execute(query).fetchall()
    assert [row["runs"] for row in before] == [False, True]
    for statement in (
        "DELETE FROM background_process WHERE call = 'a'",
        "UPDATE background_process SET kill_at = now()",
        "UPDATE background_process SET worker = turn",
    ):
        sql.execute(statement)
        found = [what for _, what in faults(world)]
        assert found == ["the table `background_process` differs from the fold of the log"], statement
        assert [fault.what for fault in chain.rebuild(world.session)] == found
        assert sql.execute(query).fetchall() == before
        assert faults(world) == []


@pytest.mark.rule("A2", "E7")
def test_survivors_are_compared_with_the_log_and_rebuilt(world: World, sql: Sql) -> None:
    left = {"ended": [], "surviving": [{"pid": 9, "command": "sleep"}], "background": []}
    for call in ("a", "b", "c"):
        world.start("go")
        world.plan(call)
        world.start_tool(call)
        world.settle(call, "error", processes=left)
        if call == "b":
            reports.survivors_ended(world.session, world.loop, world.turn, call, left["surviving"], WORKER)
        world.begin()
        world.answer()
        control.release(world.owner, world.session, new_id())
    assert faults(world) == []
    query = "SELECT loop, turn, call, worker, seq FROM survivor ORDER BY call"
    before = sql.execute(query).fetchall()
    assert [row["call"] for row in before] == ["a", "c"]
    for statement in ("DELETE FROM survivor WHERE call = 'a'", "UPDATE survivor SET worker = turn"):
        sql.execute(statement)
        found = [what for _, what in faults(world)]
        assert found == ["the table `survivor` differs from the fold of the log"], statement
        assert [fault.what for fault in chain.rebuild(world.session)] == found
        assert sql.execute(query).fetchall() == before
        assert faults(world) == []
