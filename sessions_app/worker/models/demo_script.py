"""What the demonstration says and does, in order; `demo` decides what comes next."""

from dataclasses import dataclass
from typing import Final

NOTES: Final = "NOTES.md"
END: Final = "That is the end of this demonstration; write to me and I will take note of it."
"""Last sentence of every finished turn, by which a later turn knows that the one before it was finished."""

_PROGRAM: Final = '''\
"""Counts how often each word occurs in a text: python3 wordcount.py < some.txt"""

import sys
from collections import Counter


def count(text):
    return Counter(text.lower().split(" "))


if __name__ == "__main__":
    for word, times in count(sys.stdin.read()).most_common(5):
        print(f"{times:6} {word}")
'''

_TESTS: Final = """\
import unittest

from wordcount import count


class WordCount(unittest.TestCase):
    def test_counts_words(self):
        self.assertEqual(count("the cat saw the dog")["the"], 2)

    def test_ignores_case(self):
        self.assertEqual(count("Stop stop STOP"), {"stop": 3})

    def test_any_white_space_separates(self):
        self.assertEqual(count("one  two\\ntwo"), {"one": 1, "two": 2})


if __name__ == "__main__":
    unittest.main()
"""

_ENDURANCE: Final = """\
python3 -u - <<'END'
import random, time
from wordcount import count
for number in range(1, {rounds} + 1):
    text = " ".join(random.choices(["red", "green", "blue"], k=20_000))
    assert sum(count(text).values()) == 20_000
    print(f"round {{number}} of {rounds}: 20,000 words counted, all right")
    time.sleep({pause_s:.3f})
END"""


@dataclass(frozen=True, slots=True)
class Act:
    """One step of the demonstration: what it says, then the one call it makes. `once`: not tried again after a stop."""

    key: str
    say: str
    tool: str
    arguments: dict[str, object]
    think: str = ""
    once: bool = False


def opening_acts(pause_s: float) -> tuple[Act, ...]:
    """The small task of the first turn. `pause_s` is the length of each round of the long command."""
    return (
        Act(
            "look",
            "First I look around in the workspace, as anybody would before touching things: a directory that is full "
            "of somebody's work wants another agent than an empty one.",
            "shell",
            {"command": "pwd; ls -la"},
            think="A small task is best: few files, tests that can fail, and one command long enough to be stopped.",
        ),
        Act(
            "write",
            "Room enough. I am going to write a small program that counts how often each word occurs in a text. It "
            "reads the text from its standard input and prints the five most frequent words with their numbers. "
            f"If you want something else meanwhile, steer me: I will put your words into {NOTES} and go on.",
            "write_file",
            {"path": "wordcount.py", "content": _PROGRAM},
            think="Lower case first, then split, then count; Counter does the rest. Nothing to install.",
        ),
        Act(
            "tests",
            "A program without tests is a rumour, so the tests come next: one for plain counting, one for upper and "
            "lower case, and one for words that are separated by more than a single space. Each is three lines long, "
            "so that you can judge it as it goes by.",
            "write_file",
            {"path": "test_wordcount.py", "content": _TESTS},
        ),
        Act(
            "run",
            "Now I run them. What you see below is the real output of a real process in my workspace.",
            "shell",
            {"command": "python3 -m unittest -v test_wordcount"},
        ),
        Act(
            "fix",
            "The last test should have found a bug, and it is mine: splitting at each single space makes empty words "
            "out of double spaces and keeps line breaks inside words. Splitting without an argument separates at any "
            "white space, which is what I meant. One small edit.",
            "edit_file",
            {"path": "wordcount.py", "old_text": '.split(" ")', "new_text": ".split()"},
            think='`split(" ")` and `split()` differ exactly in the case that the third test looks at.',
        ),
        Act(
            "again",
            "The same tests once more, all three of them, because a mended bug is only mended when the test says so.",
            "shell",
            {"command": "python3 -m unittest -v test_wordcount"},
        ),
        Act(
            "long",
            "Next comes an endurance run: forty-five rounds of twenty thousand random words each, and every round has "
            "to add up. This takes three quarters of a minute and prints a line every second. It is a good moment to "
            "try the Stop button: the command really ends, its processes are gone, and what I have written so far "
            "stays. Or steer me: your words reach me when the command has finished.",
            "shell",
            {"command": _ENDURANCE.format(rounds=45, pause_s=pause_s)},
            once=True,
        ),
    )


def later_acts(pause_s: float) -> tuple[Act, ...]:
    """What every later turn does after it has taken note of the words that opened it."""
    return (
        Act(
            "check",
            "To have something worth watching I check my work again, with the tests and a shorter endurance run. It "
            "takes about fifteen seconds and can be stopped like any other command.",
            "shell",
            {
                "command": "python3 -m unittest -v test_wordcount\n" + _ENDURANCE.format(rounds=15, pause_s=pause_s),
            },
            once=True,
        ),
    )


def hello(words: str) -> str:
    """The first sentences of a session; the very first one says what this is."""
    return (
        "I am a scripted demonstration: no language model is answering you, but my commands and my files are real. "
        f"You wrote {words}, which I can quote but not understand, so I do the one small task I know, the way a "
        "coding agent would."
    )


def summary(whole: bool) -> str:
    """The last words of the first turn. `whole`: its long command ran to its end."""
    endurance = (
        "The endurance run came to its end, and every round added up."
        if whole
        else "The endurance run did not come to its end, so I claim nothing about it."
    )
    return (
        "To sum up: wordcount.py counts words and test_wordcount.py holds it to that, including the bug I made and "
        f"mended. {endurance} Everything I did stands in this session's history, and so does every interruption, with "
        f"who, when and why. {END}"
    )


def goodbye(whole: bool) -> str:
    """The last words of a later turn."""
    checked = "the check came to its end" if whole else "the check did not come to its end"
    return f"Your words are in {NOTES}, and {checked}. {END}"
