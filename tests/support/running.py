"""A session on a running stack, driven through the product's verbs while real processes do the work."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions_app import control
from sessions_app.engine.events import Event
from sessions_app.ids import new_id
from sessions_app.log import db, read, stream
from sessions_app.people.principals import Principal
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.world import person

MODEL = "openai-chat:scripted"
ENDLESS = "(setsid sh -c 'while true; do date >> g; sleep 0.1; done' &) ; while true; do date >> f; sleep 0.1; done"
"""A command that never ends, with a child that has left its process group and session."""


@dataclass
class Running:
    """One session; `workspace` is its folder."""

    owner: Principal
    id: str
    workspace: Path

    @classmethod
    def create(cls, name: str = "ana", model: str = MODEL, mode: str = "auto", **fields: Any) -> "Running":
        owner = person(name)
        made = control.create_session(owner, new_id(), title="A running test", model=model, mode=mode, **fields)
        return cls(owner, made["id"], Path(made["workspace"]))

    def submit(self, text: str, who: Principal | None = None) -> str:
        return str(control.submit(who or self.owner, self.id, new_id(), text=text)["input"])

    def steer(self, text: str, *, urgent: bool = False) -> dict[str, Any]:
        return control.steer(self.owner, self.id, new_id(), text=text, urgent=urgent)

    def stop(self, who: Principal | None = None, wait_s: float = 10, **fields: Any) -> dict[str, Any]:
        receipt = control.interrupt(who or self.owner, self.id, new_id(), **fields)
        return control.wait_stopped(self.id, receipt, wait_s)

    def events(self, *types: str) -> list[Event]:
        """All events, or those of some types; of these the newest thousand."""
        if not types:
            return read.engine_events(self.id)
        with db.cursor("read") as cur:
            found = read.rows(cur, self.id, types=types, order="desc")
        return [read.as_event(row) for row in reversed(found)]

    def count(self, type_: str) -> int:
        with db.cursor("read") as cur:
            row = cur.execute(
                "SELECT count(*) FROM event WHERE session_id = %s AND type = %s", (self.id, type_)
            ).fetchone()
        return int(row[0]) if row else 0

    def until(self, type_: str, number: int = 1, timeout_s: float = PATIENCE_S) -> Event:
        """The `number`th event of that type, once it is there."""
        wait_until(lambda: self.count(type_) >= number, f"{type_} number {number}", timeout_s)
        return self.events(type_)[number - 1]

    def until_idle(self) -> None:
        """Wait until nothing of this session runs."""
        wait_until(self._idle, "the idle edge")

    def _idle(self) -> bool:
        loops = read.snapshot(self.id)["state"]["loops"].values()
        return all(loop["status"] != "running" for loop in loops)

    def file(self, name: str) -> Path:
        return self.workspace / name

    def until_grows(self, *names: str) -> None:
        """Wait until the endless command writes."""
        for name in names:
            wait_until(lambda name=name: self.size(name) > 60, f"growth of {name}")  # type: ignore[misc]

    def size(self, name: str) -> int:
        path = self.file(name)
        return path.stat().st_size if path.exists() else 0

    def unchanged(self, *names: str) -> Callable[[], bool]:
        """Whether these files have the size they have now."""
        sizes = {name: self.size(name) for name in names}
        return lambda: all(self.size(name) == size for name, size in sizes.items())

    def until_saved(self, text: str) -> None:
        """Wait until this streamed text is saved beside the log (L2)."""
        wait_until(lambda: any(text in piece.text for piece in stream.read(self.id)), f"saving of {text!r}")
