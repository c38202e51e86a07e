"""Long texts on a served page: head, a folded middle, tail; all of it is there, but the browser lays out little."""

from typing import Any, Final

WHOLE_CHARS: Final = 6_000
"""Up to here a text is shown whole. The script measures and cuts alike (`static/js/session/long.js`)."""
HEAD_CHARS: Final = 2_000
TAIL_CHARS: Final = 1_000


def folded(text: str) -> dict[str, Any]:
    """`{text}`, or `{text, middle, more, tail}` for a long one: its head, what is folded and how much, its tail."""
    if len(text) <= WHOLE_CHARS:
        return {"text": text}
    start = _after_line(text, HEAD_CHARS, HEAD_CHARS // 2)
    end = _after_line(text, len(text) - TAIL_CHARS, TAIL_CHARS)
    return {"text": text[:start], "middle": text[start:end], "more": end - start, "tail": text[end:]}


def _after_line(text: str, at: int, near: int) -> int:
    """Where to cut at or before `at`: after a line's end, if one is nearer than that."""
    line = text.rfind("\n", 0, at) + 1
    return line if at - line < near else at
