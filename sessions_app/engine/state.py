"""The state a session's lock protects, and its fold.

Small on purpose: loops, their one running turn, queues by reference (a text is the text of the event `text_seq`), marks
and epochs; never the conversation. `evolve` reads facts only (A3), so the fold of an erased log is the same (A2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeVar

QueueChoice = Literal["run", "hold", "clear"]
Mode = Literal["plan", "ask", "auto"]
MODES: Final[tuple[Mode, ...]] = ("plan", "ask", "auto")
"""From the strictest to the loosest (I1)."""
FOLD: Final = 5
"""Version of the fold. A stored state of another version takes no command until it is folded anew, by `prepare`, which
`up` runs before anything else, or by `rebuild`."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote something that waits: the actor without the device."""

    kind: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Input:
    """An input in the inbox (B1)."""

    id: str
    agency: str
    delivery: str
    author: Author
    seq: int
    text_seq: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class Steer:
    """A pending steer (D1)."""

    id: str
    urgent: bool
    author: Author
    seq: int
    text_seq: int
    held: bool = False
    for_turn: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the planned step, in reply order (C2).

    `answer` is None while nobody has been asked about it; `seq` is the event that asked, answered or closed; `child` is
    the loop that a started call of the delegate tool waits for (G1). `killer` wants whatever it will leave running to
    end (E13): `{actor, cause}`.
    """

    call: str
    tool: str
    status: Literal["planned", "started", "settled"] = "planned"
    gate: str | None = None
    answer: Literal["open", "allow", "deny", "closed"] | None = None
    seq: int | None = None
    child: str | None = None
    killer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing answer (H3); the event `seq` says what it covers."""

    id: str
    kind: str
    tool: str
    seq: int


@dataclass(frozen=True, slots=True)
class Survivors:
    """A settled call whose processes outlived their kill (E7); the event `seq`, its settlement, names them.

    `turn` is the call's own: a delegate's survivors are its parent's too, once it has ended.
    """

    call: str
    seq: int
    turn: str


@dataclass(frozen=True, slots=True)
class Background:
    """A settled call whose declared processes run on (E13), in the care of `worker`; the event `seq` names them.

    `killer` is who wants them ended: `{actor, cause}`; None while nobody does.
    """

    call: str
    turn: str
    seq: int
    at_ms: int
    worker: str
    killer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The running turn. `worker` is empty while the turn is given back: nobody has a lease on it (J4).

    `step` is the number of the model call that is due or under way; `calls` is None unless that step is planned; `kept`
    counts committed steps; `mark` is the request that ends it (E2); `survivors` are those not known to have ended;
    `mode` is the strictest since the step began (I1); `model` and `limits` are those it started with, and its
    delegates', too (I1); `limits` are what differs from the default budgets (B7), which `cost` in dollars (`unpriced`:
    and steps whose price is not known) and the time outside gates count against; `asked_ms` is since when it has waited
    for an answer or a worker. `planned` is the last planned step, whose last call was asked for `repeats` times in a
    row; `delegates` counts all that were started below it (G4); `attempt` is the next model call's, where one was
    dropped (L2). What delegates have used, their time and their steps too (`steps_below`), and what survived them is
    the turn's own, once they have ended.
    """

    id: str
    index: int
    opening: Input
    worker: str
    epoch: int
    at_ms: int
    step: int = 1
    kept: int = 0
    steps_below: int = 0
    calls: tuple[Call, ...] | None = None
    step_usage: Mapping[str, int] | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    mark: str | None = None
    survivors: tuple[Survivors, ...] = ()
    unknown: bool = False
    mode: Mode = "auto"
    model: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    unpriced: bool = False
    waited_ms: int = 0
    asked_ms: int | None = None
    planned: int | None = None
    repeats: int = 0
    delegates: int = 0
    attempt: int = 1

    def given_back(self) -> bool:
        """Whether nobody has a lease on it (J4)."""
        return not self.worker

    def delegated(self) -> tuple[Call, ...]:
        """The calls that wait for a child (G3)."""
        return tuple(call for call in self.calls or () if call.status == "started" and call.child is not None)

    def waits(self) -> bool:
        """Whether it waits for an answer or a child, which no work of its own shortens (B7)."""
        return bool(self.delegated()) or any(call.answer == "open" for call in self.calls or ())


@dataclass(frozen=True, slots=True)
class Loop:
    """One agent: its queues and at most one turn.

    `parent` is the loop that delegates to it (G1), `failed` what may be tried again, oldest first (B9),
    `background` what its settled calls left running (E13); the event `answer` holds its last turn's final answer.
    """

    id: str
    agent: str
    model: str
    mode: Mode
    parent: str | None = None
    status: Literal["idle", "running", "closed"] = "idle"
    turns: int = 0
    epoch: int = 0
    inbox: tuple[Input, ...] = ()
    steers: tuple[Steer, ...] = ()
    turn: Turn | None = None
    failed: tuple[Input, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    background: tuple[Background, ...] = ()
    answer: int | None = None

    def next_input(self) -> Input | None:
        """The input the next turn opens with: the first that is not set aside."""
        return next((entry for entry in self.inbox if not entry.held), None)

    def ready_steers(self) -> tuple[Steer, ...]:
        """What the next safe point delivers (D3)."""
        return tuple(steer for steer in self.steers if not steer.held)

    def runnable(self) -> bool:
        """Whether it has something to start (B2)."""
        return self.status == "idle" and self.next_input() is not None


@dataclass(frozen=True, slots=True)
class Request:
    """An interrupt whose turns have not all ended.

    `seq` divides what it touches from what came after it (E5); `then` are the inputs sent with it, which run first and
    which it never touches (E12). `why` is the cause that the terminals of its turns name (E8); `keep_background`: what
    was declared as background runs on (E13).
    """

    id: str
    seq: int
    at_ms: int
    actor: Mapping[str, Any]
    cause: str
    queue: QueueChoice
    turns: tuple[str, ...]
    phases: Mapping[str, str]
    why: str
    then: tuple[str, ...] = ()
    keep_background: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """What a session has cost in dollars: in all, and on the UTC day `day` (days since 1970) of its last step (B7)."""

    cost: float = 0.0
    day: int = 0
    day_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """The whole of a session's protected state. `titled` says whether its title was chosen or made already."""

    status: Literal["open", "closing", "closed"] = "open"
    loops: Mapping[str, Loop] = field(default_factory=dict)
    requests: Mapping[str, Request] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    titled: bool = False
    rules: tuple[Rule, ...] = ()
    spent: Spent = Spent()

    def runnable(self) -> bool:
        """Whether a worker may claim something."""
        return any(map(self.claimable, self.loops.values()))

    def claimable(self, loop: Loop) -> bool:
        """Whether a worker may claim this loop: a turn that was given back, or a new one (B2, J4).

        A turn that is being stopped starts no child (E2).
        """
        if self.status != "open":
            return False
        if loop.turn is not None:
            return loop.turn.given_back() and loop.turn.mark is None
        if not loop.runnable() or loop.parent is None:
            return loop.runnable()
        parent = self.loops[loop.parent].turn
        return parent is not None and parent.mark is None

    def ancestors(self, loop: Loop) -> list[Loop]:
        """The loops above, the nearest first."""
        above = []
        while loop.parent is not None:
            loop = self.loops[loop.parent]
            above.append(loop)
        return above

    def below(self, loop: Loop) -> list[Loop]:
        """The live loops below this one, the deepest first: children end before their parents (G3)."""
        children = [other for other in self.loops.values() if other.parent == loop.id and other.status != "closed"]
        return [each for child in children for each in (*self.below(child), child)]

    def primary(self) -> Loop:
        """The loop people talk to when they name none."""
        return next(loop for loop in self.loops.values() if loop.parent is None)

    def with_loop(self, loop: Loop) -> "State":
        return replace(self, loops={**self.loops, loop.id: loop})

    def turn(self, turn_id: str) -> tuple[Loop, Turn] | None:
        """The running turn of that id and its loop, or None when it is over or never was."""
        for loop in self.loops.values():
            if loop.turn is not None and loop.turn.id == turn_id:
                return loop, loop.turn
        return None


def active_ms(turn: Turn, now_ms: int) -> int:
    """How long a turn has worked, without its waits for an answer, a worker or delegates (B7)."""
    waiting = 0 if turn.asked_ms is None else now_ms - turn.asked_ms
    return max(0, now_ms - turn.at_ms - turn.waited_ms - waiting)


def stricter(a: Mode, b: Mode) -> Mode:
    """The stricter of two modes."""
    return min(a, b, key=MODES.index)


def with_cost(turn: Turn, cost: float | None) -> Turn:
    """The turn with one more model call paid for; `cost` is None where its price is not known."""
    if cost is None:
        return replace(turn, unpriced=True)
    return replace(turn, cost=(turn.cost or 0.0) + cost)


def costs(turn: Turn) -> dict[str, float | None]:
    """What a terminal says that the turn has cost in dollars: `cost`, which is None where a price is not known.

    That is not nothing: beside it stands what is known, as `known_cost` (B7).
    """
    if not turn.unpriced:
        return {"cost": turn.cost}
    return {"cost": None} if turn.cost is None else {"cost": None, "known_cost": turn.cost}


def final_costs(turn: Turn, usage: Mapping[str, int], cost: float | None) -> dict[str, float | None]:
    """Those of a turn that ends without a last reply, with the model call that was cut off, if `usage` says so."""
    return costs(with_cost(turn, cost) if usage else turn)


def known_cost(terminal: Mapping[str, Any]) -> float | None:
    """What is known of what a turn has cost, by its terminal."""
    known: float | None = terminal.get("known_cost", terminal.get("cost"))
    return known


def add_usage(a: Mapping[str, int], b: Mapping[str, int] | None) -> dict[str, int]:
    """The sum of two usages, key by key (tokens)."""
    total = dict(a)
    for key, value in (b or {}).items():
        total[key] = total.get(key, 0) + value
    return total


def to_json(state: State) -> dict[str, Any]:
    """The state as the API and the cache hold it."""
    return {"v": FOLD, **asdict(state)}


def to_encode(state: State) -> dict[str, Any]:
    """What an encoder that walks dataclasses by itself writes as `to_json`, in a quarter of the time."""
    return {"v": FOLD, **{each.name: getattr(state, each.name) for each in fields(state)}}


def from_json(data: Mapping[str, Any]) -> State:
    """The inverse of `to_json`."""
    return State(
        status=data["status"],
        loops={key: _loop(value) for key, value in data["loops"].items()},
        requests={key: _request(value) for key, value in data["requests"].items()},
        settings=data["settings"],
        titled=data["titled"],
        rules=tuple(Rule(**rule) for rule in data["rules"]),
        spent=Spent(**data["spent"]),
    )


def _request(data: Mapping[str, Any]) -> Request:
    return Request(**{**data, "turns": tuple(data["turns"]), "then": tuple(data["then"])})


def _loop(data: Mapping[str, Any]) -> Loop:
    return Loop(**{
        **data,
        "inbox": tuple(map(_input, data["inbox"])),
        "steers": tuple(Steer(**{**entry, "author": Author(**entry["author"])}) for entry in data["steers"]),
        "turn": None if data["turn"] is None else _turn(data["turn"]),
        "failed": tuple(map(_input, data["failed"])),
        "background": tuple(Background(**entry) for entry in data["background"]),
    })  # fmt: skip


def _input(data: Mapping[str, Any]) -> Input:
    return Input(**{**data, "author": Author(**data["author"])})


def _turn(data: Mapping[str, Any]) -> Turn:
    calls = data["calls"]
    return Turn(**{
        **data,
        "opening": _input(data["opening"]),
        "calls": None if calls is None else tuple(Call(**call) for call in calls),
        "survivors": tuple(Survivors(**each) for each in data["survivors"]),
    })  # fmt: skip


Entry = TypeVar("Entry", Input, Steer)


def without(entries: Iterable[Entry], *ids: str) -> tuple[Entry, ...]:
    """The entries less those of the given ids."""
    return tuple(entry for entry in entries if entry.id not in ids)
