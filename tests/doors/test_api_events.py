"""Pages of the log by REST: the stored bytes, in both directions, nothing twice and nothing missing."""

import pytest

from sessions_app import control
from sessions_app.api import replies
from sessions_app.ids import new_id
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


@pytest.mark.rule("A3")
def test_a_page_ends_before_it_is_too_long_and_the_next_one_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "PAGE_BYTES", 300_000)
    world, ana = World.create("ana"), caller("ana")
    for letter in "abcdefgh":
        world.submit(letter * 140_000)
    path, head = f"/sessions/{world.session}/events", len(world.events())
    for order, cursor, whole in [("asc", "after", range(1, head + 1)), ("desc", "before", range(head, 0, -1))]:
        seen: list[int] = []
        following, pages = None, 0
        while pages == 0 or following is not None:
            page = ana.get(path, order=order, limit=1000, **({} if following is None else {cursor: following}))
            assert len(page.response.content) < 450_000
            seen += seqs(page)
            following, pages = page.json["next"], pages + 1
        assert seen == list(whole)
        assert pages == 3
    monkeypatch.setattr(read, "PAGE_BYTES", 1)
    assert len(ana.get(path).json["items"]) == 1


@pytest.mark.rule("E12")
def test_a_long_text_given_back_by_a_stop_is_read_in_parts() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    text = "\U0001f680\u4e00xy" * (100 * 1024 // 4)
    world.submit(text)
    world.stop(queue="clear")
    world.end()
    [cancelled] = ana.get(f"/sessions/{world.session}/events", types="InputCancelled").json["items"]
    path, whole = f"/sessions/{world.session}/texts/{cancelled['data']['text']['ref']}", ""
    kim = caller("kim")
    control.set_member(world.owner, world.session, new_id(), person="kim", role="observer")
    while True:
        part = kim.get(path, offset=len(whole), length=30_000)
        replies.TextPart.model_validate(part.json)
        assert (part.status, part.json["offset"], part.json["total"]) == (200, len(whole), len(text))
        if not part.json["text"]:
            break
        whole += part.json["text"]
    assert whole == text == ana.get(path).json["text"]
    assert caller("ben").get(path).code == "session_not_found"
    assert Caller().get(path).code == "unauthenticated"
    assert ana.get(f"/sessions/{world.session}/texts/1.text").code == "not_found"
    for query in ({"length": 0}, {"offset": -1}, {"length": 2**21}, {"size": 1}):
        assert ana.get(path, **query).status in (400, 422)
    ana.post(f"/sessions/{world.session}/events/{path.rsplit('/', 1)[1].removesuffix('.text')}/erase", {"reason": "x"})
    assert ana.get(path).code == "not_found"
