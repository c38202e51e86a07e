"""What `decide` is given beside state and command, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sessions_app.engine.actors import Actor
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Data, Draft
from sessions_app.engine.state import Author, Loop, State, Turn
from sessions_app.engine.text import clean_json


@dataclass(frozen=True, slots=True)
class Phase:
    """What a worker is doing with a turn this moment (A1), and for how long (ms)."""

    phase: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Context:
    """Who commands and under which id, the log's last seq, the database's time in ms, the running turns' phases, and
    the texts of earlier events by seq.

    The texts are there for what waits, which the state holds by reference. `payload` is an event's whole payload;
    `returned` its text as it goes back to its author: itself, or `{ref, size}` where it is long, so that giving back a
    full queue takes no longer than a stop may (E11). `files` are the files that an earlier message carries, `uploads`
    those that are there of the ids of uploaded files, each `{id, name, size, type}`. `stored` is a value as the log has
    it (A6): what is compared with an earlier event's is compared as that.
    """

    actor: Actor
    now_ms: int
    phases: Mapping[str, Phase]
    payload: Callable[[int], Data]
    returned: Callable[[int], Any]
    head: int = 0
    cause: str = ""
    files: Callable[[int], list[Data]] = lambda seq: []
    uploads: Callable[[Sequence[str]], Mapping[str, Data]] = lambda ids: {}
    stored: Callable[[Any], Any] = lambda value: clean_json(value)[0]

    def text(self, seq: int, key: str = "text") -> Any:
        """A text of an earlier event; `{"erased": true}` where it was erased (A3), None where there is none."""
        return self.payload(seq).get(key)


@dataclass(frozen=True, slots=True)
class Decision:
    """The events to append (none: nothing changes), the receipt, and the audit's word where nothing changed (A9)."""

    events: tuple[Draft, ...] = ()
    receipt: dict[str, Any] = field(default_factory=dict)
    audit: str | None = None


def open_session(state: State) -> None:
    """Refuse with `session_closing` once closing has begun (K1)."""
    if state.status != "open":
        raise Refused(
            "session_closing", "The session is closed." if state.status == "closed" else "The session is closing."
        )


def find_loop(state: State, loop_id: str | None) -> Loop:
    """The named loop, or the primary one; `loop_not_found`, `loop_closed`."""
    loop = state.primary() if loop_id is None else state.loops.get(loop_id)
    if loop is None:
        raise Refused("loop_not_found", "This session has no such agent.", loop=loop_id)
    if loop.status == "closed":
        raise Refused("loop_closed", "This agent has ended.", loop=loop.id)
    return loop


def addressed(state: State, loop: str | None, turn: str | None) -> Loop:
    """The named loop, or else that of the named turn where it runs, or the primary one; refuses as `find_loop` does."""
    found = None if turn is None or loop is not None else state.turn(turn)
    return find_loop(state, loop) if found is None else found[0]


def held_turn(state: State, turn_id: str, epoch: int) -> tuple[Loop, Turn]:
    """The running turn that a report is about, if its worker still holds it; else `stale` (C1)."""
    found = state.turn(turn_id)
    if found is None or found[1].epoch != epoch or found[1].given_back():
        raise Refused("stale", "The turn is over or has another worker.", turn=turn_id, epoch=epoch)
    return found


def wrote(author: Author, actor: Actor) -> bool:
    return author.kind == actor.kind and author.id == actor.id


def credit(author: Author, actor: Actor) -> Data:
    """Names the author in an event of somebody else, who only moved the words (B4)."""
    return {} if wrote(author, actor) else {"author": asdict(author)}
