"""Known secrets never enter the log (A6): provider keys and our own key from the environment, and our tokens."""

import os
import re
from functools import lru_cache
from typing import Any, Final

MASK: Final = "***"
_SHORTEST: Final = 8
_NAMES: Final = re.compile(r"(_API_KEY|_AUTH_TOKEN|_ACCESS_TOKEN|^STEERWEB_SECRET_KEY)$")
_TOKEN: Final = re.compile(r"\bsw_[A-Za-z0-9_-]{32,}")


@lru_cache(maxsize=1)
def known() -> tuple[str, ...]:
    """The secrets of this process's environment, longest first; values under 8 characters are not masked."""
    values = {value for name, value in os.environ.items() if _NAMES.search(name) and len(value) >= _SHORTEST}
    return tuple(sorted(values, key=len, reverse=True))


def mask(text: str) -> str:
    """`text` with every known secret replaced by `***`."""
    for secret in known():
        if secret in text:
            text = text.replace(secret, MASK)
    return _TOKEN.sub(MASK, text) if "sw_" in text else text


def mask_json(value: Any) -> Any:
    """A JSON value with every string in it masked, keys too; keys that become the same stay apart."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = mask(str(key))
            while name in masked:
                name += MASK
            masked[name] = mask_json(item)
        return masked
    if isinstance(value, list | tuple):
        return [mask_json(item) for item in value]
    return value
