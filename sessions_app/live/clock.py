"""The database's clock as this process last saw it, for frames that say what time it is (A7, scenario D36)."""

import time
from datetime import datetime, timedelta

from sessions_app.log.frames import instant


class DatabaseClock:
    """An instant of the database, carried on by this host's monotonic clock until the next one."""

    def __init__(self) -> None:
        self._at: datetime | None = None
        self._seen = 0.0

    def saw(self, at: datetime) -> None:
        """The database just said that it is this late."""
        self._at, self._seen = at, time.monotonic()

    def now(self) -> str | None:
        """The time by the database's clock; None before it was seen."""
        return None if self._at is None else instant(self._at + timedelta(seconds=time.monotonic() - self._seen))
