"""The database's own share: events are immutable, and the one change there is leaves a trace (A3)."""

from typing import Any

import orjson
import psycopg
import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import chain, payload, read
from tests.support.world import World

Sql = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def world(database: str, redis_url: str) -> World:
    """A session with a turn that was stopped in a call."""
    world = World.create()
    world.start("a pasted key")
    world.plan("a", text="words")
    world.start_tool("a")
    world.stop(reason="a reason")
    world.end(cut_off={"text": "half"})
    return world


BY_HAND = (
    "UPDATE event SET type = 'LoopIdle' WHERE seq = 5",
    "UPDATE event SET facts = '\\x00'",
    "UPDATE event SET texts = '\\x00' WHERE seq = 4",
    "UPDATE event SET at = now()",
    "UPDATE event SET actor = '{}'",
    "UPDATE event SET link = ''",
    "UPDATE event SET seq = seq + 100",
    "UPDATE event SET texts = NULL WHERE seq = 4",
    "UPDATE event SET texts = NULL",
    "UPDATE event SET erases = 4 WHERE seq = 5",
    "DELETE FROM event WHERE seq = 4",
    "DELETE FROM event",
    "TRUNCATE event",
    "TRUNCATE session CASCADE",
    "DELETE FROM session",
    "INSERT INTO event SELECT * FROM event WHERE seq = 4",
)


@pytest.mark.rule("A3")
def test_no_hand_changes_or_removes_an_event(world: World, sql: Sql) -> None:
    before = sql.execute("SELECT * FROM event ORDER BY seq").fetchall()
    for statement in BY_HAND:
        with pytest.raises(psycopg.errors.IntegrityError):
            sql.execute(statement)
        assert sql.execute("SELECT * FROM event ORDER BY seq").fetchall() == before, statement


@pytest.mark.rule("A3")
def test_after_a_content_erased_only_the_texts_may_go_and_only_of_that_event(world: World, sql: Sql) -> None:
    control.erase(world.owner, world.session, new_id(), 4, "a pasted key")
    for statement in (
        "UPDATE event SET texts = '\\x78' WHERE seq = 4",
        "UPDATE event SET texts = NULL WHERE seq = 6",
        "UPDATE event SET texts = NULL, type = 'x' WHERE seq = 4",
        "DELETE FROM event WHERE seq = 4",
    ):
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
            sql.execute(statement)


@pytest.mark.rule("A3")
def test_an_erased_event_says_so_everywhere_and_the_chain_still_verifies(world: World, sql: Sql) -> None:
    [queued] = world.events("InputQueued")
    id = new_id()
    receipt = control.erase(world.owner, world.session, id, queued.seq, "a pasted key")
    assert control.erase(world.owner, world.session, id, queued.seq, "a pasted key") == receipt
    [erased] = world.events("ContentErased")
    assert (erased.data, erased.actor) == ({"seq": queued.seq, "reason": "a pasted key"}, world.owner.actor)
    frame = orjson.loads(read.events(world.session, queued.seq - 1, limit=1)[0])
    assert frame["data"] == {
        "input": queued.data["input"], "text": {"erased": True}, "agency": "human", "delivery": "queue", "position": 0,
    }  # fmt: skip
    assert list(chain.verify(world.session)) == []
    with pytest.raises(Refused, match="not_found"):
        control.erase(world.owner, world.session, new_id(), queued.seq, "again")
    assert b"pasted" not in bytes(sql.execute("SELECT facts FROM event WHERE seq = 4").fetchall()[0]["facts"])


@pytest.mark.rule("A3", "A2")
def test_every_text_of_every_event_can_be_erased_and_the_fold_is_the_same(world: World, sql: Sql) -> None:
    for seq, texts in [(row["seq"], row["texts"]) for row in sql.execute("SELECT seq, texts FROM event").fetchall()]:
        if texts:
            control.erase(world.owner, world.session, new_id(), seq, "all of it")
        else:
            with pytest.raises(Refused, match="not_found"):
                control.erase(world.owner, world.session, new_id(), seq, "no text")
    assert list(chain.verify(world.session)) == []
    [row] = sql.execute("SELECT title FROM session").fetchall()
    assert row["title"] == "erased"
    assert sql.execute("SELECT reason FROM interruption").fetchall() == [{"reason": None}]
    everything = b"".join(read.events(world.session))
    for text in (b"a pasted key", b"words", b"half", b"a reason", b"echo a", b"A test"):
        assert text not in everything
    world.start("the session goes on")
    world.answer()
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("A3")
def test_erasing_what_is_not_there_is_refused_and_leaves_no_event(world: World) -> None:
    before = world.types()
    for seq in (0, -1, 99, 10**12):
        with pytest.raises(Refused) as refused:
            control.erase(world.owner, world.session, new_id(), seq, "why")
        assert refused.value.code == "not_found"
    with pytest.raises(Refused, match="blank"):
        control.erase(world.owner, world.session, new_id(), 4, " ")
    assert world.types() == before


@pytest.mark.rule("A3")
def test_an_old_title_that_is_erased_does_not_take_the_new_one_with_it(world: World, sql: Sql) -> None:
    control.change_session(world.owner, world.session, new_id(), title="A better title")
    control.erase(world.owner, world.session, new_id(), 1, "the old title")
    assert sql.execute("SELECT title FROM session").fetchall() == [{"title": "A better title"}]
    assert list(chain.verify(world.session)) == []


@pytest.mark.rule("A3")
def test_erasing_a_tool_s_output_leaves_the_stop_s_reason(world: World, sql: Sql) -> None:
    [planned] = world.events("StepPlanned")
    control.erase(world.owner, world.session, new_id(), planned.seq, "a pasted key")
    assert sql.execute("SELECT reason FROM interruption").fetchall() == [{"reason": "a reason"}]


@pytest.mark.rule("A3", "L4")
def test_frames_are_the_stored_bytes_whoever_asks(world: World) -> None:
    frames = read.events(world.session)
    with_texts = [event.data for event in read.engine_events(world.session)]
    assert [orjson.loads(frame)["data"] for frame in frames] == with_texts
    assert read.events(world.session) == frames


@pytest.mark.rule("A3")
@pytest.mark.parametrize(
    ("type_", "data"),
    [
        ("StepPlanned", {"text": "é\U0001f680", "reasoning": "", "calls": [
            {"call": "a", "tool": "shell", "arguments": {"x": [1, None, {"y": "\\u0000 \" \\"}]}},
            {"call": "b", "tool": "shell", "arguments": {}},
        ], "usage": {"output_tokens": 1}}),
        ("TurnInterrupted", {"cut_off": {"text": "", "reasoning": "x"}, "reason": None, "processes": {
            "ended": [{"pid": 1, "command": "a"}, {"pid": 2, "command": "b"}], "surviving": [], "unknown": False,
        }}),
        ("LoopIdle", {}),
        ("SessionChanged", {"settings": {"stop_queue": "run"}}),
    ],
)  # fmt: skip
def test_a_payload_is_stored_in_two_parts_that_give_its_exact_bytes(type_: str, data: dict[str, Any]) -> None:
    parts = payload.encode(type_, data)
    assert payload.splice(parts.facts, parts.texts) == orjson.dumps(data)
    assert payload.whole(parts.facts, parts.texts) == data
    facts = payload.facts_only(parts.facts)
    assert orjson.dumps(facts) == parts.facts.replace(b"\0", b"null")
    assert payload.splice(parts.facts, None).count(b'{"erased":true}') == parts.facts.count(b"\0")
