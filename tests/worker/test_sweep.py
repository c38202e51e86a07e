"""The sweep's look, one by one: what it ends, what it leaves for the next look, and what counts as proof."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from sessions_app.ids import new_id
from sessions_app.log import db, phases, stream
from sessions_app.worker import lost
from sessions_app.worker import sweep as module
from sessions_app.worker.place import place
from sessions_app.worker.sweep import Sweep
from tests.support.frost import frost
from tests.support.waiting import wait_until
from tests.support.world import WORKER, World
from tests.worker.wardens import alive, new_token

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits at a process's or a server's start."""
    monkeypatch.setattr(phases, "LEASE_S", 0.0)


def lose(ago_s: float = 1, where: str | None = None) -> None:
    """The played worker's lease is over; it ran here unless `where` says otherwise."""
    with db.cursor("write") as cur:
        cur.execute(
            """UPDATE worker SET alive_until = clock_timestamp() - make_interval(secs => %s), boot_id = %s
               WHERE id = %s""",
            (ago_s, place() if where is None else where, WORKER),
        )


def ended(world: World) -> bool:
    return bool(world.events("TurnInterrupted"))


@pytest.mark.rule("J3", "E9")
@pytest.mark.usefixtures("impatient")
def test_a_session_whose_lock_is_stuck_costs_the_others_nothing(database: str) -> None:
    stuck, free = World.create(), World.create()
    stuck.start()
    free.start()
    lose()
    sweep = Sweep()
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM session WHERE id = %s FOR UPDATE", (stuck.session,))
        began = time.monotonic()
        sweep.look()
        assert time.monotonic() - began < 1.5
    assert (ended(stuck), ended(free)) == (False, True)
    sweep.look()
    assert ended(stuck)


@pytest.mark.rule("J3")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [RuntimeError("a bug"), psycopg.OperationalError("away")])
def test_a_turn_that_cannot_be_ended_keeps_nobody_from_the_others(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    broken, fine = World.create(), World.create()
    broken.start()
    fine.start()
    lose()
    of = stream.read_turn

    def read_turn(turn: str) -> list[stream.Piece]:
        if turn == broken.turn:
            raise fault
        return of(turn)

    monkeypatch.setattr(stream, "read_turn", read_turn)
    taken: list[int] = []
    Sweep(SimpleNamespace(id=WORKER, take=lambda: taken.append(1), holds=lambda *_: True)).look()
    assert (ended(broken), ended(fine), taken) == (False, True, [1])


@pytest.mark.rule("J3")
def test_a_slow_answer_of_the_database_is_a_gap_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0, slow=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(phases, "LEASE_S", 0.5)
    real = db.cursor

    @contextmanager
    def cursor(purpose: db.Purpose, **options: Any) -> Iterator[Any]:
        with real(purpose, **options) as cur:
            clock.now += clock.slow
            clock.slow = 0.0
            yield cur

    monkeypatch.setattr(db, "cursor", cursor)
    world = World.create()
    world.start()
    lose()
    sweep = Sweep()
    clock.now, clock.slow = 100.4, 5.0
    sweep.look()
    assert not ended(world), "no worker could have renewed while the database stood still"
    clock.now += 0.4
    sweep.look()
    assert not ended(world), "one whole lease"
    clock.now += 0.4
    sweep.look()
    assert ended(world)


def set_clock(hours: int) -> None:
    """The database's clock as after it was set by so many hours: everything stored before is that much older."""
    with db.cursor("write") as cur:
        cur.execute(
            """UPDATE worker SET alive_until = alive_until - make_interval(hours => %(h)s),
                   beat_at = beat_at - make_interval(hours => %(h)s)""",
            {"h": hours},
        )
        cur.execute("UPDATE turn_mark SET marked_at = marked_at - make_interval(hours => %s)", (hours,))


@pytest.mark.rule("A7", "J2", "J3")
@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_is_set_by_hours_costs_no_living_worker_its_turns_and_saves_no_dead_one(
    hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "LEASE_S", 1.0)
    told = SimpleNamespace(ahead=0.0)
    real = db.cursor

    class Shifted:
        """A cursor whose clock is set with the stored times."""

        def __init__(self, cur: Any) -> None:
            self.cur = cur

        def execute(self, query: Any, params: Any = None) -> Any:
            if query == lost._CLOCK:
                query, params = "SELECT extract(epoch FROM clock_timestamp()) + %s", (told.ahead,)
            return self.cur.execute(query, params)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.cur, name)

    @contextmanager
    def cursor(purpose: db.Purpose, **options: Any) -> Iterator[Any]:
        with real(purpose, **options) as cur:
            yield Shifted(cur)

    world = World.create()
    world.start()
    lose(ago_s=-3600)
    sweep = Sweep()
    monkeypatch.setattr(db, "cursor", cursor)

    def after_a_look(condition: Callable[[], bool]) -> Callable[[], bool]:
        def look() -> bool:
            sweep.look()
            return condition()

        return look

    wait_until(after_a_look(lambda: time.monotonic() > sweep._quiet_until), "the first lease")
    assert not ended(world)
    set_clock(hours)
    told.ahead = hours * 3600.0
    sweep.look()
    assert not ended(world), "its worker had no time to renew"
    wait_until(after_a_look(lambda: ended(world)), "the end of a worker that is dead")


@pytest.mark.rule("J6")
@pytest.mark.usefixtures("impatient")
def test_another_container_on_the_same_kernel_proves_nothing() -> None:
    world = World.create()
    world.start()
    world.plan("a")
    world.start_tool("a")
    kernel, _, user = place().split()
    lose(where=f"{kernel} pid:[1] {user}")
    sweep = Sweep()
    sweep.look()
    assert not ended(world)
    lose(ago_s=module.PROOF_S + 1, where=f"{kernel} pid:[1] {user}")
    sweep.look()
    [terminal] = world.events("TurnInterrupted")
    assert terminal.data["processes"]["unknown"] is True


@pytest.mark.rule("J6", "E7")
@pytest.mark.usefixtures("impatient")
def test_each_turn_lists_its_own_processes(tmp_path: Path) -> None:
    worlds, tokens, sleeps = [World.create(), World.create()], [new_token(), new_token()], []
    for world, token in zip(worlds, tokens, strict=True):
        world.start()
        world.plan("a")
        world.start_tool("a")
        marks = {"STEERWEB_WORKER": WORKER, "STEERWEB_TURN": world.turn}
        sleeps.append(subprocess.Popen(["/bin/sleep", token], env=marks, cwd=tmp_path))
    lose()
    Sweep().look()
    for world, token in zip(worlds, tokens, strict=True):
        [terminal] = world.events("TurnInterrupted")
        assert [each["command"] for each in terminal.data["processes"]["ended"]] == [f"/bin/sleep {token}"]
        assert terminal.data["processes"]["unknown"] is False
        assert alive(token) == []
    for sleep in sleeps:
        sleep.wait()


@pytest.mark.rule("E7", "J6")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("marked", [True, False])
def test_the_later_end_of_what_outlived_its_kill_is_told_once_where_its_lost_worker_was(
    tmp_path: Path, marked: bool
) -> None:
    world, token = World.create(), new_token()
    world.start()
    world.plan("a")
    world.start_tool("a")
    marks = {"STEERWEB_WORKER": WORKER, "STEERWEB_TURN": world.turn, "STEERWEB_CALL": "a"} if marked else {}
    sleep = subprocess.Popen(["/bin/sleep", token], env=marks, cwd=tmp_path)
    left = [{"pid": sleep.pid, "command": f"/bin/sleep {token}"}]
    world.settle("a", "error", processes={"ended": [], "surviving": left, "background": []})
    world.begin()
    world.answer()
    with frost(sleep.pid) as thaw:
        Sweep().look()
        assert not world.events("ProcessesEnded"), "its worker lives, and tells by itself"
        phases.retire(WORKER)
        lose()
        Sweep().look()
        assert not world.events("ProcessesEnded"), "it lives"
        thaw()
        sleep.kill()
        sleep.wait()
    lose(where="elsewhere")
    Sweep().look()
    assert not world.events("ProcessesEnded"), "nobody can tell from here"
    lose()
    for _ in range(2):
        Sweep().look()
        [ended] = world.events("ProcessesEnded")
        assert (ended.actor.kind, ended.turn, ended.data["call"]) == ("system", world.turn, "a")
        assert ended.data["processes"]["ended"] == left
    phases.retire(WORKER)
    with db.cursor("read") as cur:
        assert cur.execute("SELECT 1 FROM worker").fetchone() is None, "nothing of it is left to look for"


@pytest.mark.rule("J6", "E13", "E7")
@pytest.mark.usefixtures("impatient")
def test_a_background_process_that_outlived_its_lost_worker_stays_listed_wherever_the_sweep_is() -> None:
    world = World.create()
    world.start()
    world.plan("a")
    world.start_tool("a")
    served = [{"pid": 9, "command": "serve"}]
    world.settle("a", "ok", processes={"ended": [], "surviving": [], "background": served})
    world.begin()
    world.answer()
    with db.cursor("write") as cur:
        cur.execute(
            """INSERT INTO warden_report (worker, turn, call, epoch, processes, output, reason)
               VALUES (%s, %s, 'a', %s, %s, '', 'worker_died')""",
            (WORKER, world.turn, world.epoch, Jsonb({"ended": [], "surviving": served})),
        )
    lose(where="elsewhere")
    Sweep().look()
    [told] = world.events("ProcessesEnded")
    assert (told.data["processes"]["ended"], told.data["processes"]["surviving"]) == ([], served)
    assert [each["call"] for each in world.state()["background"]] == ["a"]


@pytest.mark.rule("J6", "E13")
@pytest.mark.usefixtures("impatient")
def test_what_a_stop_ended_of_the_same_turn_proves_nothing_of_its_background() -> None:
    world = World.create()
    world.start()
    world.plan("a", "b")
    world.start_tool("a")
    world.settle("a", "ok", processes={"ended": [], "surviving": [], "background": [{"pid": 9, "command": "serve"}]})
    world.start_tool("b")
    world.settle("b", "ok")
    world.begin()
    world.answer()
    with db.cursor("write") as cur:
        for call in ("a", "b"):  # an id may recur
            cur.execute(
                """INSERT INTO warden_report (worker, turn, call, epoch, processes, output, reason)
                   VALUES (%s, %s, %s, %s, %s, '', 'mark')""",
                (WORKER, world.turn, call, world.epoch, Jsonb({"ended": [], "surviving": []})),
            )
    lose(where="elsewhere")
    sweep = Sweep()
    sweep.look()
    assert not world.events("ProcessesEnded"), "its warden has said nothing yet"
    lose(ago_s=60, where="elsewhere")
    sweep.look()
    assert not world.events("ProcessesEnded"), "it looks after the same again only after a while"
    Sweep().look()
    [told] = world.events("ProcessesEnded")
    assert told.data["processes"]["unknown"] is True


@pytest.mark.rule("E9")
@pytest.mark.parametrize(("after", "told"), [(None, None), ("1.5 ms", 1), ("40 days", 1_000_000_000), ("-40 days", 0)])
def test_a_fenced_turn_says_when_its_worker_had_heard_of_the_stop_whatever_the_clock_did(
    after: str | None, told: int | None
) -> None:
    world = World.create()
    world.start()
    world.stop()
    with db.cursor("write") as cur:
        cur.execute(
            """UPDATE turn_mark SET marked_at = marked_at - interval '1 hour',
                   acknowledged_at = marked_at - interval '1 hour' + %s::interval""",
            (after,),
        )
    sweep = Sweep()
    sweep.look()  # from which on it knows the clocks
    sweep.look()
    [terminal] = world.events("TurnInterrupted")
    assert (terminal.data["ended_by"], terminal.data["acknowledged_ms"]) == ("fence", told)


@pytest.mark.rule("J1", "A4")
def test_a_turn_that_its_living_worker_knows_nothing_of_is_ended() -> None:
    forgotten, running = World.create(), World.create()
    forgotten.start()
    running.start()
    Sweep(SimpleNamespace(id=WORKER, take=lambda: None, holds=lambda turn, loop: turn == running.turn)).look()
    assert not ended(running)
    [terminal] = forgotten.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["ended_by"]) == ("worker_lost", "worker")


@pytest.mark.rule("J2", "J3")
def test_a_worker_whose_process_is_gone_is_dead_at_once_and_one_whose_process_is_there_is_not() -> None:
    dead, living = World.create(), World.create()
    for world in (dead, living):
        world.start()
        world.plan("a")
        world.start_tool("a")
    there = new_id()
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    with db.cursor("write") as cur:  # both have an hour of their lease left
        cur.execute("UPDATE worker SET boot_id = %s, pid = %s WHERE id = %s", (place(), gone.pid, WORKER))
        cur.execute(
            """INSERT INTO worker (id, host, boot_id, pid, warden_pid, isolation, beat_at, alive_until)
               SELECT %s, host, boot_id, %s, 0, '', beat_at, alive_until FROM worker WHERE id = %s""",
            (there, os.getpid(), WORKER),
        )
        cur.execute("UPDATE running_turn SET worker = %s WHERE turn = %s", (there, living.turn))
    Sweep().look()
    assert (ended(dead), ended(living)) == (True, False)
    [terminal] = dead.events("TurnInterrupted")
    assert (terminal.data["cause"], terminal.data["ended_by"]) == ("worker_lost", "sweep")
    assert terminal.data["processes"]["unknown"] is False


@pytest.mark.rule("G3", "J3", "A7")
@pytest.mark.usefixtures("impatient")
def test_delegates_end_before_those_above_them_whatever_their_ids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.create()
    world.start()
    clock_was_set_back = iter(f"00000000-0000-7000-8000-{at:012d}" for at in range(9))
    monkeypatch.setattr("tests.support.world.new_id", lambda: next(clock_was_set_back))
    [child] = world.delegate("look around")
    assert child.claim()
    lose()
    Sweep().look()
    causes = [(event.loop, event.data["cause"]) for event in world.events("TurnInterrupted")]
    assert causes == [(child.loop, "worker_lost"), (world.loop, "worker_lost")]
