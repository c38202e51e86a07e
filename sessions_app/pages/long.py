"""Long texts on a served page: head, a folded middle, tail; all of it is there, but the browser lays out little."""

from typing import Any, Final

WHOLE_CHARS: Final = 6_000
"""Up to here a text is shown whole; the script folds alike (`static/js/session/long.js`)."""
HEAD_CHARS: Final = 2_000
TAIL_CHARS: Final = 1_000


def folded(text: str) -> dict[str, Any]:
    """`{text}`, or `{text, middle, more, tail}` for a long one: its head, what is folded and how much, its tail."""
    if len(text) <= WHOLE_CHARS:
        return {"text": text}
    middle = text[HEAD_CHARS:-TAIL_CHARS]
    return {"text": text[:HEAD_CHARS], "middle": middle, "more": len(middle), "tail": text[-TAIL_CHARS:]}
