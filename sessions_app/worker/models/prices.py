"""What a model call costs, by the price list of genai-prices; "unknown" where it knows none, never nothing (B7)."""

import os
from typing import Final
from urllib.parse import urlsplit

from sessions_app.engine.model_names import DEMO, split_name
from sessions_app.worker.models.base import Usage

_OWN: Final = {"openai": "api.openai.com", "openai-chat": "api.openai.com", "openai-responses": "api.openai.com"}


def price(model: str, usage: Usage) -> float | None:
    """US dollars for this usage of `provider:model`; None where the price is not known. The demonstration is free."""
    if model == DEMO:
        return 0.0
    provider, name = split_name(model)
    own = _OWN.get(provider.name)
    address = os.environ.get("OPENAI_BASE_URL", "") if own else ""
    if address and urlsplit(address).hostname != own:
        return None  # somebody else's server that speaks the same language, at prices of its own
    from genai_prices import Usage as PricedUsage  # late: the price list takes a while to load
    from genai_prices import calc_price

    counted = PricedUsage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
    )
    try:
        return float(calc_price(counted, model_ref=name, provider_id="openai" if own else provider.name).total_price)
    except (LookupError, ValueError):
        return None
