"""Pages of the log by REST: the stored bytes, in both directions, nothing twice and nothing missing."""

import pytest

from sessions_app.api import replies
from sessions_app.log import read
from tests.doors.callers import Answer, Caller, caller
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def a_session_with_a_turn() -> tuple[World, Caller, str]:
    world = World.create("ana")
    world.start("list the files")
    world.plan("a", text="I look.")
    world.start_tool("a")
    world.settle("a", output="one\ntwo\n")
    world.begin()
    world.answer("two files")
    return world, caller("ana"), f"/sessions/{world.session}/events"


def seqs(answer: Answer) -> list[int]:
    return [event["seq"] for event in answer.json["items"]]


@pytest.mark.rule("A3")
def test_events_are_byte_for_byte_the_sockets_frames() -> None:
    world, ana, path = a_session_with_a_turn()
    answer = ana.get(path)
    assert answer.response.content == b'{"items":[%b],"next":null}' % b",".join(read.events(world.session))
    replies.EventPage.model_validate(answer.json)


@pytest.mark.rule("A1")
def test_pages_join_without_gap_or_overlap_in_both_directions() -> None:
    world, ana, path = a_session_with_a_turn()
    head = len(world.events())
    for order, cursor, whole in [("asc", "after", range(1, head + 1)), ("desc", "before", range(head, 0, -1))]:
        seen: list[int] = []
        following = None
        while True:
            page = ana.get(path, order=order, limit=4, **({} if following is None else {cursor: following}))
            seen += seqs(page)
            following = page.json["next"]
            if following is None:
                break
        assert seen == list(whole)


def test_events_are_chosen_by_range_type_and_loop() -> None:
    _, ana, path = a_session_with_a_turn()
    assert seqs(ana.get(path, after=2, before=5)) == [3, 4]
    types = {"StepDone", "ToolSettled"}
    for query in ("ToolSettled,StepDone", ["ToolSettled", "StepDone"]):
        assert {event["type"] for event in ana.get(path, types=query).json["items"]} == types
    other = World.create("ana")
    loops = {event["loop"] for event in ana.get(path, loop=other.loop).json["items"]}
    assert loops == {None}  # what belongs to the session passes any loop
    assert ana.get(path, after=10_000).json == {"items": [], "next": None}
