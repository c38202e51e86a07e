"""What must be true of every log and every state, whatever happened: checked after each step of generated histories."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sessions_app.engine.decide.gates import open_gates
from sessions_app.engine.events import SHAPES, Event
from sessions_app.engine.limits import STEERS_PENDING
from sessions_app.engine.state import Loop, State, to_json
from sessions_app.engine.transcript import Transcript
from sessions_app.engine.transcript_types import AssistantEntry, ResultEntry, UserEntry
from tests.engine.harness import Memory

TERMINALS = {"TurnDone", "TurnInterrupted", "TurnFailed"}
COMMITS = {
    "TurnResumed", "TurnHandedOver", "StepPlanned", "ToolStarted", "OutputSuperseded", "SteerDelivered",
    "TurnFoldedInto", "GateOpened", "GateResolved",
}  # fmt: skip
"""What no marked turn does any more (E2)."""
WORK = (COMMITS - {"GateResolved"}) | {"ToolSettled", "StepDone"}
LANDS = {"SteerDelivered", "TurnFoldedInto"}
BEGINS = {"LoopStarted", "TurnStarted", "TurnResumed"}
REASONS = {
    "client_retracted", "promoted", "cleared", "turn_interrupted", "turn_failed", "loop_closed", "session_closed",
}  # fmt: skip
AFTER_THE_END = {"KillRequested", "MemberChanged", "ContentErased", "InterruptReasonGiven", "ProcessesEnded"}


class Origin(NamedTuple):
    """The call that made a delegate (G1)."""

    parent: str
    turn: str
    call: str


class Tree(dict[str, Origin]):
    """Every delegate there ever was, by its loop."""

    def turns_above(self, loop: str | None) -> Iterator[str]:
        """The turns that wait for this loop, the nearest first."""
        while loop is not None and loop in self:
            yield self[loop].turn
            loop = self[loop].parent


def grown(log: list[Event]) -> Tree:
    """The tree of delegates; each is made by a call of the turn that runs above it."""
    tree, turn_of = Tree(), dict[str | None, str]()
    for event in log:
        if event.type == "TurnStarted":
            turn_of[event.loop] = event.turn or ""
        elif event.type == "LoopStarted" and event.data["parent"] is not None:
            parent = event.data["parent"]
            tree[event.loop or ""] = Origin(parent, turn_of[parent], event.data["call"])
    return tree


def check(memory: Memory) -> None:
    """All of them."""
    check_log(memory.log, memory.state)
    check_state(memory.state)
    assert to_json(memory.forgetful) == to_json(memory.state), "the fold of facts differs from the state"
    assert to_json(memory.round_trip()) == to_json(memory.state), "the state does not survive JSON"


def check_log(log: list[Event], state: State) -> None:
    """All that a log and its fold show."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), "a gap"
    tree = grown(log)
    fields_are_known(log)
    one_terminal_and_no_work_after_it(log)
    loops: dict[str, list[Event]] = defaultdict(list)
    for event in log:
        if event.loop is not None:
            loops[event.loop].append(event)
    for events in loops.values():
        turns_and_steps_are_numbered(events)
        calls_run_one_at_a_time_in_order(events)
        one_worker_at_a_time(events, tree)
    nothing_starts_after_a_mark(log, tree)
    an_interrupted_turn_says_by_whom(log)
    every_call_is_settled_once(log, state)
    children_live_within_their_call(log, state, tree)
    gates_are_answered_or_closed_once(log, state)
    inputs_and_steers_leave_once(log, state)
    what_waits_lands_in_order(log)
    a_stop_spares_what_came_after_it(log)
    usage_adds_up(log, state, tree)
    background_is_listed_until_it_has_ended(log, state)
    ends_are_in_order(log)
    nothing_follows_the_end(log)
    for id in loops:
        history_is_acceptable([event for event in log if event.loop in (None, id)], state, id)


def check_state(state: State) -> None:
    """All that a state shows after a transaction, cheap enough for each one."""
    for loop in state.loops.values():
        assert len(loop.steers) <= STEERS_PENDING
        assert (loop.turn is not None) == (loop.status == "running"), "a turn in a loop that does not run"
        if loop.status == "closed":
            assert not loop.inbox and not loop.steers, "something waits in a closed loop"
        turn_is_sound(state, loop)
        delegate_is_sound(state, loop)
        if loop.status == "closed" or state.status != "open":
            assert all(each.killer is not None for each in loop.background), "background was forgotten"


def turn_is_sound(state: State, loop: Loop) -> None:
    """A turn goes on or is about to end: what it waits for is there (E2, G3, K1)."""
    turn = loop.turn
    if turn is None:
        return
    below = [each.turn for each in state.below(loop) if each.turn is not None]
    for call in turn.delegated():
        child = state.loops[call.child or ""]
        assert child.status != "closed" and child.parent == loop.id, "a call that waits for a closed delegate"
    if turn.mark is not None:
        assert turn.id in state.requests[turn.mark].turns, "a mark without its request"
        assert all(each.mark is not None for each in below), "a turn below a marked one is not marked"
        assert below or not turn.given_back(), "a marked turn hangs that nobody has"
    else:
        assert state.status == "open", "a turn that a close has not marked"
        assert turn.calls is None or any(call.status != "settled" for call in turn.calls), "a step that nobody ends"


def delegate_is_sound(state: State, loop: Loop) -> None:
    """A live delegate is what one call waits for, and has something to do (G3)."""
    if loop.parent is None or loop.status == "closed":
        return
    above = state.loops[loop.parent].turn
    assert above is not None, "a delegate without its parent's turn"
    assert [call.child for call in above.delegated()].count(loop.id) == 1, "a delegate that nobody waits for"
    assert loop.turn is not None or loop.next_input() is not None, "a delegate with nothing to do: its parent hangs"


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


def nothing_starts_after_a_mark(log: list[Event], tree: Tree) -> None:
    """E2, E3: a marked turn commits nothing and only a stop ends it; below it no delegate and no turn begins."""
    running: set[str] = set()
    marked: set[str] = set()
    for event in log:
        if event.type == "TurnStarted":
            running.add(event.turn or "")
        if event.type == "InterruptRequested":
            assert running.issuperset(event.data["turns"]), "a mark of a turn that does not run"
            assert not marked.intersection(event.data["turns"]), "a turn was marked twice"
            marked.update(event.data["turns"])
        elif event.type in COMMITS:
            assert event.turn not in marked, f"{event.type} after a mark"
        elif event.type in ("TurnDone", "TurnFailed"):
            assert event.turn not in marked, f"{event.type} beat a mark"
        if event.type in BEGINS:
            assert not marked.intersection(tree.turns_above(event.loop)), f"{event.type} below a marked turn"
        if event.type in TERMINALS:
            running.discard(event.turn or "")


def an_interrupted_turn_says_by_whom(log: list[Event]) -> None:
    """E8, A5: the one request that marked it, as the act of its actor; none where nobody asked."""
    request_of: dict[str | None, Event] = {}
    for event in log:
        if event.type == "InterruptRequested":
            request_of |= dict.fromkeys(event.data["turns"], event)
        elif event.type == "TurnInterrupted":
            asked = request_of.get(event.turn)
            assert event.data.get("request") == (asked and asked.data["request"]), "another request ended it"
            if asked is None:
                assert event.data["cause"] in ("worker_lost", "worker_shutdown", "budget"), "nobody stopped it"
            else:
                assert (event.actor, event.cause) == (asked.actor, asked.cause), "a stop is its sender's act"


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
            assert [call] == waiting[:1], "a call out of its order"
            waiting.pop(0)
            delegates = {each for each in running if tools[each] == "delegate"}
            assert not running or (running == delegates and tools[call] == "delegate"), "two calls at once"
            running.add(call)
        elif event.type == "ToolSettled":
            call = event.data["call"]
            if call in running:
                running.remove(call)
            else:
                assert [call] == waiting[:1], "a settlement out of order"
                waiting.pop(0)


def one_worker_at_a_time(log: list[Event], tree: Tree) -> None:
    """J4, E2: a turn that was given back does nothing until somebody claims it; what ends it is the stop itself.

    Its delegates go on, and their ends settle its calls (G3); a question is answered or closed while nobody has it.
    """
    delegating = {(origin.turn, origin.call) for origin in tree.values()}
    given_back, left = False, list[str]()
    for event in log:
        if event.type == "TurnHandedOver":
            assert not given_back, "given back twice"
            given_back, left = True, []
        elif event.type == "TurnResumed":
            assert given_back, "resumed although nobody gave it back"
            assert not left, "a call of a turn that nobody has was settled, though its turn went on"
            given_back = False
        elif event.type in TERMINALS:
            by_request = event.data.get("ended_by") == "request"
            assert by_request == given_back, f"{event.type} of a turn, given back: {given_back}"
            given_back = False
        elif given_back and event.type == "ToolSettled":
            left += [] if (event.turn, event.data["call"]) in delegating else [event.data["call"]]
        elif event.type in WORK - {"StepDone"}:
            assert not given_back, f"{event.type} of a turn that nobody has"


def children_live_within_their_call(log: list[Event], state: State, tree: Tree) -> None:
    """G3: a child is made by a running call, ends and closes before it; what closed does nothing any more."""
    live: set[str] = set()
    busy: set[str] = set()
    started: set[tuple[str | None, str]] = set()
    for event in log:
        loop = event.loop or ""
        if event.type == "LoopStarted" and loop in tree:
            assert (tree[loop].turn, tree[loop].call) in started, "a child without its call"
            live.add(loop)
        elif loop in tree and event.type not in ("ProcessesEnded", "KillRequested"):
            assert loop in live, f"{event.type} of a closed loop"
        if event.type == "TurnStarted":
            busy.add(loop)
        elif event.type == "ToolStarted":
            started.add((event.turn, event.data["call"]))
        elif event.type == "LoopClosed":
            assert loop not in busy, "a loop was closed while its turn ran"
            live.remove(loop)
        elif event.type == "ToolSettled":
            key = (event.turn, event.data["call"])
            started.discard(key)
            assert not [id for id in live if tree[id][1:] == key], "a call was settled before its child had closed"
        elif event.type in TERMINALS:
            assert not [id for id in live if tree[id].turn == event.turn], "a turn ended before its children"
            busy.discard(loop)
    open_now = {id for id, loop in state.loops.items() if loop.parent is not None and loop.status != "closed"}
    assert open_now == live


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
    """B5, D8: each leaves once, where it came, or waits there."""
    came: dict[str, str | None] = {}
    left: Counter[str] = Counter()
    for event in log:
        data = event.data
        entry = data.get("input") or data.get("steer") or ""
        if event.type == "InputQueued" or (event.type == "SteerQueued" and entry not in came):
            assert entry not in came, "an input came twice"
            came[entry] = event.loop
        elif event.type in ("TurnStarted", "TurnFoldedInto", "InputCancelled", "SteerDelivered", "SteerWithdrawn"):
            assert came.get(entry, "") == event.loop, "something left where it had not come"
            left[entry] += 1
    waiting = {entry.id: loop.id for loop in state.loops.values() for entry in loop.inbox}
    waiting |= {steer.id: loop.id for loop in state.loops.values() for steer in loop.steers}
    assert all(count == 1 for count in left.values()), "something left twice"
    assert all(came[entry] == loop for entry, loop in waiting.items())
    assert sorted(came) == sorted([*left, *waiting]), "something was lost, or left and waits still"


def what_waits_lands_in_order(log: list[Event]) -> None:
    """B3, D3: a turn opens with the first input; at a safe point all steers land, oldest first, and then the folding
    inputs, oldest first, up to the first other. What is set aside is passed over."""
    steers: dict[str | None, list[str]] = defaultdict(list)
    inbox: dict[str | None, list[str]] = defaultdict(list)
    folds: set[str] = set()
    held: set[str] = set()
    for event, following in pairwise([*log, None]):
        assert event is not None
        data, pending, waiting = event.data, steers[event.loop], inbox[event.loop]
        ready = [each for each in pending if each not in held]
        due = [each for each in waiting if each not in held]
        match event.type:
            case "SteerQueued" if data["steer"] not in pending:
                pending.append(data["steer"])
            case "InputQueued" | "InputChanged":
                inbox[event.loop] = waiting = [each for each in waiting if each != data["input"]]
                waiting.insert(data["position"], data["input"])
                folds |= {data["input"]} if data["delivery"] == "fold" else set()
            case "InputHeld":
                held.update(data["inputs"], data["steers"])
            case "InputReleased":
                held.difference_update(data["inputs"], data["steers"])
            case "SteerWithdrawn":
                pending.remove(data["steer"])
            case "InputCancelled":
                waiting.remove(data["input"])
            case "TurnStarted":
                assert [data["input"]] == due[:1], "a turn that another message should have opened"
                waiting.remove(data["input"])
            case "SteerDelivered":
                assert [data["steer"]] == ready[:1], "a steer overtook an older one"
                pending.remove(ready.pop(0))
            case "TurnFoldedInto":
                assert not ready, "a folding message overtook a steer"
                assert [data["input"]] == due[:1], "a folding message overtook another one"
                assert data["input"] in folds, "a message that does not fold was folded"
                waiting.remove(due.pop(0))
        if event.type in LANDS and (following is None or following.type not in LANDS or following.loop != event.loop):
            assert not ready, "a safe point left a steer behind"
            assert not due or due[0] not in folds, "a safe point left a folding message behind"


def a_stop_spares_what_came_after_it(log: list[Event]) -> None:
    """E5, unless everything is held beside a survivor or goes back with its loop or session."""
    queued = {
        event.data.get("input") or event.data["steer"]: event.seq
        for event in reversed(log)
        if event.type in ("InputQueued", "SteerQueued")
    }
    requests = {event.data["request"]: event.seq for event in log if event.type == "InterruptRequested"}
    returned = {
        event.data.get("input") or event.data["steer"]
        for event in log
        if event.type in ("InputCancelled", "SteerWithdrawn")
        and event.data["reason"] in ("loop_closed", "session_closed")
    }
    for event in log:
        if event.type != "TurnInterrupted" or event.data.get("note"):
            continue
        asked = requests.get(event.data.get("request"), event.seq)
        fates = (*event.data["inputs"].values(), *event.data["steers"].values())
        late = [id for ids in fates for id in ids if queued[id] > asked and id not in returned]
        assert not late, f"a stop touched what came after it: {late}"


def usage_adds_up(log: list[Event], state: State, tree: Tree) -> None:
    """B7: a turn has used what its model calls and its delegates' turns have; its end may add a cut-off call."""
    used: dict[str | None, Counter[str]] = defaultdict(Counter)
    for event in log:
        final = event.type == "StepDone" and "text" in event.data
        if final or event.type in ("StepPlanned", "OutputSuperseded", "TurnHandedOver"):
            used[event.turn].update(event.data.get("usage", {}))
        elif event.type in TERMINALS:
            said: Counter[str] = Counter(event.data["usage"])
            assert not used[event.turn] - said, "a turn has used more than it says"
            assert event.type != "TurnDone" or said == used[event.turn], "a turn says that it has used more"
            if (event.loop or "") in tree:
                used[tree[event.loop or ""].turn].update(said)
    for loop in state.loops.values():
        assert loop.turn is None or Counter(loop.turn.usage) == used[loop.turn.id], "what was used is not counted"


def background_is_listed_until_it_has_ended(log: list[Event], state: State) -> None:
    """E13: listed from its settlement to its end, which is the act of the one who first wanted it; a stop wants it.

    A delegate that ends with its parent is stopped by nobody; its background goes when it closes.
    """
    listed: dict[tuple[str | None, str], Event | None] = {}
    revoked: dict[tuple[str | None, str], Event] = {}
    running: set[tuple[str | None, str]] = set()
    spares = {
        event.data["request"]
        for event in log
        if event.type == "InterruptRequested" and (event.data.get("keep_background") or "cause" in event.data)
    }
    for event in log:
        key = (event.turn, str(event.data.get("call")))
        if event.type == "ToolStarted":
            running.add(key)
        elif event.type == "ToolSettled":
            running.discard(key)
            if event.data["processes"]["background"]:
                listed[key] = None
        elif event.type == "KeepRevoked":
            assert key in running and key not in revoked, "of what does not run, or a second time"
            revoked[key] = event
        elif event.type == "KillRequested":
            first = revoked.get(key, event)
            assert (event.actor, event.cause) == (first.actor, first.cause), "another's kill"
            assert key in listed, "a kill of what does not run"
            assert listed[key] is None, "a second killer"
            listed[key] = event
        elif event.type == "ProcessesEnded" and event.data.get("background"):
            killer = listed[key]
            assert killer is None or (event.actor, event.cause) == (killer.actor, killer.cause), "not the killer's act"
            if not event.data["processes"]["surviving"]:
                del listed[key]
        elif event.type == "TurnInterrupted" and event.data.get("request"):
            left = [at for at, killer in listed.items() if at[0] == event.turn and killer is None]
            forgotten = [at for at in left if at in revoked or event.data["request"] not in spares]
            assert not forgotten, f"background was forgotten at a stop: {forgotten}"
    now = {(each.turn, each.call): each.killer is not None for loop in state.loops.values() for each in loop.background}
    assert now == {key: killer is not None for key, killer in listed.items()}, "background is not what is listed"


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
