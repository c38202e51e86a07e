"""What commands look like in a request body. Only shapes: who may do what, and sizes of texts, are not decided here."""

from typing import Any, Final, Literal

from pydantic import Field, model_validator

from sessions_app.api.fields import Id, Instant, Shape
from sessions_app.engine.files import FILES_AT_ONCE
from sessions_app.engine.state import Mode, QueueChoice

MAX_WAIT_S: Final = 300.0
"""The longest a stop waits for its outcome. It goes on whatever the caller waited (E4)."""


MOST_SESSIONS: Final = 1000
"""How many sessions one stop can name."""


class NewSession(Shape):
    """A new session. `model` is `provider:model` as pydantic-ai has them; `demo:` is the demonstration."""

    title: str | None = None
    agent: str | None = None
    model: str | None = None
    instructions: str | None = None
    workspace: str | None = None
    mode: Mode | None = None


class SessionChange(Shape):
    """What changes of a session; what is absent stays as it is."""

    title: str | None = None
    settings: dict[str, Any] | None = None
    pinned: bool | None = None
    archived: bool | None = None


class NewInput(Shape):
    """An input for a turn. `fold`: it joins the running turn at its next safe point (B3)."""

    text: str
    loop: Id | None = None
    delivery: Literal["queue", "fold"] = "queue"
    files: list[Id] = Field(default_factory=list, max_length=FILES_AT_ONCE)


class InputChange(Shape):
    """A waiting input's new text or place, or its promotion to a steer (B4)."""

    text: str | None = None
    position: int | None = Field(default=None, ge=0)
    promote: Literal["normal", "urgent"] | None = None


class NewSteer(Shape):
    """A steer; with `turn`, only for that turn (D10)."""

    text: str
    urgent: bool = False
    loop: Id | None = None
    turn: Id | None = None
    files: list[Id] = Field(default_factory=list, max_length=FILES_AT_ONCE)


class SteerChange(Shape):
    """A pending steer's new text, or its change into an input (D8)."""

    text: str | None = None
    as_input: bool = False


class Release(Shape):
    """What is released of what was set aside (default: all of it), and where to."""

    inputs: list[Id] | None = None
    steers: list[Id] | None = None
    to: Literal["run", "authors"] = "run"


class Rule(Shape):
    """A standing answer that an approval offers."""

    kind: str
    value: str


class Answer(Shape):
    """An answer to an approval; `rule` is one of those it offers, the narrowest where none is named (H3)."""

    decision: Literal["allow", "allow_rule", "deny"]
    rule: Rule | None = None
    message: str | None = None


class LoopChange(Shape):
    """What changes of an agent; what is absent stays as it is."""

    mode: Mode | None = None
    model: str | None = None
    instructions: str | None = None
    limits: dict[str, Any] | None = None


class Then(Shape):
    """What runs first after a stop (E12): a new text with its files, or a waiting input."""

    text: str | None = None
    input: Id | None = None
    files: list[Id] = Field(default_factory=list, max_length=FILES_AT_ONCE)

    @model_validator(mode="after")
    def _one_of_both(self) -> "Then":
        if (self.text is None) == (self.input is None):
            raise ValueError("Give either `text` or `input`.")
        if self.files and self.text is None:
            raise ValueError("A waiting input keeps its own files.")
        return self

    def chosen(self) -> dict[str, Any]:
        """What was given."""
        if self.text is None:
            return {"input": str(self.input)}
        return {"text": self.text, "files": self.files} if self.files else {"text": self.text}


class Interrupt(Shape):
    """A stop; `wait` in seconds; past `not_after` it is refused (`too_late`).

    `keep_background`: what was declared as background runs on (E13).
    """

    loop: Id | None = None
    turn: Id | None = None
    reason: str | None = None
    queue: QueueChoice | None = None
    then: Then | None = None
    keep_background: bool = False
    not_after: Instant | None = None
    wait: float = Field(default=10.0, ge=0, le=MAX_WAIT_S)


class InterruptMany(Shape):
    """A stop of every session the caller created (`mine`), or of every one the caller may stop (`all`).

    `sessions`: of those, these only. `otherwise` is the `queue` of sessions without a rule of their own. Past
    `not_after` each is refused (`too_late`). `wait` in seconds, 10 where nothing is said.
    """

    scope: Literal["mine", "all"] = "mine"
    sessions: list[Id] | None = Field(default=None, max_length=MOST_SESSIONS)
    reason: str | None = None
    queue: QueueChoice | None = None
    otherwise: QueueChoice | None = None
    not_after: Instant | None = None
    wait: float | None = Field(default=None, ge=0, le=MAX_WAIT_S)


class GivenReason(Shape):
    """A reason, in words."""

    reason: str


class NewMember(Shape):
    """Who (a name or an id) becomes what."""

    person: str
    role: str


class Nothing(Shape):
    """No fields."""
