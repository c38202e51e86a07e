"""Approvals, rules and modes by REST."""

from typing import Any

import psycopg
import pytest

from sessions_app import control
from sessions_app.api import replies
from sessions_app.engine.commands import Effect
from sessions_app.ids import new_id
from sessions_app.log import chain
from tests.doors.callers import caller
from tests.support.world import World, person

Sql = psycopg.Connection[dict[str, Any]]
pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]


def asked() -> tuple[World, str]:
    """A session with an open approval, and its address."""
    world = World.create("ana")
    return world, f"/sessions/{world.session}/gates/{world.ask()}"


@pytest.mark.rule("H1", "M")
def test_the_first_answer_wins_and_a_later_one_is_told_who_answered_what() -> None:
    world, path = asked()
    ben = caller("ben")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    first = ben.post(path, {"decision": "deny", "message": "not on a Friday"})
    assert first.status == 200
    replies.Resolved.model_validate(first.json)
    late = caller("ana").post(path, {"decision": "allow"})
    assert (late.status, late.code) == (409, "gate_closed")
    assert (late.json["by"], late.json["decision"]) == ("ben via test", "deny")
    assert world.events("GateResolved")[0].data["message"] == "not on a Friday"
    assert world.start_tool("c1", Effect("command", "git push origin"))["outcome"] == "settled"
    assert world.events("ToolSettled")[0].data["outcome"] == "denied"


@pytest.mark.rule("H2", "E6")
def test_after_a_stop_an_answer_is_calmly_refused() -> None:
    world, path = asked()
    world.stop()
    ana = caller("ana")
    assert ana.post(path, {"decision": "allow"}).code == "gate_closed"
    world.end()
    late = ana.post(path, {"decision": "allow"})
    assert (late.status, late.code, late.json["reason"]) == (409, "gate_closed", "stop")


@pytest.mark.rule("A4")
def test_a_repeated_answer_is_the_first_one() -> None:
    _, path = asked()
    ana, key = caller("ana"), new_id()
    first, again = (ana.post(path, {"decision": "allow"}, key) for _ in range(2))
    assert first.json == again.json
    assert ana.post(path, {"decision": "deny"}, key).code == "command_id_reused"


@pytest.mark.rule("H3")
def test_who_may_answer() -> None:
    world, path = asked()
    for name, role in (("kim", "observer"), ("bot", "owner")):
        person(name)
        control.set_member(world.owner, world.session, new_id(), person=name, role=role)
    allow = {"decision": "allow"}
    assert caller("kim").post(path, allow).code == "not_allowed"
    assert caller("bot", agent=True).post(path, allow).code == "not_allowed"
    assert caller("zoe").post(path, allow).code == "session_not_found"
    assert caller("zoe", admin=True).post(path, allow).code == "not_allowed"
    assert caller("bot").post(path, allow).status == 200


@pytest.mark.rule("H3")
def test_a_rule_is_given_listed_and_revoked() -> None:
    world, path = asked()
    ana = caller("ana")
    rule = {"kind": "command_prefix", "value": "git push"}
    wrong = ana.post(path, {"decision": "allow_rule", "rule": {"kind": "command_prefix", "value": "git"}})
    assert (wrong.code, wrong.json["offers"][1]) == ("invalid", rule)
    assert ana.post(path, {"decision": "allow_rule", "rule": rule}).status == 200
    rules = f"/sessions/{world.session}/rules"
    listed = ana.get(rules).json
    replies.RuleList.model_validate(listed)
    (item,) = listed["items"]
    assert (item["kind"], item["tool"], item["value"], item["by"]["name"]) == (
        "command_prefix", "shell", "git push", "ana via test",
    )  # fmt: skip
    assert ana.delete(f"{rules}/{item['id']}").status == 200
    assert ana.get(rules).json["items"] == []
    assert ana.delete(f"{rules}/{item['id']}").code == "not_found"


@pytest.mark.rule("I1")
def test_a_mode_and_a_model_are_changed_by_those_who_may() -> None:
    world = World.create("ana")
    person("olga")
    ana, path = caller("ana"), f"/sessions/{world.session}/loops/{world.loop}"
    changed = ana.patch(path, {"mode": "plan", "model": "openai-chat:other", "instructions": "Be brief."})
    assert (changed.status, changed.json["mode"]) == (200, "plan")
    assert (world.state()["mode"], world.state()["model"]) == ("plan", "openai-chat:other")
    assert ana.patch(path, {}).code == "invalid"
    for body, field in (
        ({"mode": "free"}, "mode"), ({"limits": {"step": 3}}, "limits.step"), ({"model": "nonsense"}, "model"),
    ):  # fmt: skip
        answer = ana.patch(path, body)
        assert (answer.status, answer.json["field"]) == (400, field)
    assert ana.patch(f"/sessions/{world.session}/loops/{new_id()}", {"mode": "ask"}).code == "loop_not_found"


@pytest.mark.rule("A4", "I1", "M")
def test_a_change_of_an_agent_is_one_command_whole_or_refused() -> None:
    world = World.create("ana")
    world.submit("Sort the files.")
    ana, path = caller("ana"), f"/sessions/{world.session}/loops/{world.loop}"
    before, mode = len(world.types()), world.state()["mode"]
    for wrong in (
        {"limits": {"step": 3}},
        {"limits": {"steps": -1}},
        {"model": "nonsense"},
        {"instructions": "x" * 2_000_000},
    ):
        assert ana.patch(path, {"mode": "plan", **wrong}).status in (400, 413)
    assert (len(world.types()), world.state()["mode"]) == (before, mode)

    key = new_id()
    changed = ana.patch(path, {"mode": "plan", "limits": {"steps": 9}}, key)
    assert changed.status == 200 and ana.patch(path, {"mode": "plan", "limits": {"steps": 9}}, key).json == changed.json
    made = world.events()[before:]
    assert [event.type for event in made] == ["ModeChanged", "LoopChanged"]
    assert len({event.cause for event in made}) == 1 and changed.json["seq"] == made[0].seq
    for other in ({"mode": "plan"}, {"limits": {"steps": 9}}, {"mode": "plan", "limits": {"steps": 8}}):
        assert ana.patch(path, other, key).code == "command_id_reused"
    assert len(world.types()) == before + 2
    assert not list(chain.verify(world.session))


@pytest.mark.rule("A4", "M")
def test_who_may_only_change_the_mode_changes_nothing_with_a_model_beside_it(sql: Sql) -> None:
    world = World.create("ana")
    person("olga")
    sql.execute(
        """INSERT INTO member (session_id, person_id, role)
           SELECT %s, id, 'operator' FROM person WHERE username = 'olga'""",
        (world.session,),
    )
    olga, path = caller("olga"), f"/sessions/{world.session}/loops/{world.loop}"
    assert olga.patch(path, {"mode": "plan", "model": "openai-chat:other"}).code == "not_allowed"
    assert "ModeChanged" not in world.types()
    assert olga.patch(path, {"mode": "plan"}).status == 200


@pytest.mark.rule("I1")
@pytest.mark.parametrize(
    ("given", "mode"), [({}, "auto"), ({"model": "openai-chat:x"}, "ask"), ({"mode": "plan"}, "plan")], ids=str
)
def test_every_model_but_the_demonstration_asks_by_default(given: dict[str, Any], mode: str) -> None:
    ana = caller("ana")
    made = ana.post("/sessions", given)
    assert made.status == 201
    state = ana.get(f"/sessions/{made.json['id']}/state").json["state"]
    assert [loop["mode"] for loop in state["loops"].values()] == [mode]


def test_a_session_that_waits_for_an_answer_says_so() -> None:
    world, path = asked()
    ana = caller("ana")
    assert ana.get(f"/sessions/{world.session}").json["state"] == "approval"
    assert [item["id"] for item in ana.get("/sessions", state="approval").json["items"]] == [world.session]
    ana.post(path, {"decision": "allow"})
    assert ana.get(f"/sessions/{world.session}").json["state"] == "running"
