"""Every built rule has a test that names it, and nothing names a rule that does not exist."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LINE = re.compile(r"(?P<id>[A-Z]\d*)(?: - (?P<state>not yet built|in part: .+))?")


def listed(name: str) -> dict[str, str | None]:
    """The ids of a list file, each with what stands behind it; a line that is not understood is an error."""
    found: dict[str, str | None] = {}
    for line in (TESTS / name).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match, f"{name}: cannot read {line!r}"
        assert match["id"] not in found, f"{name}: {match['id']} stands there twice"
        found[match["id"]] = match["state"]
    return found


def marks(source: str, name: str) -> Iterator[str]:
    """The arguments of every `pytest.mark.<name>(...)` in a source text."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and ast.unparse(node.func.value) == "pytest.mark"
        ):
            yield from (ast.literal_eval(argument) for argument in node.args)


@cache
def named(mark: str) -> dict[str, list[str]]:
    """Which test files name which ids."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in marks(path.read_text(), mark):
            found[name].append(str(path.relative_to(TESTS)))
    return found


@pytest.mark.parametrize(("mark", "listing"), [("rule", "rules.txt"), ("scenario", "scenarios.txt")])
def test_every_name_in_a_mark_is_listed(mark: str, listing: str) -> None:
    unknown = {name: files for name, files in named(mark).items() if name not in listed(listing)}
    assert not unknown


@pytest.mark.parametrize(("mark", "listing"), [("rule", "rules.txt"), ("scenario", "scenarios.txt")])
def test_everything_built_is_named_by_a_test(mark: str, listing: str) -> None:
    built = {name for name, state in listed(listing).items() if state != "not yet built"}
    assert sorted(built - set(named(mark))) == []


def test_marks_are_found_wherever_they_stand() -> None:
    source = """
import pytest
pytestmark = pytest.mark.rule("A1")
@pytest.mark.rule("B2", "B3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.rule("C4"))])
def test_x(x): ...
"""
    assert sorted(marks(source, "rule")) == ["A1", "B2", "B3", "C4"]


def test_the_page_of_the_rules_says_what_the_tests_say() -> None:
    from tests.rules_page import PAGE, page

    assert PAGE.read_text() == page(), "write it anew: python -m tests.rules_page"
