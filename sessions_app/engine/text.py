"""Text that Postgres and UTF-8 can hold (A6): what they cannot is visibly replaced, and the caller is told."""

import math
import re
from typing import Any, Final

SIGN: Final = "\ufffd"
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BAD: Final = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> tuple[str, bool]:
    """(text, replaced): halves of a surrogate pair joined, NUL and lone halves replaced by U+FFFD.

    Joining changes no character, so it does not count as replaced.
    """
    if text.isascii():
        return (text.replace("\0", SIGN), True) if "\0" in text else (text, False)
    if not _BAD.search(text):
        return text, False
    joined = _PAIR.sub(_join, text)
    return _BAD.subn(SIGN, joined)[0], _BAD.search(joined) is not None


def clean_json(value: Any) -> tuple[Any, bool]:
    """(value, replaced): a JSON value with every string in it cleaned, keys too; numbers that the log's JSON cannot
    hold (NaN, more than 64 bits) become text.

    Two keys that become the same one are told apart by further U+FFFD, so that nothing is dropped.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int | float) and not _storable(value):
        return str(value), True
    if isinstance(value, list | tuple):
        items = [clean_json(each) for each in value]
        return [each for each, _ in items], any(replaced for _, replaced in items)
    if not isinstance(value, dict):
        return value, False
    result: dict[str, Any] = {}
    replaced = False
    for key, each in value.items():
        name, name_replaced = clean(str(key))
        result_each, each_replaced = clean_json(each)
        while name in result:
            name, name_replaced = name + SIGN, True
        result[name] = result_each
        replaced = replaced or name_replaced or each_replaced
    return result, replaced


def _storable(number: Any) -> bool:
    return math.isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**63


class TextStream:
    """Cleans text that arrives in pieces: half a surrogate pair at a piece's end waits for its other half (D47)."""

    def __init__(self) -> None:
        self.replaced = False
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now; may be empty."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return self._cleaned(text)

    def finish(self) -> str:
        """The stream has ended: what was held back: U+FFFD for a half whose other half never came, usually nothing."""
        held, self._held = self._held, ""
        return self._cleaned(held)

    def _cleaned(self, text: str) -> str:
        text, replaced = clean(text)
        self.replaced = self.replaced or replaced
        return text


def _join(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
