"""What answers look like, for the OpenAPI document; a test compares them with real answers. Fields may be added."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Reply(BaseModel):
    """An answer, described."""

    model_config = ConfigDict(extra="allow")


class Problem(Reply):
    """`application/problem+json`: match by `code`, never by `detail`. `retry_after` is in seconds."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    retry_after: float | None = None


class Created(Reply):
    id: str


class SessionItem(Reply):
    id: str
    title: str
    state: str


class SessionList(Reply):
    items: list[SessionItem]
    next: str | None


class SessionReply(SessionItem):
    head: int
    members: list[dict[str, Any]]


class Snapshot(Reply):
    """The state after event `seq`: subscribe after it. `texts` holds what waits, by the id of its input or steer.

    `files` are those of what waits, `{id, name, size, type}` each.
    """

    seq: int
    state: dict[str, Any]
    files: dict[str, list[dict[str, Any]]]


class InputReceipt(Reply):
    input: str
    position: int
    seq: int
    paused: int | None = None
    """How many of those before it are paused: it does not wait for them. Null for none."""


class UploadedFile(Reply):
    """A file that a message may name by its `id`. `size` is in bytes, `type` what they say."""

    id: str
    name: str
    size: int
    type: str


class Retracted(Reply):
    retracted: bool


class Lands(Reply):
    when: Literal["safe_point", "next_turn"]
    after: str | None = None
    running_ms: int | None = None


class SteerReceipt(Reply):
    steer: str
    lands: Lands
    seq: int


class Resolved(Reply):
    gate: str
    decision: Literal["allow", "allow_rule", "deny"]
    seq: int


class RuleItem(Reply):
    """A standing answer: such calls of `tool` run without asking."""

    id: str
    kind: str
    tool: str
    value: str | None
    at: str
    by: dict[str, Any]


class RuleList(Reply):
    items: list[RuleItem]
    next: None


class Stopped(Reply):
    """The outcome. `stopped` is true if and only if this request ended a running turn (E3)."""

    stopped: bool
    joined: bool
    turns: list[str]
    note: str | None
    input: str | None = None


class StopAccepted(Reply):
    """The receipt of a stop that waits for nothing."""

    accepted: bool
    joined: bool
    turns: list[str]
    note: str | None
    input: str | None = None
    background: list[tuple[str, str]] | None = None
    """Turn and call of the background processes that end with it (E13)."""


class Killed(Reply):
    """Background processes are about to end; `joined`: somebody had asked for that before."""

    call: str
    joined: bool


class StoppedSession(Reply):
    id: str
    stopped: bool
    turns: list[str]


class Stoppable(Reply):
    """`started_by` is the name of who made the session."""

    sessions: list[SessionItem]


class StoppedSessions(Reply):
    sessions: list[StoppedSession]


class EventPage(Reply):
    """`next` is the `after` (or, newest first, the `before`) of the following page."""

    items: list[dict[str, Any]]
    next: int | None


class OutlinedTurn(Reply):
    """A turn, by its number. `seq` is its `TurnStarted`; `end` is null while it runs.

    `cause` and `by` say why and by whom it was interrupted.
    """

    turn: str
    index: int
    seq: int
    at: str
    end: Literal["TurnDone", "TurnFailed", "TurnInterrupted"] | None
    ended_seq: int | None
    cause: str | None
    by: dict[str, str] | None


class TurnPage(Reply):
    """`next` is the `before` of the following page."""

    items: list[OutlinedTurn]
    next: int | None


class TextPart(Reply):
    """A part of a long text. `offset` and `total` count Unicode code points."""

    text: str
    offset: int
    total: int


class StopNumbers(Reply):
    """What a stop came to: all that one request ended, or one agent's part of it.

    `ended`: processes, in the background too; `ending`: those in the background that are not known to have ended yet;
    `held`, `kept`, `cancelled`: messages that it paused, left as they were, gave back.
    """

    agents: int
    acknowledged_ms: int | None
    settled_ms: int
    steps_kept: int
    cut_off: int
    approvals: int
    ended: int
    ending: int
    surviving: int
    unknown: bool
    held: int
    kept: int
    cancelled: int
    ended_by: str


class BackgroundEnd(Reply):
    """What a call had left running, and what came of it; `ended_at` is null while that is not known."""

    session: str
    turn: str | None
    call: str
    at: str
    command: Any
    numbers: StopNumbers
    ended_at: str | None


class StoppedTurn(Reply):
    """An interruption with the numbers of that turn alone."""

    id: str
    session: str
    phase: str
    numbers: StopNumbers


class StopItem(StopNumbers):
    """A stop as a whole. `request` is null where nobody asked for it."""

    request: str | None
    actor: dict[str, Any]
    cause: str
    reason: str | None
    turns: list[StoppedTurn]
    background: list[BackgroundEnd]


class StopList(Reply):
    items: list[StopItem]
    next: str | None


class InterruptionItem(Reply):
    id: str
    request: str | None
    session: str
    turn: str
    loop: str
    at: str
    actor: dict[str, Any]
    cause: str
    reason: str | None
    phase: str
    acknowledged_ms: int | None
    settled_ms: int
    steps_kept: int
    ended_by: str
    task: str | None
    """How the task starts of the sub-agent whose turn it was, empty where it was erased; null for the main agent's."""
    stop: StopNumbers
    """Those of the whole stop that it was a part of."""


class InterruptionList(Reply):
    items: list[InterruptionItem]
    next: str | None


class MemberItem(Reply):
    person: str
    name: str
    role: str


class MemberList(Reply):
    items: list[MemberItem]
    next: str | None


class ProviderItem(Reply):
    name: str
    title: str
    ready: bool
    example: str


class Me(Reply):
    id: str | None
    name: str
    kind: str
    is_admin: bool
    providers: list[ProviderItem]
