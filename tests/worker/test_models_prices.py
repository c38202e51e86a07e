"""Prices: known where the price list knows them, and unknown is not nothing (B7)."""

import pytest

from sessions_app.worker.models.base import Usage
from sessions_app.worker.models.prices import price

pytestmark = pytest.mark.rule("B7")
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("openai-chat:gpt-4o", True), ("openai:gpt-4o", True), ("anthropic:claude-sonnet-4-0", True),
        ("google:gemini-2.5-flash", True), ("openai-chat:scripted", False), ("vllm:Qwen/Qwen3-8B", False),
    ],
)  # fmt: skip
def test_a_price_is_known_or_it_is_not(model: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = price(model, USAGE)
    assert (found is not None and found > 0) is known


def test_somebody_else_s_server_has_prices_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")
    assert price("openai-chat:gpt-4o", USAGE) is None
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")
    assert price("openai-chat:gpt-4o", USAGE) is not None


def test_cached_tokens_cost_less_and_the_demonstration_nothing() -> None:
    cached = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=900_000)
    full, less = price("anthropic:claude-sonnet-4-0", USAGE), price("anthropic:claude-sonnet-4-0", cached)
    assert full is not None and less is not None and less < full
    assert price("demo:", USAGE) == 0.0
