"""A worker's claims: a lost answer, an order to end in the middle of one, a lease that is over."""

import asyncio
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sessions_app.control import reports
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import db
from sessions_app.worker import service
from sessions_app.worker.service import Worker
from sessions_app.worker.turn import TurnRun
from tests.support.world import WORKER, World
from tests.worker.wardens import until

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
async def worker(tmp_path: Path) -> Worker:
    """The played worker as a real one, on the test's own loop, without a warden."""
    made = Worker("", tmp_path, 4, 1.0)
    made._loop.close()
    made.id, made._loop = WORKER, asyncio.get_running_loop()
    return made


class Played(TurnRun):
    """A turn that only notes what it was told."""

    runs: ClassVar[list["Played"]] = []

    async def run(self) -> None:
        Played.runs.append(self)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Played]:
    monkeypatch.setattr(service, "TurnRun", Played)
    monkeypatch.setattr(Played, "runs", [])
    return Played.runs


@pytest.mark.rule("A4", "J1")
async def test_a_claim_whose_answer_is_lost_is_found_again(
    worker: Worker, runs: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await asyncio.to_thread(World.create)
    await asyncio.to_thread(world.submit)
    answers: list[dict[str, Any]] = []
    claim = reports.claim

    def lossy(*order: str, resume: bool) -> dict[str, Any]:
        answers.append(claim(*order, resume=resume))
        if len(answers) == 1:
            raise Refused("unavailable", "The database does not answer.")
        return answers[-1]

    monkeypatch.setattr(reports, "claim", lossy)
    worker._consider(world.session, world.loop)
    await until(lambda: runs, "the turn")
    assert answers[0] == answers[1] and runs[0].turn == answers[0]["turn"]
    assert len(await asyncio.to_thread(world.events, "TurnStarted")) == 1


@pytest.mark.rule("J1", "J4")
async def test_a_worker_told_to_end_while_it_claims_waits_and_hands_the_turn_over(
    worker: Worker, runs: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await asyncio.to_thread(World.create)
    await asyncio.to_thread(world.submit)
    claim = reports.claim

    def slow(*order: str, resume: bool) -> dict[str, Any]:
        worker.shut_down()
        return claim(*order, resume=resume)

    monkeypatch.setattr(reports, "claim", slow)
    worker._consider(world.session, world.loop)
    [turn] = worker._held
    assert worker.holds(turn, world.loop), "what `join` waits for"
    await until(lambda: runs, "the turn")
    assert runs[0].turn == turn and runs[0]._leave.is_set() and not runs[0].stop.is_set()
    await until(lambda: not worker._held, "its end")


@pytest.mark.rule("E6")
def test_turns_that_wait_for_a_library_are_in_nobodys_way(tmp_path: Path) -> None:
    loop = Worker("", tmp_path, 40, 1.0)._loop
    barrier = threading.Barrier(41)

    async def all_at_once() -> None:
        await asyncio.gather(*(asyncio.to_thread(barrier.wait, 20) for _ in range(41)))
        await loop.shutdown_default_executor()

    loop.run_until_complete(all_at_once())
    loop.close()


@pytest.mark.rule("J1", "J2")
def test_a_worker_whose_lease_is_over_claims_nothing() -> None:
    world = World.create()
    world.submit()
    with db.cursor("write") as cur:
        cur.execute("UPDATE worker SET alive_until = clock_timestamp() - interval '1 second' WHERE id = %s", (WORKER,))
    for who in (WORKER, new_id()):
        with pytest.raises(Refused) as refused:
            reports.claim(world.session, world.loop, who)
        assert refused.value.code == "stale"
    assert not world.events("TurnStarted")
