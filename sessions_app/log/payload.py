"""How an event's payload is stored and sent (A3).

`facts` is the payload's JSON with one raw NUL byte where a text stands: JSON itself never holds one. `texts` are the
texts' own JSON, joined by NUL bytes. Splicing them in gives the exact bytes that were sent, an erased event splices
`{"erased":true}` instead, and what a program needs for the fold is in `facts` alone.
"""

import copy
import hashlib
from dataclasses import dataclass
from typing import Any, Final

import orjson

from sessions_app.engine.events import SHAPES, Data, text_slots
from sessions_app.engine.text import clean_json
from sessions_app.log.secrets import mask_json

HOLE: Final = b"\x00"
ERASED: Final = b'{"erased":true}'


@dataclass(frozen=True, slots=True)
class Payload:
    """The two stored parts; `texts` is None once erased."""

    facts: bytes
    texts: bytes | None

    def digests(self) -> tuple[bytes, bytes]:
        return digest(self.facts), digest(self.texts or b"")


def digest(part: bytes) -> bytes:
    return hashlib.sha256(part).digest()


class _Text:
    """Stands for a text while a payload is encoded."""

    def __init__(self, value: Any) -> None:
        self.value = value


def encode(type_: str, data: Data) -> Payload:
    """Split and encode a payload that `cleaned` has made storable; texts are in the order of their holes."""
    shell = copy.deepcopy(data)
    for container, key in list(text_slots(type_, shell)):
        container[key] = _Text(container[key])
    texts: list[bytes] = []

    def hole(value: _Text) -> orjson.Fragment:  # the encoder calls this in the order in which it writes
        texts.append(orjson.dumps(value.value))
        return orjson.Fragment(HOLE)

    facts = orjson.dumps(shell, default=hole)
    return Payload(facts, HOLE.join(texts))


def splice(facts: bytes, texts: bytes | None) -> bytes:
    """Fill the holes of `facts` with `texts`, or with the sign of an erased text."""
    parts = facts.split(HOLE)
    if len(parts) == 1:
        return facts
    fills = [ERASED] * (len(parts) - 1) if texts is None else texts.split(HOLE)
    pieces = [parts[0]]
    for fill, part in zip(fills, parts[1:], strict=True):
        pieces += (fill, part)
    return b"".join(pieces)


def facts_only(facts: bytes) -> Data:
    """What `evolve` may read: the payload with null where a text stands."""
    data: Data = orjson.loads(facts.replace(HOLE, b"null"))
    return data


def whole(facts: bytes, texts: bytes | None) -> Data:
    """The payload as a program reads it."""
    data: Data = orjson.loads(splice(facts, texts))
    return data


def stored(value: Any) -> Any:
    """A text, or a value that holds some, as `cleaned` leaves it (A6)."""
    return clean_json(mask_json(value))[0]


def cleaned(type_: str, data: Data) -> Data:
    """The payload with everything in it storable (A6): what UTF-8 or PostgreSQL cannot hold is replaced visibly, and
    `replaced` says so where the type has that field; known secrets are masked."""
    shell = copy.deepcopy(data)
    for container, key in list(text_slots(type_, shell)):
        container[key] = mask_json(container[key])
    result, replaced = clean_json(shell)
    if replaced and "replaced" in SHAPES[type_].fields:
        result["replaced"] = True
    return dict(result)
