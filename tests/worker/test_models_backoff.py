"""The back-off policy: growing waits, the provider's own figure first, and an end to it."""

import pytest

from sessions_app.worker.models.backoff import ATTEMPTS, LONGEST_RETRY_AFTER_S, LONGEST_S, wait_s
from sessions_app.worker.models.base import ModelError


def passing(retry_after_s: float | None = None) -> ModelError:
    return ModelError("provider_error", "busy", status=429, retryable=True, retry_after_s=retry_after_s)


@pytest.mark.scenario("D43")
def test_waits_double_until_there_is_no_further_attempt() -> None:
    assert [wait_s(attempt, passing(), 0.0) for attempt in range(1, 7)] == [1, 2, 4, 8, None, None]
    assert ATTEMPTS == 5


def test_jitter_only_shortens() -> None:
    assert wait_s(3, passing(), 1.0) == 3.0
    assert all(3.0 <= (wait_s(3, passing(), step / 10) or 0) <= 4.0 for step in range(11))
    assert LONGEST_S == 30


def test_the_providers_own_figure_is_kept_to_the_letter() -> None:
    assert wait_s(1, passing(16), 1.0) == 16
    assert wait_s(4, passing(0), 1.0) == 0
    assert wait_s(1, passing(LONGEST_RETRY_AFTER_S), 0.0) == LONGEST_RETRY_AFTER_S


def test_a_longer_figure_than_anybody_waits_for_gives_up() -> None:
    assert wait_s(1, passing(LONGEST_RETRY_AFTER_S + 1), 0.0) is None


def test_what_would_fail_again_is_not_tried_again() -> None:
    assert wait_s(1, ModelError("provider_refused", "no", status=400), 0.0) is None
    assert wait_s(1, ModelError("provider_refused", "no", status=429, retry_after_s=1), 0.0) is None
