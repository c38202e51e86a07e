"""The stops as pages read them: what is in one and what is not, a page at a time, and how much a page reads."""

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
from sessions_app.log import db, listing, stops
from sessions_app.models import Person
from sessions_app.people.tokens import create_token, principal_from_token
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
Sql = psycopg.Connection[dict[str, Any]]
LEFT_RUNNING: dict[str, list[Any]] = {
    "ended": [], "surviving": [], "background": [{"pid": 77, "command": "npm run dev"}],
}  # fmt: skip
MANY = 12_000
"""A page that reads this many rows reads all there are."""
READ = """SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_user_tables
    WHERE relname IN ('event', 'interruption')"""
BULK = """
INSERT INTO event (session_id, seq, type, at, loop, turn, actor, cause, facts, texts, facts_digest, texts_digest, link)
SELECT i.session_id, 1000 + n * 3 + k, CASE k WHEN 0 THEN 'TurnInterrupted' ELSE 'KillRequested' END,
    i.at - n * interval '1 minute', i.loop, gen_random_uuid(), i.actor::text,
    CASE k WHEN 2 THEN 'loose' ELSE 'stop' END || n, '{"call":"c"}', '', '', '', ''
FROM interruption i, generate_series(1, %(many)s) n, generate_series(0, 2) k WHERE i.id = %(turn)s;
"""
BULK_TURNS = """
INSERT INTO interruption (id, session_id, loop, seq, turn_index, at, request, actor, cause, phase, ended_by, settled_ms,
    steps_kept, cut_off, ended, surviving, unknown, kept, held, cancelled)
SELECT e.turn, e.session_id, e.loop, e.seq, 1, e.at, gen_random_uuid(), e.actor::jsonb, 'person', 'model', 'worker', 1,
    0, 0, 0, 0, false, 0, 0, 0
FROM event e WHERE e.type = 'TurnInterrupted' AND e.seq > 1000
"""


def serving(name: str = "ana", *calls: str) -> World:
    """A running turn; each of these calls has left something running in the background."""
    world = World.create(name)
    world.start("serve it")
    for call in calls:
        world.plan(call, command="npm run dev")
        world.start_tool(call, command="npm run dev")
        settlement = commands.Settlement("ok", "x" * 10_000, processes=LEFT_RUNNING)
        world.report(commands.SettleTool(world.turn, world.epoch, world.step, call, settlement))
        world.begin()
    return world


def shapes(found: dict[str, Any]) -> list[tuple[int, int]]:
    """How many turns and how many kills each stop has."""
    return [(len(stop["turns"]), len(stop["kills"])) for stop in found["items"]]


@pytest.mark.rule("A4", "E13")
def test_somebody_else_s_command_of_the_same_id_is_no_part_of_a_stop() -> None:
    world, same = serving("ana", "a"), new_id()
    ben = person("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    control.interrupt(world.owner, world.session, same, keep_background=True)
    world.end()
    control.kill_processes(ben, world.session, same, "a")
    found = stops.stops(world.owner)
    assert shapes(found) == [(0, 1), (1, 0)]
    assert found["items"][0]["kills"][0]["actor"]["name"] == "ben"


@pytest.mark.rule("E8", "E13")
def test_ends_in_the_background_are_found_by_their_cause() -> None:
    by_token, by_person, by_worker, by_closing, in_stop = (serving("ana", "a") for _ in range(5))
    for world in (by_token, by_person, by_worker, by_closing):
        world.answer()
    agent = principal_from_token(create_token(Person.objects.get(username="ana"), "nightly", agent=True))
    assert agent is not None
    control.kill_processes(agent, by_token.session, new_id(), "a")
    control.kill_processes(by_person.owner, by_person.session, new_id(), "a")
    about = commands.BackgroundEnded(by_worker.turn, by_worker.loop, "a", (), why="worker_lost")
    reports.background_ended(by_worker.session, about, WORKER)
    control.close(by_closing.owner, by_closing.session, new_id())
    in_stop.stop()
    in_stop.end()
    for cause, worlds in (
        ("token", [by_token]), ("person", [in_stop, by_person]), ("worker_lost", [by_worker]),
        ("closing", [by_closing]), ("parent", []), ("no\0ne", []),
    ):  # fmt: skip
        found = stops.stops(by_person.owner, cause=cause)["items"]
        sessions = [(stop["turns"] or stop["kills"])[0]["session"] for stop in found]
        assert sessions == [world.session for world in worlds], cause


def test_every_stop_stands_on_one_page_as_a_whole() -> None:
    main = serving("ana", "a", "b")
    (child,) = main.delegate("read the first folder")
    assert child.claim()
    child.begin()
    main.stop()
    child.end()
    other = serving("ana", "c", "d")
    other.stop()
    other.end()
    main.end()
    alone = serving("ana", "e")
    alone.answer()
    control.kill_processes(alone.owner, alone.session, new_id(), "e")
    seen, cursor = [], None
    while True:
        found = stops.stops(main.owner, limit=1, cursor=cursor)
        seen += shapes(found)
        cursor = found["next"]
        if cursor is None:
            break
    assert seen == [(0, 1), (2, 2), (1, 2)] == shapes(stops.stops(main.owner))
    (kill,) = stops.stops(alone.owner, limit=1)["items"][0]["kills"]
    assert (kill["command"], [each["pid"] for each in kill["processes"]]) == ("npm run dev", [77])


@pytest.mark.parametrize(
    "cursor", ["2026-W01-1~x", "2026-11-30T00:00:00Z~\0~1", f"2026-11-30T00:00:00Z~{WORKER}~{2**63}", "~", "x"]
)
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(Refused, match="not one of ours"):
        stops.stops(person("ana"), cursor=cursor)


def test_a_cursor_of_interruptions_is_read_as_strictly() -> None:
    with pytest.raises(Refused, match="not one of ours"):
        listing.interruptions(person("ana"), cursor=f"2026-W01-1~{new_id()}")
    assert listing.interruptions(person("ana"), cursor=f"2026-11-30T00:00:00Z~urn:uuid:{new_id()}")["items"] == []


def test_a_page_and_one_stop_read_no_more_than_they_show(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [World.create(name) for name in ("ana", "ben", "ana")]
    for world in worlds:
        world.start()
        world.stop()
        world.end()
        sql.execute(BULK, {"many": MANY // 3, "turn": world.turn})
    sql.execute(BULK_TURNS)
    sql.execute("ANALYZE")
    read: list[int] = []
    monkeypatch.setattr(db, "cursor", counting(read))
    ana = worlds[0].owner
    first = stops.stops(ana)
    for query in (
        {"cursor": first["next"]}, {"person": "ana"}, {"cause": "person"}, {"session": worlds[0].session},
    ):  # fmt: skip
        assert len(stops.stops(ana, **query)["items"]) == 50
    turn = next(stop["turns"][0] for stop in first["items"] if stop["turns"] and stop["kills"])
    assert len(stops.stop_of(ana, turn)["kills"]) == 1
    few = World.create("kim")
    few.start()
    few.stop()
    few.end()
    assert len(stops.stops(few.owner)["items"]) == 1
    assert stops.stops(person("zoe"))["items"] == []
    assert max(read) < MANY // 10, read


def counting(read: list[int]) -> Any:
    """Connections that count the rows read over them."""
    real = db.cursor

    @contextmanager
    def cursor(*args: Any, **options: Any) -> Iterator[psycopg.Cursor[Any]]:
        with real(*args, **options) as cur:
            (before,) = cur.execute(READ).fetchone() or ()
            yield cur
            (after,) = cur.execute(READ).fetchone() or ()
            read.append(int(after - before))

    return cursor
