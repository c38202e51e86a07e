"""Standing answers (H3): what a rule may say, what is offered for a call, and which calls a rule covers.

A rule is stated as people read it on the approval card, and covers nothing that it does not state. Matching is lexical:
the shell and the file system are not asked.
"""

import re
import shlex
from posixpath import normpath
from typing import Final, Literal

from sessions_app.engine.commands import Effect, RuleSpec

Kind = Literal["command", "command_prefix", "path"]
KINDS: Final = ("command", "command_prefix", "path")

# Text in quotes in which the shell reads nothing more. Outside of it, one of `_SHELL` may make several commands of one,
# or other words than it is read as: no prefix covers that.
_QUOTED: Final = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
_SHELL: Final = re.compile(r"""[|&;<>(){}$`\\\n\r*?\['"]""")
# The words of these name files, branches and messages, never another program that then runs: only for them is a prefix
# offered. What starts others (a shell, `uv run`, `make` with its `SHELL=`) is not here, nor what nobody has looked at.
_PREFIXES: Final = (
    "git add", "git branch", "git checkout", "git commit", "git diff", "git fetch", "git log", "git mv", "git push",
    "git restore", "git rm", "git show", "git stash", "git status", "git switch", "git tag", "ruff check",
    "ruff format", "cat", "grep", "head", "ls", "mkdir", "tail", "touch", "wc",
)  # fmt: skip
# The exceptions: options of theirs that do name a program. Git takes a beginning of one for the whole.
_NAMING: Final = ("--exec", "--receive-pack", "--upload-pack")


def offers(effect: Effect) -> tuple[RuleSpec, ...]:
    """The rules that a person may answer with, the narrowest first; each covers the call itself."""
    if effect.kind == "command":
        return _command_offers(effect.value)
    if effect.kind == "path":
        return _path_offers(effect.value)
    return ()


def covers(rule: RuleSpec, effect: Effect) -> bool:
    """Whether a call with this effect may run by this rule."""
    match rule.kind, effect.kind:
        case "command", "command":
            return rule.value == effect.value.strip()
        case "command_prefix", "command":
            return rule.value == _prefix(effect.value)
        case "path", "path":
            path = _path(effect.value)
            inside = rule.value.endswith("/") and path is not None and path.startswith(rule.value)
            return path == rule.value or inside
    return False


def effect_of(narrowest: RuleSpec) -> Effect:
    """What a call changes, told by the narrowest rule that it offers."""
    return Effect("path" if narrowest.kind == "path" else "command", narrowest.value)


def _command_offers(command: str) -> tuple[RuleSpec, ...]:
    exact, prefix = command.strip(), _prefix(command)
    offered = [RuleSpec("command", exact)] if exact else []
    return tuple(offered if prefix is None else [*offered, RuleSpec("command_prefix", prefix)])


def _prefix(command: str) -> str | None:
    """The one prefix that covers a command: None for one that may be several, or run a program that its words name."""
    if _SHELL.search(_QUOTED.sub("", command)):
        return None
    words = shlex.split(command)
    if any(map(_names_a_program, words)):
        return None
    return next((prefix for prefix in _PREFIXES if words[: prefix.count(" ") + 1] == prefix.split()), None)


def _names_a_program(word: str) -> bool:
    option = word.partition("=")[0]
    return len(option) > 2 and any(naming.startswith(option) for naming in _NAMING)


def _path_offers(path: str) -> tuple[RuleSpec, ...]:
    normal = _path(path)
    if normal is None:
        return ()
    folder = normal.rpartition("/")[0]
    return (RuleSpec("path", normal), RuleSpec("path", f"{folder}/")) if folder else (RuleSpec("path", normal),)


def _path(path: str) -> str | None:
    """The path without detours; None for one that leads out of where it starts, or nowhere."""
    normal = re.sub("^/+", "/", normpath(path.strip()))  # normpath leaves two slashes, which mean one
    return None if normal in (".", "/") or normal.split("/")[0] == ".." else normal
