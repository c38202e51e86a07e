"""Stream text beside the log: saved whole, read back, bounded."""

import psycopg
import pytest

from sessions_app.ids import new_id
from sessions_app.log import stream
from sessions_app.log.stream import LIVE_CHARS, LIVE_NOTE, Piece
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("database", "redis_url")


def piece(world: World, text: str, step: int = 1, attempt: int = 1, kind: str = "text", call: str = "") -> Piece:
    return Piece(world.session, world.loop, world.turn, step, attempt, kind, text, call)


@pytest.fixture
def world() -> World:
    world = World.create()
    world.start()
    return world


@pytest.mark.rule("L2")
def test_all_dirty_streams_are_saved_at_once_and_read_back(world: World) -> None:
    other = World.create("ben")
    other.start()
    pieces = [
        piece(world, "think", kind="reasoning"),
        piece(world, "hello \U0001f680"),
        piece(world, "total 0\n", kind="tool", call="a"),
        piece(other, "elsewhere"),
    ]
    stream.save(pieces)
    stream.save([piece(world, "hello \U0001f680 again"), piece(other, "elsewhere too")])
    assert stream.read(world.session) == [pieces[0], piece(world, "hello \U0001f680 again"), pieces[2]]
    assert stream.read_turn(other.turn) == stream.read_running(other.session) == [piece(other, "elsewhere too")]
    stream.save([])


@pytest.mark.rule("L2")
def test_a_late_save_never_shortens_what_is_saved(world: World) -> None:
    stream.save([piece(world, "hello world")])
    stream.save([piece(world, "hello")])
    stream.save([piece(world, "hel"), piece(world, "hello world!")])
    assert [one.text for one in stream.read(world.session)] == ["hello world!"]


@pytest.mark.rule("L2")
def test_attempts_are_kept_apart_and_the_newest_one_counts(world: World) -> None:
    stream.save([piece(world, "first try", attempt=1), piece(world, "second", attempt=2)])
    assert [one.text for one in stream.read(world.session)] == ["first try", "second"]
    assert stream.newest_attempts(stream.read(world.session)) == [piece(world, "second", attempt=2)]


@pytest.mark.rule("A6", "L2")
def test_what_cannot_be_stored_is_replaced_one_for_one(world: World) -> None:
    stream.save([piece(world, "a\0b\ud83dc")])
    [saved] = stream.read(world.session)
    assert saved.text == "a�b�c"


@pytest.mark.rule("L2")
def test_a_stream_is_kept_up_to_its_limit_then_a_note_stands_instead(world: World) -> None:
    stream.save([piece(world, "x" * LIVE_CHARS)])
    stream.save([piece(world, "x" * LIVE_CHARS + "more")])
    stream.save([piece(world, "x" * LIVE_CHARS + "more and more")])
    [saved] = stream.read(world.session)
    assert saved.text == "x" * LIVE_CHARS + LIVE_NOTE


@pytest.mark.rule("L2")
def test_only_running_steps_count_as_running(world: World) -> None:
    world.plan("a")
    world.start_tool("a")
    stream.save([piece(world, "out", kind="tool", call="a")])
    assert stream.read_running(world.session) == [piece(world, "out", kind="tool", call="a")]
    [size] = stream.sizes([world.session, new_id()])
    assert (size.session, size.key, size.attempt, size.octets) == (world.session, (world.turn, 1, "tool", "a"), 1, 3)
    world.settle("a")
    assert not stream.read_running(world.session)
    assert not stream.sizes([world.session])
    assert [one.text for one in stream.read(world.session)] == ["out"]


@pytest.mark.rule("L2")
def test_old_texts_are_dropped(world: World, sql: psycopg.Connection[dict[str, object]]) -> None:
    stream.save([piece(world, "old"), piece(world, "new", step=2)])
    sql.execute("UPDATE stream_text SET saved_at = now() - interval '8 days' WHERE step = 1")
    assert stream.drop_old(7) == 1
    assert [one.text for one in stream.read(world.session)] == ["new"]
