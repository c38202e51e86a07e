"""Commands by REST: names and shapes of the contract, and the command id that makes repeating safe."""

from uuid import UUID

import pytest

from sessions_app.api import replies
from sessions_app.engine import commands
from sessions_app.ids import new_id
from tests.doors.callers import caller
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def test_a_session_is_made_found_changed_and_closed() -> None:
    ana = caller("ana")
    made = ana.post("/sessions", {"title": "Build", "model": "demo:", "instructions": "Be brief."})
    assert made.status == 201
    path = f"/sessions/{replies.Created.model_validate(made.json).id}"
    snapshot = ana.get(path + "/state").json
    assert replies.Snapshot.model_validate(snapshot).seq == made.json["seq"]
    assert snapshot["state"]["loops"][made.json["loop"]]["status"] == "idle"
    assert ana.patch(path, {"title": "Build again", "settings": {"stop_queue": "hold"}}).status == 200
    assert ana.patch(path, {"settings": {"colour": "red"}}).json["field"] == "settings.colour"
    view = ana.get(path)
    assert replies.SessionReply.model_validate(view.json).title == "Build again"
    assert view.json["head"] == made.json["seq"] + 1
    assert ana.post(path + "/close").status == 200
    assert ana.post(path + "/inputs", {"text": "hi"}).code == "session_closing"
    assert ana.post(path + "/close").status == 200


@pytest.mark.rule("B1", "B4")
def test_an_input_is_queued_edited_moved_promoted_and_taken_back() -> None:
    world, ana = World.create("ana"), caller("ana")
    path = f"/sessions/{world.session}/inputs"
    first = ana.post(path, {"text": "one"})
    assert first.status == 202
    assert replies.InputReceipt.model_validate(first.json).position == 0
    second, third = ana.post(path, {"text": "two"}).json["input"], ana.post(path, {"text": "three"}).json["input"]
    assert ana.patch(f"{path}/{third}", {"position": 0}).json["position"] == 0
    assert ana.patch(f"{path}/{second}", {"text": "TWO"}).status == 200
    assert "TWO" in ana.get(f"/sessions/{world.session}/state").json["texts"].values()
    promoted = ana.patch(f"{path}/{second}", {"promote": "urgent"})
    assert promoted.status == 200
    assert UUID(promoted.json["steer"]).version == 7
    for retracted in (True, False):
        answer = ana.delete(f"{path}/{third}")
        assert (answer.status, answer.json["retracted"]) == (200, retracted)
    world.claim()
    taken = ana.patch(f"{path}/{first.json['input']}", {"text": "late"})
    assert (taken.status, taken.code) == (409, "already_taken")
    assert ana.delete(f"{path}/{new_id()}").code == "input_not_found"
    assert ana.post(path, {"text": "  "}).code == "blank"


@pytest.mark.rule("B1", "D1")
def test_full_queues_are_told_apart() -> None:
    world, ana = World.create("ana"), caller("ana")
    session = f"/sessions/{world.session}"
    for number in range(64):
        assert ana.post(session + "/inputs", {"text": f"{number}"}).status == 202
    full = ana.post(session + "/inputs", {"text": "65"})
    assert (full.status, full.code, full.json["limit"]) == (409, "queue_full", 64)
    for number in range(16):
        assert ana.post(session + "/steers", {"text": f"{number}"}).status == 202
    assert ana.post(session + "/steers", {"text": "17"}).code == "steer_full"


@pytest.mark.rule("D2", "D8", "D9", "D10")
def test_a_steer_lands_is_edited_and_taken_back() -> None:
    world, ana = World.create("ana"), caller("ana")
    path = f"/sessions/{world.session}/steers"
    idle = ana.post(path, {"text": "later"})
    assert idle.status == 202
    assert idle.json["lands"] == {"when": "next_turn"}
    world.start()
    world.plan("a")
    world.start_tool("a")
    running = ana.post(path, {"text": "now", "urgent": True, "turn": world.turn})
    receipt = replies.SteerReceipt.model_validate(running.json)
    assert (receipt.lands.when, receipt.lands.after) == ("safe_point", "tool")
    assert receipt.lands.running_ms is not None
    steer = f"{path}/{receipt.steer}"
    assert ana.patch(steer, {"text": "NOW"}).status == 200
    assert ana.delete(steer).status == 200
    assert ana.delete(steer).code == "already_taken"
    turned = ana.post(path, {"text": "as input"}).json["steer"]
    assert UUID(ana.patch(f"{path}/{turned}", {"as_input": True}).json["input"]).version == 7
    over = ana.post(path, {"text": "for another turn", "turn": new_id()})
    assert (over.status, over.code, over.json["text"]) == (409, "turn_mismatch", "for another turn")


@pytest.mark.rule("E12")
def test_what_a_stop_set_aside_is_released_or_given_back() -> None:
    world, ana = World.create("ana"), caller("ana")
    session = f"/sessions/{world.session}"
    kept = ana.post(session + "/inputs", {"text": "one"}).json["input"]
    given = ana.post(session + "/inputs", {"text": "two"}).json["input"]
    assert ana.post(session + "/interrupt", {"queue": "hold"}).json["note"] == "not_started"
    assert ana.post(session + "/release", {"inputs": [given], "to": "authors"}).json["inputs"] == [given]
    assert ana.post(session + "/release").json["inputs"] == [kept]
    assert world.events("InputCancelled")[0].data["reason"] == "cleared"
    unknown = ana.post(session + "/release", {"inputs": [new_id()]})
    assert (unknown.status, unknown.code) == (404, "input_not_found")


@pytest.mark.rule("A4")
@pytest.mark.parametrize("key", ["01a228e0-57c8-7e23-abbb-a45be7c775cf", "retry-7", "x" * 200, "Schlüssel"])
def test_the_same_key_gives_the_first_receipt_and_changes_nothing(key: str) -> None:
    world, ana = World.create("ana"), caller("ana")
    path = f"/sessions/{world.session}/inputs"
    first, again = ana.post(path, {"text": "hi"}, key), ana.post(path, {"text": "hi"}, key)
    assert first.json == again.json
    assert again.status == 202
    assert len(world.events("InputQueued")) == 1
    other = ana.post(path, {"text": "bye"}, key)
    assert (other.status, other.code) == (409, "command_id_reused")
    assert ana.post("/sessions", {"title": "t"}, "make").json == ana.post("/sessions", {"title": "t"}, "make").json


@pytest.mark.rule("A4")
def test_a_key_is_the_callers_own_and_no_key_is_always_new() -> None:
    world, ana, same = World.create("ana"), caller("ana"), caller("ana")
    path = f"/sessions/{world.session}/inputs"
    receipts = [
        ana.post(path, {"text": "hi"}, "key"),
        same.post(path, {"text": "hi"}, "key"),  # another token is another principal
        ana.post(path, {"text": "hi"}),
        ana.post(path, {"text": "hi"}),
    ]
    assert len({answer.json["input"] for answer in receipts}) == 4


@pytest.mark.rule("A4")
@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_of_the_wrong_length_is_refused(key: str) -> None:
    world, ana = World.create("ana"), caller("ana")
    answer = ana.post(f"/sessions/{world.session}/inputs", {"text": "hi"}, key)
    assert (answer.code, answer.json["field"]) == ("invalid", "Idempotency-Key")


def test_members_are_added_by_name_or_id_and_removed() -> None:
    world, ana, ben = World.create("ana"), caller("ana"), caller("ben")
    path = f"/sessions/{world.session}/members"
    added = ana.post(path, {"person": "Ben", "role": "observer"})
    assert (added.status, added.json["name"], added.json["role"]) == (200, "ben", "observer")
    assert ben.get(f"/sessions/{world.session}/state").status == 200
    listed = replies.MemberList.model_validate(ana.get(path).json)
    assert [(item.name, item.role) for item in listed.items] == [("ana", "owner"), ("ben", "observer")]
    assert ana.post(path, {"person": listed.items[1].person, "role": "owner"}).status == 200
    assert ana.delete(f"{path}/ben").status == 200
    assert ben.get(f"/sessions/{world.session}/state").code == "session_not_found"
    assert ana.delete(f"{path}/ana").code == "invalid"
    assert ana.post(path, {"person": "kim", "role": "observer"}).code == "not_found"
    assert ana.post(path, {"person": "ben", "role": "boss"}).json["field"] == "role"


@pytest.mark.rule("A3")
def test_an_owner_erases_the_texts_of_one_event() -> None:
    world, ana = World.create("ana"), caller("ana")
    seq = ana.post(f"/sessions/{world.session}/inputs", {"text": "a pasted key"}).json["seq"]
    erased = ana.post(f"/sessions/{world.session}/events/{seq}/erase", {"reason": "it held a key"})
    assert erased.status == 200
    events = ana.get(f"/sessions/{world.session}/events", after=seq - 1)
    assert events.json["items"][0]["data"]["text"] == {"erased": True}
    assert b"a pasted key" not in events.response.content
    assert ana.post(f"/sessions/{world.session}/events/{seq}/erase", {"reason": "again"}).code == "not_found"
    assert ana.post(f"/sessions/{world.session}/events/0x1/erase", {"reason": "x"}).code == "invalid"


@pytest.mark.rule("B3")
def test_a_folding_input_joins_the_running_turn() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    world.plan("c1")
    world.start_tool("c1")
    sent = ana.post(f"/sessions/{world.session}/inputs", {"text": "and by date", "delivery": "fold"})
    world.settle("c1")
    world.begin()
    assert [event.data["input"] for event in world.events("TurnFoldedInto")] == [sent.json["input"]]
    late = ana.delete(f"/sessions/{world.session}/inputs/{sent.json['input']}")
    assert (late.status, late.code) == (409, "already_taken")


@pytest.mark.rule("B9", "A4")
def test_a_message_that_failed_is_tried_again_once() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start("in vain")
    failed = world.events("TurnStarted")[0].data["input"]
    world.report(commands.Fail(world.turn, world.epoch, "provider_error", "HTTP 500"))
    path, key = f"/sessions/{world.session}/inputs/{failed}/retry", new_id()
    again, repeated = (ana.post(path, key=key) for _ in range(2))
    assert (again.status, again.json) == (200, repeated.json)
    assert ana.post(path).code == "input_not_found"
    assert world.claim()
    assert world.events("TurnStarted")[-1].data["input"] == again.json["input"]
    assert world.events("InputQueued")[-1].data["text"] == "in vain"
