"""A decision that goes on: what has been decided so far, and state and context as they are after it. Pure (A2).

A delegate's end goes on with its parent's call, a stop with the ends of turns that nobody has: all in one transaction.
"""

from dataclasses import replace
from typing import Any

from sessions_app.engine.decide.context import Context, Decision
from sessions_app.engine.events import Data, Draft, Event
from sessions_app.engine.fold import evolve
from sessions_app.engine.state import State


class Course:
    """Events in the order in which they are decided; `state` is as after the last one."""

    def __init__(self, state: State, context: Context) -> None:
        self.state, self.drafts = state, list[Draft]()
        self._before = context

    def add(self, *drafts: Draft) -> None:
        """Decide these, too."""
        for draft in drafts:
            self.drafts.append(draft)
            self.state = evolve(self.state, self._numbered(draft))

    @property
    def context(self) -> Context:
        """The context in which the texts and files of the events decided so far can be read as well."""
        return replace(self._before, payload=self._payload, returned=self._returned, files=self._files)

    def decision(self, receipt: dict[str, Any]) -> Decision:
        """All of it, with the receipt."""
        return Decision(tuple(self.drafts), receipt)

    def _numbered(self, draft: Draft) -> Event:
        context = self._before
        cause = context.cause if draft.cause is None else draft.cause
        seq = context.head + len(self.drafts)
        who = draft.actor or context.actor
        return Event(seq, context.now_ms, draft.type, draft.data, draft.loop, draft.turn, draft.step, who, cause)

    def _decided(self, seq: int) -> Data | None:
        return self.drafts[seq - self._before.head - 1].data if seq > self._before.head else None

    def _payload(self, seq: int) -> Data:
        decided = self._decided(seq)
        return self._before.payload(seq) if decided is None else decided

    def _returned(self, seq: int) -> Any:
        decided = self._decided(seq)
        return self._before.returned(seq) if decided is None else decided["text"]

    def _files(self, seq: int) -> list[Data]:
        decided = self._decided(seq)
        return self._before.files(seq) if decided is None else list(decided.get("files") or ())
