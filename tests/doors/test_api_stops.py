"""The stop by REST: it answers when the work has ended, and never claims what has not."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest
from django.conf import settings
from django.db import connections

from sessions_app.api import replies
from sessions_app.ids import new_id
from sessions_app.models import Audit
from tests.doors.callers import Answer, Caller, caller
from tests.support.waiting import wait_until
from tests.support.world import World

pytestmark = [pytest.mark.urls("sessions_app.api.urls"), pytest.mark.usefixtures("database", "redis_url")]

InBackground = Callable[[Callable[[], Answer]], "Future[Answer]"]


@pytest.fixture
def in_background(database: str) -> Iterator[InBackground]:
    """Runs calls in threads of their own, which close their database connections."""

    def closing(call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=24) as pool:
        yield lambda call: pool.submit(closing, call)


def stop_path(world: World) -> str:
    return f"/sessions/{world.session}/interrupt"


def stopped_outcome(answer: Answer) -> tuple[int, bool, bool, str | None]:
    outcome = replies.Stopped.model_validate(answer.json)
    return answer.status, outcome.stopped, outcome.joined, outcome.note


@pytest.mark.rule("E3", "A9")
def test_an_idle_stop_answers_at_once_and_writes_no_event() -> None:
    world, ana = World.create("ana"), caller("ana")
    before = len(world.events())
    assert stopped_outcome(ana.post(stop_path(world))) == (200, False, False, "idle")
    assert stopped_outcome(ana.post(stop_path(world), {"turn": new_id()})) == (200, False, False, "turn_over")
    assert len(world.events()) == before


@pytest.mark.rule("E5")
def test_a_stop_past_its_own_limit_stops_nothing() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    late = ana.post(stop_path(world), {"not_after": "2026-01-01T00:00:00Z"})
    assert (late.status, late.code) == (409, "too_late")
    for wrong in ("soon", "20260129T2130Z", "2026-W05-4T21:30:00Z", "2026-01-29 21:30:00Z", 1769722200):
        assert ana.post(stop_path(world), {"not_after": wrong}).status == 400, wrong
    assert not world.events("InterruptRequested")
    in_time = ana.post(stop_path(world), {"not_after": "2999-01-01T01:00:00+01:00", "wait": 0})
    assert (in_time.status, len(world.events("InterruptRequested"))) == (202, 1)


@pytest.mark.rule("E3")
def test_a_stop_answers_when_the_work_has_ended_and_a_second_one_joins(in_background: InBackground) -> None:
    world, ana, too = World.create("ana"), caller("ana"), caller("ana")
    world.start()
    first = in_background(lambda: ana.post(stop_path(world), {"reason": "wrong branch"}))
    wait_until(lambda: world.events("InterruptRequested"), "the mark")
    second = in_background(lambda: too.post(stop_path(world), {}))
    wait_until(lambda: second.running(), "the second stop")
    assert not first.done()
    world.end(acknowledged_ms=1)
    assert stopped_outcome(first.result()) == (200, True, False, None)
    assert first.result().json["turns"] == [world.turn]
    status, stopped, _, _ = stopped_outcome(second.result())
    assert (status, stopped) == (200, False)
    assert world.events("TurnInterrupted")[0].data["reason"] == "wrong branch"


@pytest.mark.rule("E4")
def test_past_the_deadline_the_answer_claims_nothing_and_the_stop_goes_on() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    late = ana.post(stop_path(world), {"wait": 0.05})
    assert (late.status, late.code, late.json["turns"]) == (504, "deadline", [world.turn])
    assert "stopped" not in late.json
    world.end()
    assert len(world.events("TurnInterrupted")) == 1


@pytest.mark.rule("E4")
def test_a_stop_that_waits_for_nothing_is_accepted_and_no_more() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    answer = ana.post(stop_path(world), {"wait": 0})
    receipt = replies.StopAccepted.model_validate(answer.json)
    assert (answer.status, receipt.accepted, receipt.joined, receipt.turns) == (202, True, False, [world.turn])
    idle = ana.post(stop_path(World.create("ana")), {"wait": 0})
    assert (idle.status, idle.json["accepted"], idle.json["note"]) == (202, False, "idle")


@pytest.mark.rule("A4", "E3")
def test_a_repeated_stop_waits_for_the_outcome_of_the_first() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    first = ana.post(stop_path(world), {"wait": 0.05}, "stop-1")
    assert first.code == "deadline"
    world.end()
    world.start("and on")
    assert stopped_outcome(ana.post(stop_path(world), {"wait": 0.05}, "stop-1")) == (200, True, False, None)
    assert world.state()["turn"]["mark"] is None  # the turn that came after is not touched
    assert ana.post(stop_path(world), {"reason": "other"}, "stop-1").code == "command_id_reused"


@pytest.mark.rule("E12")
def test_stop_and_send_names_what_follows() -> None:
    world, ana = World.create("ana"), caller("ana")
    waiting = world.submit("one")
    assert ana.post(stop_path(world), {"then": {"text": " "}}).code == "blank"
    assert world.events("InterruptRequested") == []
    sent = ana.post(stop_path(world), {"then": {"text": "do this"}, "queue": "hold"})
    assert sent.json["note"] == "not_started"
    assert [entry["id"] for entry in world.state()["inbox"]] == [sent.json["input"], waiting]
    assert ana.post(stop_path(world), {"then": {"input": waiting}}).json["input"] == waiting


@pytest.mark.rule("E1")
def test_an_unknown_loop_is_told_and_nothing_is_sent() -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    answer = ana.post(stop_path(world), {"loop": new_id()})
    assert (answer.status, answer.code) == (404, "loop_not_found")
    assert world.events("InterruptRequested") == []


@pytest.mark.rule("K1")
def test_a_stop_while_the_session_closes_is_false(in_background: InBackground) -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    assert ana.post(f"/sessions/{world.session}/close").json["closed"] is False
    answer = in_background(lambda: caller("ana").post(stop_path(world), {"wait": 5}))
    world.end()
    assert stopped_outcome(answer.result()) == (200, False, False, "closing")
    assert world.types()[-1] == "SessionClosed"


@pytest.mark.rule("E11")
def test_waiting_stops_hold_no_connection(in_background: InBackground) -> None:
    world, ana = World.create("ana"), caller("ana")
    world.start()
    limit = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    callers: list[Caller] = [caller("ana") for _ in range(limit + 4)]
    answers = [in_background(partial(who.post, stop_path(world), {"wait": 20})) for who in callers]
    wait_until(lambda: audited(world) == len(answers) - 1, "all other stops to join")
    assert not any(answer.done() for answer in answers)
    assert in_background(partial(ana.get, "/me")).result().status == 200
    world.end()
    assert sum(answer.result().json["stopped"] for answer in answers) == 1


def audited(world: World) -> int:
    """How many stops have joined: each is an audit row (A9)."""
    return Audit.objects.filter(session=world.session, attempt="Interrupt", outcome="joined").count()
