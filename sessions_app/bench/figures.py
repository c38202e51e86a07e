"""Numbers as they are reported: a median, and what one try in a hundred exceeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """How the times of `n` tries were spread, in milliseconds; below 100 tries `p99` is the worst one."""

    n: int
    p50: float
    p99: float
    worst: float

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Spread":
        return cls(value["n"], value["p50"], value["p99"], value["worst"])


def spread_of(times_s: Sequence[float]) -> Spread:
    """The spread of times given in seconds; there is at least one."""
    ordered = sorted(times_s)

    def at(share: float) -> float:
        return round(ordered[math.ceil(share * len(ordered)) - 1] * 1000, 3)

    return Spread(len(ordered), at(0.5), at(0.99), at(1.0))
