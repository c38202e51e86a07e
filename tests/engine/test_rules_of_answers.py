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
        ("""git commit -m 'a (b); c' -m "it's *" """.strip(), [
            """command git commit -m 'a (b); c' -m "it's *\"""", "command_prefix git commit",
        ]),
        ("'git' \"push\" origin", ["command 'git' \"push\" origin", "command_prefix git push"]),
        ("ls -la src", ["command ls -la src", "command_prefix ls"]),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_offered_for_a_command(command: str, offered: list[str]) -> None:
    found = offers(Effect("command", command))
    assert [f"{rule.kind} {rule.value}" for rule in found] == offered
    assert all(covers(rule, Effect("command", command)) for rule in found)


@pytest.mark.parametrize(
    "command",
    [
        "pytest", "rm -rf build", "git", "git -c core.pager=x log", "git rebase --exec x", "A=1 make test",
        # several commands, or not the words it is read as
        "git status; rm x", "git status\nrm x", "ls $(rm x)", "git log > log", "git log 'a", 'git log "$(x)"',
        """ls "it's $(x)" 'y'""", "ls \\' ; rm x '", "git push *", "ls {a,b}",
        # shells and what starts other programs, however it is written
        "bash run.sh", "'bash' '-c' 'ls'", "ba'sh' run.sh", '"/bin/sh" run.sh', "busybox sh", "/usr/bin/env python3 x",
        "python3.12 setup.py install", "sudo ls", "uv run pytest", "uvx ruff", "poetry run x", "npm exec x", "npm test",
        "npx x", "docker exec box ls", "docker run box", "kubectl exec pod", "cargo run", "go run x", "make test",
        "time ls", "xargs ls", "find . -name x", "tar cf x y", "rg --pre sh x", "pip install x", "ssh host ls",
        # a file of that name, and options that name a program
        "./git status", "'git status'", "~/git status", "git push --receive-pack=x", "git push --rece x",
        "git push --exe x", "git push --e x", "git push '--exec=x'", "git fetch --upload-pack x",
    ],
)  # fmt: skip
def test_of_what_may_run_another_program_only_the_command_itself_is_offered(command: str) -> None:
    assert offers(Effect("command", command)) == (RuleSpec("command", command),)
    words = command.split()
    assert not any(covers(RuleSpec("command_prefix", " ".join(words[:n])), Effect("command", command)) for n in (1, 2))


@pytest.mark.parametrize(
    ("command", "covered"),
    [
        ("git push", True), ("git push origin main", True), ("git   push  --tags", True), ('git "push"', True),
        ("git push --recurse-submodules=no -- x", True), ("git push --exit", True),
        ("git pushy", False), ("git", False), ("git -C x push", False), ("sudo git push", False),
        ("git push; rm -rf /", False), ("git push && x", False), ("git push | sh", False), ("git push $(x)", False),
        ("git push `x`", False), ("git push > f", False), ("git push\nx", False), ("git push &", False),
        ("X=1 git push", False), ("git push --exec=x", False), ("git push --receive-pack x", False),
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
