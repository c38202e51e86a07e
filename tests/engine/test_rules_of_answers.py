"""Standing answers: a rule covers what it states, and nothing that a shell could make of it (H3)."""

import pytest

from sessions_app.engine.commands import Effect, RuleSpec
from sessions_app.engine.rules import covers, offers

pytestmark = pytest.mark.rule("H3")


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        ("git status", ["command git status", "command_prefix git status"]),
        ("  git   commit -m 'all of it' ", ["command git   commit -m 'all of it'", "command_prefix git commit"]),
        ("pytest", ["command pytest"]),
        ("rm -rf build", ["command rm -rf build"]),
        ("git -c core.pager=x log", ["command git -c core.pager=x log"]),
        ("bash run.sh", ["command bash run.sh"]),
        ("/usr/bin/env python3 x", ["command /usr/bin/env python3 x"]),
        ("python3.12 setup.py install", ["command python3.12 setup.py install"]),
        ("A=1 make test", ["command A=1 make test"]),
        ("make test; rm x", ["command make test; rm x"]),
        ("make test\nrm x", ["command make test\nrm x"]),
        ("echo $(rm x)", ["command echo $(rm x)"]),
        ("make test > log", ["command make test > log"]),
        ("", []),
    ],
)
def test_what_is_offered_for_a_command(command: str, offered: list[str]) -> None:
    found = offers(Effect("command", command))
    assert [f"{rule.kind} {rule.value}" for rule in found] == offered
    assert all(covers(rule, Effect("command", command)) for rule in found)


@pytest.mark.parametrize(
    ("command", "covered"),
    [
        ("git push", True), ("git push origin main", True), ("git   push  --tags", True),
        ("git pushy", False), ("git", False), ("git -C x push", False), ("sudo git push", False),
        ("git push; rm -rf /", False), ("git push && x", False), ("git push | sh", False), ("git push $(x)", False),
        ("git push `x`", False), ("git push > f", False), ("git push\nx", False), ("git push &", False),
        ("X=1 git push", False), ('git "push"', False),
    ],
)  # fmt: skip
def test_a_prefix_covers_whole_words_of_one_command(command: str, covered: bool) -> None:
    assert covers(RuleSpec("command_prefix", "git push"), Effect("command", command)) is covered


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("notes.md", ["notes.md"]),
        ("./docs//a/../b.md", ["docs/b.md", "docs/"]),
        ("../outside", []),
        ("docs/../../outside", []),
        (".", []),
        ("", []),
        ("/", []),
        ("//", []),
        ("/a.md", ["/a.md"]),
        ("//a.md", ["/a.md"]),
    ],
)
def test_what_is_offered_for_a_path(path: str, offered: list[str]) -> None:
    assert [rule.value for rule in offers(Effect("path", path))] == offered


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("docs/a.md", True), ("docs/deep/b", True), ("./docs/x", True), ("docs", False), ("docs2/a", False),
        ("docs/../secret", False), ("../docs/a", False), ("/docs/a", False),
    ],
)  # fmt: skip
def test_a_folder_covers_what_is_below_it(path: str, covered: bool) -> None:
    assert covers(RuleSpec("path", "docs/"), Effect("path", path)) is covered


def test_kinds_do_not_mix_and_other_effects_have_no_rules() -> None:
    assert not covers(RuleSpec("path", "git"), Effect("command", "git"))
    assert not covers(RuleSpec("command", "a"), Effect("path", "a"))
    assert offers(Effect("other", "x")) == ()
