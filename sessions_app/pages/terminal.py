"""Output of commands for pages without scripts: what a terminal would leave on its screen, as plain lines."""

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x9c|\x1b\\|(?=[\n\x1b])|$)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"
)
_CONTROL: Final = re.compile(r"[\x00-\x07\x0b-\x0c\x0e-\x1f\x7f-\x9f]")
_MOVES: Final = re.compile(r"[\r\b\x18]")
_ERASE: Final = "\x18"
"""Stands for an erased end of a line until the line is written: no output that is shown has this character."""


def plain_output(text: str) -> str:
    """The text without control sequences; carriage returns and backspaces write over what stands in their line.

    The page's script does the same, with colours (`static/js/session/ansi.js`).
    """
    if not _CONTROL.search(text) and not _MOVES.search(text):
        return text
    bare = _SEQUENCE.sub(_kept, text.replace(_ERASE, ""))
    bare = _CONTROL.sub(lambda sign: _ERASE if sign.group() == _ERASE else "", bare)
    return "\n".join(_written(line) if _MOVES.search(line) else line for line in bare.split("\n"))


def _kept(sequence: re.Match[str]) -> str:
    """Of all orders only those that progress bars need: erase the line or what follows, go to its beginning."""
    final, parameters = sequence["final"], sequence["parameters"]
    if final == "K":
        return {"2": f"\r{_ERASE}", "1": ""}.get(parameters, _ERASE)
    return "\r" if final == "G" and parameters in ("", "0", "1") else ""


def _written(line: str) -> str:
    """One line as its moves leave it."""
    shown, at = "", 0
    for piece in re.split(r"([\r\b\x18])", line):
        if piece == "\r":
            at = 0
        elif piece == "\b":
            at = max(0, at - 1)
        elif piece == _ERASE:
            shown = shown[:at]
        else:
            shown = shown[:at] + piece + shown[at + len(piece) :]
            at += len(piece)
    return shown
