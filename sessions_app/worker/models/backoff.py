"""How long to wait before a failed model call is tried again. Pure: the caller waits, within reach of a stop (E6)."""

from typing import Final

from sessions_app.worker.models.base import ModelError

ATTEMPTS: Final = 5
FIRST_S: Final = 1.0
LONGEST_S: Final = 30.0
LONGEST_RETRY_AFTER_S: Final = 120.0
"""A provider that asks for more than this gets no further try: nobody waits that long in front of a running turn."""


def wait_s(attempt: int, error: ModelError, jitter: float) -> float | None:
    """Seconds to wait after attempt number `attempt` (from 1) failed with `error`, or None to give up.

    1, 2, 4, 8 s and so on, at most 30, of which `jitter` (0 to 1, from the caller's random source) takes up to a
    quarter off: many turns refused together do not come back together. A provider's own figure is kept to the letter.
    """
    if not error.retryable or attempt >= ATTEMPTS:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= LONGEST_RETRY_AFTER_S else None
    return min(FIRST_S * 2.0 ** (attempt - 1), LONGEST_S) * (1.0 - 0.25 * jitter)
