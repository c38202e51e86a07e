"""Output of commands on pages without scripts: what a terminal would leave, and never a control sequence."""

import re

import pytest

from sessions_app.pages.terminal import plain_output


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m\x1b(B\x1b[m", "red"),
        ("\x1b]8;;https://x.example\x07link\x1b]8;;\x07 \x1b]0;title\x1b\\ok", "link ok"),
        ("\x1b]0;never closed\nnext", "\nnext"),
        ("\x1b]0;never closed", ""),
        ("\x1b[2J\x1b[H\x1b[?25lhello\x1b[1A", "hello"),
        ("10%\r20%\r100%\ndone", "100%\ndone"),
        ("abc\rX", "Xbc"),
        ("one two\r\x1b[Kdone", "done"),
        ("one two\x1b[2K\rdone", "done"),
        ("ab\b\bc", "cb"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("cut \x1b[3", "cut [3"),
        ("c1 \x9b31mx\x84", "c1 x"),
        ("a\x18b", "ab"),
    ],
)
def test_output_is_what_a_terminal_would_leave(raw: str, shown: str) -> None:
    assert plain_output(raw) == shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain_output(raw))
