"""The agents of a session as a terminal tells them apart: named by the start of their tasks, as on the page."""

from collections.abc import Mapping
from typing import Any, Final

from sessions_app.cli.terminal import one_line
from sessions_app.pages.words import plain, start_of

Frame = Mapping[str, Any]
MAIN: Final = ""
"""Whoever is no delegate."""
NAME: Final = 40
"""As much of a task as a name holds."""


class Agents:
    """Delegates by their loops, from the `LoopStarted` that were seen; every other loop is the main agent's."""

    def __init__(self) -> None:
        self._started: dict[str, Frame] = {}
        self._began: dict[str, str | None] = {}
        self._turns: dict[str | None, str] = {}
        self._within: dict[str, str] = {}
        self._children: dict[tuple[str | None, str], str] = {}
        self._answers: dict[str, str] = {}

    def started(self, frame: Frame) -> None:
        """A `LoopStarted`."""
        parent = frame["data"].get("parent")
        if parent is None or frame["loop"] in self._started:
            return
        self._started[frame["loop"]] = frame["data"]
        self._began[frame["loop"]] = frame.get("at")
        self._within[frame["loop"]] = self._turns.get(parent, "")
        self._children[parent, str(frame["data"].get("call"))] = frame["loop"]

    def turn_started(self, frame: Frame) -> None:
        """A `TurnStarted`: delegates of the same task are told apart within their parent's turn."""
        self._turns[frame["loop"]] = frame["turn"]

    def of(self, loop: str | None) -> str:
        """The delegate of that loop, or MAIN."""
        return loop if loop in self._started else MAIN

    def parent(self, agent: str) -> str | None:
        """The loop that gave it its task; None for the main agent."""
        return str(self._started[agent]["parent"]) if agent != MAIN else None

    def name(self, agent: str) -> str:
        """`main agent`, `sub-agent “count the words”`; those of one turn with the same task have numbers."""
        if agent == MAIN:
            return "main agent"
        start = self._start(agent)
        if not start:
            return "a sub-agent"
        same = [
            each
            for each in self._started
            if self._within[each] == self._within[agent]
            and self._started[each]["parent"] == self._started[agent]["parent"]
            and self._start(each) == start
        ]
        return f"sub-agent “{start}”" + (f" {same.index(agent) + 1}" if len(same) > 1 else "")

    def named_whole(self, agent: str) -> bool:
        """Whether its name says all of its task."""
        return self._start(agent) == self._started[agent].get("task")

    def began(self, agent: str) -> str | None:
        """When it was started."""
        return self._began.get(agent)

    def answered(self, agent: str, text: str) -> None:
        """Its reply without calls, which its parent's call has as its output (G3)."""
        if agent != MAIN:
            self._answers[agent] = text

    def settled(self, parent: str | None, call: str) -> tuple[str, str] | None:
        """Whom a parent's call was given to, and its last answer; None for calls of other tools."""
        child = self._children.pop((parent, call), None)
        return None if child is None else (child, self._answers.pop(child, ""))

    def _start(self, agent: str) -> str:
        task = self._started[agent].get("task")
        return one_line(start_of(plain(task), NAME), 2 * NAME) if isinstance(task, str) else ""
