"""What somebody wants, as values. People's commands first, then the reports of workers, then the sweep's.

Every id a command may need for something new comes with it: the engine makes none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sessions_app.engine.state import Mode, QueueChoice


@dataclass(frozen=True, slots=True)
class Submit:
    """Admit an input (B1)."""

    input: str
    text: str
    loop: str | None = None
    delivery: str = "queue"
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EditInput:
    """Change a waiting input's text or place, or make it a steer named `steer` (B4)."""

    input: str
    text: str | None = None
    position: int | None = None
    promote: Literal["normal", "urgent"] | None = None
    steer: str = ""


@dataclass(frozen=True, slots=True)
class RetractInput:
    """Take a waiting input back (B4)."""

    input: str


@dataclass(frozen=True, slots=True)
class SendSteer:
    """Hand text to the running turn at its next safe point (D)."""

    steer: str
    text: str
    urgent: bool = False
    loop: str | None = None
    turn: str | None = None
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EditSteer:
    """Change a pending steer's text, or make it the input named `input`."""

    steer: str
    text: str | None = None
    as_input: bool = False
    input: str = ""


@dataclass(frozen=True, slots=True)
class WithdrawSteer:
    """Take a pending steer back (D8)."""

    steer: str


@dataclass(frozen=True, slots=True)
class Release:
    """Let held inputs and steers go on (`run`) or give them back (`authors`); None means all held (E12)."""

    inputs: Sequence[str] | None = None
    steers: Sequence[str] | None = None
    to: Literal["run", "authors"] = "run"


@dataclass(frozen=True, slots=True)
class Then:
    """What runs first after a stop: a new text or a waiting input (E12)."""

    input: str
    text: str | None = None
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the running turns of the session or of one loop with its subtree (E).

    Past `not_after_ms` (by the database's clock) it is refused as `too_late` and stops nothing: a stop that hung in a
    dead network must not stop, minutes later, what nobody meant. `keep_background`: processes that were declared as
    background run on (E13).
    """

    request: str
    loop: str | None = None
    turn: str | None = None
    reason: str | None = None
    queue: QueueChoice | None = None
    then: Then | None = None
    not_after_ms: int | None = None
    keep_background: bool = False


@dataclass(frozen=True, slots=True)
class KillProcesses:
    """End what a settled call left running in the background (E13). `turn` tells calls of one id apart."""

    call: str
    turn: str | None = None


@dataclass(frozen=True, slots=True)
class GiveReason:
    """Say afterwards why a turn was stopped (B6)."""

    turn: str
    request: str
    loop: str
    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the session for good (K1). `request` names the interrupt of what runs."""

    request: str


@dataclass(frozen=True, slots=True)
class ChangeSession:
    """Change the title or settings."""

    title: str | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SetMember:
    """Give a person a role, or none."""

    person: str
    role: str | None


@dataclass(frozen=True, slots=True)
class Erase:
    """Forget the texts of one event (A3)."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """What a rule covers (H3): a `command`, a `command_prefix` (whole words), a `path` (folders end in /)."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Try the opening input of a failed turn again, as a new input `again` (B9)."""

    input: str
    again: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """Answer a gate (H3). `rule` is one of those offered with it; `rule_id` names it from then on."""

    gate: str
    decision: Literal["allow", "allow_rule", "deny"]
    rule: RuleSpec | None = None
    message: str | None = None
    rule_id: str = ""


@dataclass(frozen=True, slots=True)
class RevokeRule:
    """Take a standing answer back."""

    rule: str


@dataclass(frozen=True, slots=True)
class SetMode:
    """Change what an agent may do without asking (I1)."""

    loop: str | None
    mode: Mode


@dataclass(frozen=True, slots=True)
class ChangeLoop:
    """Change an agent from its next turn on (I1)."""

    loop: str | None
    model: str | None = None
    instructions: str | None = None
    limits: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker takes a loop's next input as the turn `turn`, or a turn that was given back (B2, J1, J4).

    `resume`: it has the workspace that a turn which has worked already needs.
    """

    loop: str
    turn: str
    worker: str
    resume: bool = True


@dataclass(frozen=True, slots=True)
class HandOver:
    """A worker that is about to leave gives a turn back (J4).

    `usage` and `cost` are those of a dropped model call, `attempt` is the number of the next one.
    """

    turn: str
    epoch: int
    at: Literal["safe_point", "call", "gate", "delegate", "back_off", "model"]
    usage: Mapping[str, int] = field(default_factory=dict)
    attempt: int = 1
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class BeginStep:
    """The safe point before a model call: steers are drained (D3)."""

    turn: str
    epoch: int


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call a model asked for."""

    call: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class FinishModel:
    """A complete model reply: committed, superseded, or refused by a mark (C2, C3, D4)."""

    turn: str
    epoch: int
    step: int
    text: str
    reasoning: str = ""
    calls: tuple[PlannedCall, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    replaced: bool = False
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call would change, as far as rules can tell (H3): a `command`, a `path`, or something `other`.

    `risky`: the profile's risk rules call it so, and even the mode `auto` asks (I1).
    """

    kind: Literal["command", "path", "other"]
    value: str = ""
    risky: bool = False


@dataclass(frozen=True, slots=True)
class Child:
    """The delegate that a call makes (G1): its loop, and its task as that loop's first input."""

    loop: str
    input: str
    task: str
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class StartTool:
    """The intent before the effect (C2).

    `effect` is None for a call that only reads; `gate` is a new gate's id; `child` is what a delegating call makes.
    """

    turn: str
    epoch: int
    step: int
    call: str
    arguments: Any
    effect: Effect | None = None
    gate: str = ""
    child: Child | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of one call (C4).

    `processes` is `{ended, surviving, background}`, each a list of `{pid, command}`; `code` says which error it is,
    where a program is to tell (G4).
    """

    outcome: Literal["ok", "error", "denied", "interrupted", "not_run", "lost"]
    output: str = ""
    exit: int | None = None
    duration_ms: int = 0
    processes: Mapping[str, Any] = field(default_factory=lambda: {"ended": [], "surviving": [], "background": []})
    replaced: bool = False
    code: str = ""


@dataclass(frozen=True, slots=True)
class SettleTool:
    """A call has ended by itself."""

    turn: str
    epoch: int
    step: int
    call: str
    settlement: Settlement


@dataclass(frozen=True, slots=True)
class Fail:
    """The turn cannot go on (a provider's error, a fault of ours). `request` would be that of its delegates' end.

    `settlements` holds what is known of started calls, as in `EndTurn`.
    """

    turn: str
    epoch: int
    code: str
    detail: str
    usage: Mapping[str, int] = field(default_factory=dict)
    cut_off: Mapping[str, str] = field(default_factory=dict)
    cost: float | None = None
    request: str = ""
    settlements: Mapping[str, Settlement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The work of a turn has really ended, or is fenced (E8, E9, J2).

    `settlements` holds what is known of started calls; a started call without one is `lost`. `cause` counts where the
    turn is not marked. `unknown` says that it cannot be proven that nothing runs (J6). `settled_ms` counts where there
    was no request; `usage` and `cost` are a cut-off model call's; `which` names the budget that is used up (B7);
    `request` would be that of its delegates' end; `grace_ms`: how long the turn could go on after its worker was told
    to end (J4).
    """

    turn: str
    epoch: int
    by: Literal["worker", "fence", "sweep", "request"]
    cause: Literal["worker_lost", "worker_shutdown", "budget"] | None = None
    settlements: Mapping[str, Settlement] = field(default_factory=dict)
    cut_off: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    phase: str = "model"
    acknowledged_ms: int | None = None
    settled_ms: int = 0
    unknown: bool = False
    which: str = ""
    request: str = ""
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SurvivorsEnded:
    """Processes that had survived a kill have ended, while their turn still runs or after its end (B6, E7)."""

    turn: str
    loop: str
    call: str
    ended: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class BackgroundEnded:
    """Declared background processes have ended, by themselves or killed, or have outlived their kill (E13, E7).

    `unknown`: they died with their worker, as nobody can tell from here (J6). `why`: what ended them where no person
    did, `worker_shutdown` or `worker_lost`; empty: they ended by themselves.
    """

    turn: str
    loop: str
    call: str
    ended: Sequence[Mapping[str, Any]]
    surviving: Sequence[Mapping[str, Any]] = ()
    unknown: bool = False
    why: str = ""


Command = (
    Submit | EditInput | RetractInput | SendSteer | EditSteer | WithdrawSteer | Release | Interrupt | GiveReason | Close
    | KillProcesses | ChangeSession | SetMember | Erase | Retry | Resolve | RevokeRule | SetMode | ChangeLoop | Claim
    | HandOver | BeginStep | FinishModel | StartTool | SettleTool | Fail | EndTurn
    | SurvivorsEnded | BackgroundEnded
)  # fmt: skip
