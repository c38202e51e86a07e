"""Puts a streamed reply together: clean deltas on the way, calls with usable arguments and ids at the end."""

import json
import math
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from sessions_app.engine.text import TextStream, clean, clean_json
from sessions_app.engine.transcript_types import Call
from sessions_app.worker.models.base import INVALID, Delta, Reasoning, Reply, Text, Usage

_PORTABLE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What every provider takes back as a call's id: a session may change its model between two turns (I1)."""

_LARGEST_INT: Final = 2**63
_DEEPEST: Final = 100


class Assembly:
    """One reply in the making. `taken` holds the ids of all earlier calls of the conversation."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._text = TextStream()
        self._reasoning = TextStream()
        self._pieces: list[Delta] = []
        self._calls: list[Call] = []
        self._taken = set(taken)
        self._replaced = False

    def text(self, piece: str) -> Iterator[Delta]:
        """Take a piece of text; yields what can be shown of it now (half an emoji waits for its other half: D47)."""
        yield from self._keep(Text(self._text.feed(piece)))

    def reasoning(self, piece: str) -> Iterator[Delta]:
        """Take a piece of reasoning."""
        yield from self._keep(Reasoning(self._reasoning.feed(piece)))

    def finish(self) -> Iterator[Delta]:
        """The stream has ended: yields what still waited for its other half."""
        yield from self._keep(Reasoning(self._reasoning.finish()))
        yield from self._keep(Text(self._text.finish()))

    def call(self, call: str, tool: str, arguments: str | dict[str, object] | None) -> None:
        """Take one complete call, in the reply's order."""
        self._calls.append(Call(self._unused(call), self._clean(tool), self._object(arguments)))

    def reply(self, usage: Usage) -> Reply:
        """The whole reply; only after `finish`."""
        return Reply(
            text="".join(piece.text for piece in self._pieces if isinstance(piece, Text)),
            reasoning="".join(piece.text for piece in self._pieces if isinstance(piece, Reasoning)),
            calls=tuple(self._calls),
            usage=usage,
            replaced=self._replaced or self._text.replaced or self._reasoning.replaced,
        )

    def _keep(self, piece: Delta) -> Iterator[Delta]:
        if piece.text:
            self._pieces.append(piece)
            yield piece

    def _clean(self, text: str) -> str:
        cleaned, replaced = clean(text)
        self._replaced |= replaced
        return cleaned

    def _unused(self, call: str) -> str:
        """The provider's id where it will do; some servers number each reply's calls from 0 again, or send none."""
        if not _PORTABLE_ID.fullmatch(call):
            call = "call_" + sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        unused, number = call, 1
        while unused in self._taken:
            number += 1
            unused = f"{call[:34]}_{number}"
        self._taken.add(unused)
        return unused

    def _object(self, arguments: str | dict[str, object] | None) -> dict[str, object]:
        if arguments is None or arguments == "":
            return {}
        if isinstance(arguments, str):
            # Halves of one character that came in two deltas stand side by side here; cleaning joins them (D47).
            arguments = self._clean(arguments)
        parsed = _json_object(arguments) if isinstance(arguments, str) else arguments
        if parsed is None or not _storable(parsed, _DEEPEST):
            return {INVALID: self._clean(arguments if isinstance(arguments, str) else repr(arguments))}
        cleaned, replaced = clean_json(parsed)
        self._replaced |= replaced
        return dict(cleaned)


def _json_object(text: str) -> dict[str, object] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _storable(value: object, depth: int) -> bool:
    """Whether the log's JSON can hold this: Python's parser also takes NaN, endless integers and endless nesting."""
    match value:
        case dict():
            return depth > 0 and all(_storable(each, depth - 1) for each in value.values())
        case list():
            return depth > 0 and all(_storable(each, depth - 1) for each in value)
        case float():
            return math.isfinite(value)
        case int():
            return -_LARGEST_INT <= value < _LARGEST_INT
        case _:
            return True
