"""What a turn needs of the worker it runs in."""

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from sessions_app.worker.background import Background
from sessions_app.worker.streaming import Streams
from sessions_app.worker.warden.client import Warden

P = ParamSpec("P")
R = TypeVar("R")


class WorkerContext(Protocol):
    """The worker, as its turns see it."""

    id: str
    streams: Streams
    background: Background

    @property
    def warden(self) -> Warden:
        """The owner of all tool processes."""
        ...

    async def persistently(self, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in the threads kept for reports, again and again while the database is away."""
        ...

    async def answered(self, turn: str) -> None:
        """Wait until the turn's open gate has been answered or closed (H1)."""
        ...

    def workspace(self, session: str) -> Path:
        """The session's folder; made if it is a scratch folder of ours. Blocking."""
        ...

    def scratch_home(self, session: str) -> Path:
        """Where the home folder of the session's tools is; a call that needs it makes it."""
        ...
