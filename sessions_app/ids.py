"""Identifiers: time-ordered UUIDs (version 7, RFC 9562) and the derived ids of a worker's reports (A4)."""

import os
import time
from uuid import UUID, uuid5

_REPORTS = UUID("0192f3a4-7c1e-7d55-9c1b-5f0d9c7e7a10")
_DERIVED = UUID("01977c3e-2b64-7d0a-8a55-7b1d4f6c9e21")


def uuid7() -> UUID:
    """A new version 7 UUID: 48 bits of milliseconds, 74 random bits. Nothing is decided by its order (A7)."""
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def new_id() -> str:
    """A new id in the contract's spelling: a lower-case UUID string."""
    return str(uuid7())


def report_id(turn: str, epoch: int, step: int, call: str | None, kind: str) -> str:
    """The same report of the same work always has the same id, so that a repeated one lands once (A4)."""
    return str(uuid5(_REPORTS, f"{turn}/{epoch}/{step}/{call or ''}/{kind}"))


def derived_id(*parts: str) -> str:
    """An id made of other words, always the same: of one part of a command that is several transactions, say."""
    return str(uuid5(_DERIVED, "/".join(parts)))
