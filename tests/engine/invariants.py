"""What must be true of every log, whatever happened: checked after each step of every generated history."""

from collections import Counter
from itertools import pairwise

from sessions_app.engine.decide.gates import open_gates
from sessions_app.engine.events import SHAPES, Event
from sessions_app.engine.limits import STEERS_PENDING
from sessions_app.engine.state import State, to_json
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import AssistantEntry, ResultEntry, UserEntry
from tests.engine.harness import Memory

TERMINALS = {"TurnDone", "TurnInterrupted", "TurnFailed"}
WORK = {
    "StepPlanned", "ToolStarted", "ToolSettled", "StepDone", "OutputSuperseded", "SteerDelivered", "TurnFoldedInto",
    "TurnResumed", "TurnHandedOver", "GateOpened",
}  # fmt: skip
COMMITS = {
    "TurnResumed",
    "TurnHandedOver",
    "StepPlanned",
    "ToolStarted",
    "OutputSuperseded",
    "SteerDelivered",
    "TurnFoldedInto",
}
REASONS = {
    "client_retracted", "promoted", "cleared", "turn_interrupted", "turn_failed", "loop_closed", "session_closed",
}  # fmt: skip
AFTER_THE_END = {"KillRequested", "MemberChanged", "ContentErased", "InterruptReasonGiven", "ProcessesEnded"}


def check(memory: Memory) -> None:
    """All of them."""
    check_log(memory.log, memory.state)
    assert to_json(memory.forgetful) == to_json(memory.state), "the fold of facts differs from the state"
    assert to_json(memory.round_trip()) == to_json(memory.state), "the state does not survive JSON"


def check_log(log: list[Event], state: State) -> None:
    """All that a log and its fold show."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), "a gap"
    fields_are_known(log)
    one_terminal_and_no_work_after_it(log)
    loops = {event.loop: [each for each in log if each.loop == event.loop] for event in log if event.loop is not None}
    for events in loops.values():
        turns_and_steps_are_numbered(events)
        calls_run_one_at_a_time_in_order(events)
        one_worker_at_a_time(events)
    nothing_starts_after_a_mark(log)
    every_call_is_settled_once(log, state)
    children_live_within_their_call(log, state)
    gates_are_answered_or_closed_once(log, state)
    inputs_and_steers_leave_once(log, state)
    a_stop_spares_what_came_after_it(log)
    ends_are_in_order(log)
    nothing_follows_the_end(log)
    for loop in state.loops.values():
        assert len(loop.steers) <= STEERS_PENDING
    for id, events in loops.items():
        history_is_acceptable([each for each in log if each.loop is None or each in events], state, id)


def fields_are_known(log: list[Event]) -> None:
    for event in log:
        unknown = set(event.data) - set(SHAPES[event.type].fields)
        assert not unknown, f"{event.type} has unknown fields {unknown}"
        if event.type == "InputCancelled":
            assert event.data["reason"] in REASONS


def one_terminal_and_no_work_after_it(log: list[Event]) -> None:
    ended: set[str] = set()
    for event in log:
        if event.type in TERMINALS:
            assert event.turn not in ended, "a second terminal"
            ended.add(event.turn or "")
        elif event.type in WORK:
            assert event.turn not in ended, f"{event.type} after its turn's terminal"


def turns_and_steps_are_numbered(log: list[Event]) -> None:
    """Turns 1, 2, 3 with rising epochs; in each, steps 1, 2, 3, and nothing of a step that is not due (C2)."""
    turns, epoch, step = 0, 0, 1
    for event in log:
        if event.type == "TurnStarted":
            turns, step = turns + 1, 1
            assert event.data["index"] == turns
            assert event.data["epoch"] > epoch
            epoch = event.data["epoch"]
        elif event.type == "TurnResumed":
            assert event.data["epoch"] > epoch
            epoch = event.data["epoch"]
        elif event.type in WORK - {"SteerDelivered", "TurnFoldedInto"}:
            assert event.step == step, f"{event.type} of step {event.step} while {step} is due"
            step += event.type in ("StepDone", "OutputSuperseded")
        elif event.type in ("SteerDelivered", "TurnFoldedInto"):
            assert event.step == step, "a steer before a step that is not the next one"


def nothing_starts_after_a_mark(log: list[Event]) -> None:
    marked: set[str] = set()
    for event in log:
        if event.type == "InterruptRequested":
            assert not marked.intersection(event.data["turns"]), "a turn was marked twice"
            marked.update(event.data["turns"])
        elif event.type in COMMITS:
            assert event.turn not in marked, f"{event.type} of a marked turn"
        elif event.type in ("TurnDone", "TurnFailed"):
            assert event.turn not in marked, f"{event.type} beat a mark"


def every_call_is_settled_once(log: list[Event], state: State) -> None:
    planned: Counter[tuple[str | None, int | None, str]] = Counter()
    settled: Counter[tuple[str | None, int | None, str]] = Counter()
    started: set[tuple[str | None, int | None, str]] = set()
    for event in log:
        if event.type == "StepPlanned":
            planned.update((event.turn, event.step, call["call"]) for call in event.data["calls"])
        elif event.type == "ToolStarted":
            started.add((event.turn, event.step, event.data["call"]))
        elif event.type == "ToolSettled":
            key = (event.turn, event.step, event.data["call"])
            settled[key] += 1
            if event.data["outcome"] in ("not_run", "denied"):
                assert key not in started, f"a started call was called {event.data['outcome']}"
            else:
                assert key in started, "a call that never started had an outcome"
    assert all(count == 1 for count in settled.values())
    assert set(settled) <= set(planned)
    running = {loop.turn.id for loop in state.loops.values() if loop.turn is not None}
    open_calls = [key for key in planned if key not in settled and key[0] not in running]
    assert not open_calls, f"calls without a settlement: {open_calls}"


def calls_run_one_at_a_time_in_order(log: list[Event]) -> None:
    """C2: they start in reply order, and only delegates are at work beside each other."""
    waiting: list[str] = []
    tools: dict[str, str] = {}
    running: set[str] = set()
    for event in log:
        if event.type == "StepPlanned":
            tools = {call["call"]: call["tool"] for call in event.data["calls"]}
            waiting, running = list(tools), set()
        elif event.type == "ToolStarted":
            call = event.data["call"]
            assert call == waiting.pop(0), "a call out of its order"
            delegates = {each for each in running if tools[each] == "delegate"}
            assert not running or (running == delegates and tools[call] == "delegate"), "two calls at once"
            running.add(call)
        elif event.type == "ToolSettled":
            call = event.data["call"]
            if call in running:
                running.remove(call)
            else:
                assert call == waiting.pop(0), "a settlement out of order"


def one_worker_at_a_time(log: list[Event]) -> None:
    """J4: a turn is given back once, then resumed once; between the two nobody works at it."""
    given_back = False
    for event in log:
        if event.type == "TurnHandedOver":
            assert not given_back, "given back twice"
            given_back = True
        elif event.type == "TurnResumed":
            assert given_back, "resumed although nobody gave it back"
            given_back = False
        elif event.type in ("TurnStarted", *TERMINALS):
            given_back = False
        elif event.type in WORK - {"ToolSettled", "StepDone"}:  # those a child's end may bring (G3)
            assert not given_back, f"{event.type} of a turn that nobody has"


def children_live_within_their_call(log: list[Event], state: State) -> None:
    """G3: a child is made by a running call, ends before it and settles it; what closed does nothing any more."""
    parents: dict[str, tuple[str, str | None, str]] = {}
    live: set[str] = set()
    started: set[tuple[str | None, str]] = set()
    turn_of: dict[str, str | None] = {}
    for event in log:
        if event.loop is not None and event.loop in parents and event.type not in ("ProcessesEnded", "KillRequested"):
            assert event.loop in live, f"{event.type} of a closed loop"
        if event.type == "TurnStarted":
            turn_of[event.loop or ""] = event.turn
        elif event.type == "ToolStarted":
            started.add((event.turn, event.data["call"]))
        elif event.type == "LoopStarted" and event.data["parent"] is not None:
            above = event.data["parent"]
            parents[event.loop or ""] = (above, turn_of[above], event.data["call"])
            assert (turn_of[above], event.data["call"]) in started, "a child without its call"
            live.add(event.loop or "")
        elif event.type == "LoopClosed":
            live.remove(event.loop or "")
        elif event.type == "ToolSettled":
            started.discard((event.turn, event.data["call"]))
            made = [id for id, parent in parents.items() if parent[1:] == (event.turn, event.data["call"])]
            assert not live.intersection(made), "a call was settled before its child had closed"
        elif event.type in TERMINALS:
            below = [id for id in live if parents[id][1] == event.turn]
            assert not below, "a turn ended before its children"
    open_now = {id for id, loop in state.loops.items() if loop.parent is not None and loop.status != "closed"}
    assert open_now == live - ({*live} if state.status == "closed" else set())


def gates_are_answered_or_closed_once(log: list[Event], state: State) -> None:
    """H1, H2: a gate is open for one call that has not started, ends once, and its call runs only if it was allowed."""
    gates: dict[str, str] = {}
    of_call: dict[tuple[str | None, int | None, str], str] = {}
    marked: set[str] = set()
    for event in log:
        data, key = event.data, (event.turn, event.step, event.data.get("call", ""))
        if event.type == "InterruptRequested":
            marked.update(data["turns"])
        elif event.type == "GateOpened":
            assert event.turn not in marked, "a gate was opened after a mark"
            assert data["gate"] not in gates and key not in of_call, "a second gate for one call"
            gates[data["gate"]], of_call[key] = "open", data["gate"]
        elif event.type in ("GateResolved", "GateClosed"):
            assert gates[data["gate"]] == "open", "a gate ended twice"
            assert event.type == "GateClosed" or event.turn not in marked, "an answer after a mark"
            gates[data["gate"]] = data.get("decision", "closed")
        elif event.type == "ToolStarted" and key in of_call:
            assert gates[of_call[key]] == "allow", "a gated call ran without leave"
        elif event.type == "ToolSettled":
            ended = gates.get(of_call.get(key, ""))
            assert ended != "open", "a gate outlived its call"
            assert (data["outcome"] == "denied") == (ended == "deny"), "denied means that a person said no"
    open_now = {gate for loop in state.loops.values() if loop.turn for gate in open_gates(loop.turn)}
    assert open_now == {gate for gate, end in gates.items() if end == "open"}


def inputs_and_steers_leave_once(log: list[Event], state: State) -> None:
    came: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for event in log:
        data = event.data
        if event.type == "InputQueued" or (event.type == "SteerQueued" and data["steer"] not in came):
            came[data.get("input") or data["steer"]] += 1
        elif event.type in ("TurnStarted", "TurnFoldedInto", "InputCancelled"):
            left[data["input"]] += 1
        elif event.type in ("SteerDelivered", "SteerWithdrawn"):
            left[data["steer"]] += 1
    waiting = [entry.id for loop in state.loops.values() for entry in loop.inbox]
    waiting += [steer.id for loop in state.loops.values() for steer in loop.steers]
    assert all(count == 1 for count in (*came.values(), *left.values()))
    assert sorted(came) == sorted([*left, *waiting]), "something was lost, or left twice"


def a_stop_spares_what_came_after_it(log: list[Event]) -> None:
    """E5, unless everything is held beside a survivor or goes with the session."""
    queued = {
        event.data.get("input") or event.data["steer"]: event.seq
        for event in reversed(log)
        if event.type in ("InputQueued", "SteerQueued")
    }
    requests = {event.data["request"]: event.seq for event in log if event.type == "InterruptRequested"}
    closing = next((event.seq for event in log if event.data.get("closing")), len(log) + 1)
    for event in log:
        if event.type != "TurnInterrupted" or event.data.get("note") or event.seq > closing:
            continue
        asked = requests.get(event.data.get("request"), event.seq)
        fates = (*event.data["inputs"].values(), *event.data["steers"].values())
        late = [id for ids in fates for id in ids if queued[id] > asked]
        assert not late, f"a stop touched what came after it: {late}"


def ends_are_in_order(log: list[Event]) -> None:
    """C6: terminal, cancellations and holds, LoopIdle, SessionIdle, and only then the next turn."""
    primary = next(event.loop for event in log if event.type == "LoopStarted")
    for before, event in pairwise(log):
        if before.type in TERMINALS:
            assert event.type in ("InputCancelled", "SteerWithdrawn", "InputHeld", "LoopIdle"), event.type
            assert event.loop == before.loop
        if before.type == "LoopIdle" and before.loop == primary:
            assert event.type == "SessionIdle"
    busy: set[str | None] = set()
    for event in log:
        if event.type == "TurnStarted":
            assert event.loop not in busy, "a turn began before its loop was idle"
            busy.add(event.loop)
        elif event.type == "LoopIdle":
            busy.discard(event.loop)
        elif event.type == "SessionIdle":
            assert not busy, "the session was called idle while something ran"


def nothing_follows_the_end(log: list[Event]) -> None:
    """K1: `SessionClosed` is the last thing that happens, apart from facts about what was."""
    closed = next((event.seq for event in log if event.type == "SessionClosed"), len(log))
    assert {event.type for event in log[closed:]} <= AFTER_THE_END


def history_is_acceptable(log: list[Event], state: State, loop: str) -> None:
    """The model's next request is what the strictest provider takes: each call one result, at once and in order."""
    turn = state.loops[loop].turn if loop in state.loops else None
    if turn is not None and turn.calls is not None:
        return  # no model call can be made in the middle of a step
    transcript = Transcript()
    transcript.feed(log)
    expected: list[str] = []
    replied = True
    for entry in transcript.entries:
        if isinstance(entry, ResultEntry):
            assert expected, "a result without a call"
            assert entry.call == expected.pop(0), "a result out of place"
            replied = False
            continue
        assert not expected, "a call without its result"
        if isinstance(entry, AssistantEntry):
            assert not replied, "two replies in a row"
            expected = [call.id for call in entry.calls]
            replied = not expected
        else:
            assert isinstance(entry, UserEntry)
            assert entry.text
            replied = False
    assert not expected
