"""Everything at once on the real database: six threads do whatever they can, and afterwards every invariant holds."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sessions_app import control
from sessions_app.control import reports
from sessions_app.engine import commands as c
from sessions_app.engine.errors import Refused
from sessions_app.engine.fold import fold
from sessions_app.engine.state import to_json
from sessions_app.ids import new_id
from sessions_app.log import chain, read
from sessions_app.people.principals import Principal
from tests.engine.harness import without_texts
from tests.engine.invariants import check_log
from tests.support.together import together
from tests.support.world import WORKER, World, person

pytestmark = pytest.mark.usefixtures("database", "redis_url")
EXPECTED = {
    "already_taken", "blank", "gate_closed", "gate_not_found", "input_not_found", "invalid", "not_allowed",
    "not_found", "queue_full", "stale", "steer_full", "steer_not_found", "turn_mismatch", "loop_closed",
}  # fmt: skip
"""What chance may be refused with; anything else is a fault."""


SERVER = [{"pid": 9, "command": "npm start"}]


def some_loop(world: World, chance: random.Random) -> Any:
    """One of the session's live loops, mostly one that a delegate is."""
    loops = [loop for loop in read.snapshot(world.session)["state"]["loops"].values() if loop["status"] != "closed"]
    return chance.choice([*loops, loops[-1]])


class Person:
    """Somebody who does one thing after another, whatever the session is doing."""

    def __init__(self, world: World, who: Principal, chance: random.Random) -> None:
        self.world, self.who, self.chance = world, who, chance

    def act(self) -> None:
        if self.chance.random() < 0.7:  # people take their time: the work is to get somewhere
            return
        state = some_loop(self.world, self.chance)
        loop = self.chance.choice([None, state["id"]])
        turn = state["turn"]["id"] if state["turn"] else None
        inputs = [entry["id"] for entry in state["inbox"]] or [new_id()]
        steers = [steer["id"] for steer in state["steers"]] or [new_id()]
        at = (self.who, self.world.session, new_id())
        gates = [call["gate"] for call in (state["turn"] or {}).get("calls") or () if call["gate"]] or [new_id()]
        failed = [entry["id"] for entry in state["failed"]] or [new_id()]
        rules = [rule["id"] for rule in read.snapshot(self.world.session)["state"]["rules"]] or [new_id()]
        pick = self.chance.choice
        then: Any = pick([None, None, {"text": "then"}, {"input": pick(inputs)}])
        verbs: list[Callable[[], object]] = [
            lambda: control.submit(*at, text=pick(["one", "two", " "]), loop=loop),
            lambda: control.submit(*at, text="three", delivery=pick(["queue", "fold"])),
            lambda: control.retry_input(*at, pick(failed)),
            lambda: control.resolve(*at, pick(gates), decision=pick(["allow", "allow_rule", "deny"])),
            lambda: control.resolve(*at, pick(gates), decision="allow"),
            lambda: control.set_mode(*at, mode=pick(["plan", "ask", "ask", "auto"]), loop=loop),
            lambda: control.kill_processes(*at, pick(["call0", "call1", "call2"])),
            lambda: control.revoke_rule(*at, pick(rules)),
            lambda: control.change_loop(*at, limits={"steps": pick([2, 50, 50, 50])}),
            lambda: control.steer(*at, text="left", urgent=pick([True, False]), turn=pick([None, turn]), loop=loop),
            lambda: control.edit_input(*at, pick(inputs), text=pick([None, "changed"]), position=pick([None, 0, 2])),
            lambda: control.edit_input(*at, pick(inputs), promote=pick(["normal", "urgent"])),
            lambda: control.retract_input(*at, pick(inputs)),
            lambda: control.edit_steer(*at, pick(steers), text="right", as_input=pick([True, False])),
            lambda: control.withdraw_steer(*at, pick(steers)),
            lambda: control.release(*at, to=pick(["run", "authors"])),
            lambda: control.interrupt(*at, queue=pick([None, "run", "hold"]), turn=pick([None, turn]), then=then),
            lambda: control.interrupt(*at, queue="clear"),
            lambda: control.interrupt(*at, reason="why", loop=loop, keep_background=pick([True, False])),
            lambda: control.change_session(*at, settings={"keep_partial_reply": pick([True, False])}),
        ]  # fmt: skip
        idle: list[Callable[[], object]] = [verbs[0], lambda: control.release(*at)]
        if state["status"] == "idle" and self.chance.random() < 0.5:  # else most of the time nothing would run
            pick(idle)()
        elif any(call["answer"] == "open" for call in (state["turn"] or {}).get("calls") or ()):
            pick([*verbs, verbs[4], verbs[4]] if self.chance.random() < 0.5 else [verbs[4]])()
        else:
            pick(verbs)()


class Worker:
    """Runs whatever turn there is, one report after another, each after a look at the state: reports may be late."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance

    def act(self) -> None:
        loop = some_loop(self.world, self.chance)
        turn = loop["turn"]
        if loop["background"] and self.chance.random() < 0.3:
            self.background_ends(loop)
        elif turn is None or not turn["worker"]:
            reports.claim(self.world.session, loop["id"], WORKER)
        else:
            self.go_on(turn)

    def background_ends(self, loop: dict[str, Any]) -> None:
        each = self.chance.choice(loop["background"])
        surviving = SERVER if self.chance.random() < 0.2 else []
        command = c.BackgroundEnded(each["turn"], loop["id"], each["call"], SERVER, surviving)
        reports.background_ended(self.world.session, command, WORKER)

    def go_on(self, turn: dict[str, Any]) -> None:
        if self.chance.random() < 0.05:
            self.report(c.HandOver(turn["id"], turn["epoch"], "safe_point"))
        elif turn["mark"] and self.chance.random() < 0.7:
            self.end(turn)
        elif self.chance.random() < 0.05:
            self.report(c.Fail(turn["id"], turn["epoch"], "provider_error", "no", request=new_id()))
        elif turn["calls"] is None:
            self.model(turn)
        else:
            self.tool(turn)

    def model(self, turn: dict[str, Any]) -> None:
        self.report(c.BeginStep(turn["id"], turn["epoch"]))
        tool = self.chance.choice(["shell", "delegate"])
        calls = tuple(c.PlannedCall(f"call{n}", tool, {"try": new_id()}) for n in range(self.chance.choice([0, 1, 3])))
        self.report(
            c.FinishModel(turn["id"], turn["epoch"], turn["step"], "text", calls=calls, usage={"output_tokens": 1})
        )

    def tool(self, turn: dict[str, Any]) -> None:
        at_work = [call for call in turn["calls"] if call["status"] == "started" and call["child"]]
        call = next((call for call in turn["calls"] if call["status"] != "settled" and call not in at_work), None)
        if call is None and at_work and not turn["mark"]:
            return
        if call is None:  # a marked turn's last call has settled: only its end is left
            self.end(turn)
            return
        place = (turn["id"], turn["epoch"], turn["step"], call["call"])
        if call["status"] == "planned":
            effects = [None, c.Effect("command", "git push origin"), c.Effect("other", risky=True)]
            effect = effects[int(call["call"][-1]) % 3]  # a call's is always the same
            child = c.Child(new_id(), new_id(), "a task") if call["tool"] == "delegate" else None
            self.report(c.StartTool(*place, {}, None if child else effect, new_id(), child))
        else:
            background = {"ended": [], "surviving": [], "background": SERVER if self.chance.random() < 0.2 else []}
            settled = c.Settlement(self.chance.choice(["ok", "error"]), "out", processes=background)
            self.report(c.SettleTool(*place, settled))

    def end(self, turn: dict[str, Any]) -> None:
        self.report(c.EndTurn(turn["id"], turn["epoch"], "worker", cut_off={"text": "cut"}, request=new_id()))

    def report(self, command: Any) -> None:
        reports.report(self.world.session, command, WORKER)


class Sweep(Worker):
    """Ends turns that may be running well, as if their worker were lost, or fences marked ones."""

    def act(self) -> None:
        turn = some_loop(self.world, self.chance)["turn"]
        if turn is None or not turn["worker"] or self.chance.random() < 0.97:
            return
        by: Any = "fence" if turn["mark"] else "sweep"
        surviving = [{"pid": 7, "command": "sleep"}] if self.chance.random() < 0.2 else []
        lost = c.Settlement("lost", processes={"ended": [], "surviving": surviving, "background": []})
        settlements = {call["call"]: lost for call in turn["calls"] or () if not call["child"]}
        command = c.EndTurn(turn["id"], turn["epoch"], by, "worker_lost", settlements, request=new_id())
        reports.end_turn(self.world.session, command, lambda cur: None)


@pytest.mark.rule("A1", "A2", "A3", "B5", "B6", "C1", "C4", "C6", "D3", "D8", "E2", "E3", "E5", "F", "H1", "H2", "I1")
@pytest.mark.rule("E13", "G1", "G3", "G5", "J4")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whatever_happens_at_once_the_log_is_sound(seed: int) -> None:
    world, ben = World.create(), person("ben", "phone")
    control.set_member(world.owner, world.session, new_id(), person="ben", role="owner")
    kinds: list[Callable[[random.Random], Any]] = [
        lambda chance: Person(world, world.owner, chance), lambda chance: Person(world, ben, chance),
        *[lambda chance: Worker(world, chance)] * 3,
        lambda chance: Sweep(world, chance),
    ]  # fmt: skip
    refusals, guard = set[str](), threading.Lock()

    def acting(actor: Any) -> Callable[[], None]:
        def act() -> None:
            for _ in range(120):
                try:
                    actor.act()
                except Refused as refused:
                    with guard:
                        refusals.add(refused.code)

        return act

    together([acting(kind(random.Random(seed * 100 + n))) for n, kind in enumerate(kinds)])
    assert refusals <= EXPECTED
    log = world.events()
    state = fold(log)
    check_log(log, state)
    assert read.snapshot(world.session)["state"] == as_stored(to_json(state))
    assert as_stored(to_json(fold(without_texts(event) for event in log))) == as_stored(to_json(state))
    assert list(chain.verify(world.session)) == []
    assert len(log) > 60, "something happened"


def as_stored(value: Any) -> Any:
    """As JSON has it: lists for tuples."""
    if isinstance(value, dict):
        return {key: as_stored(each) for key, each in value.items()}
    return [as_stored(each) for each in value] if isinstance(value, list | tuple) else value
