"""Standing answers (H3): what a rule may say, what is offered for a call, and which calls a rule covers.

A rule is stated as people read it on the approval card, and covers nothing that it does not state. Matching is lexical:
the shell and the file system are not asked.
"""

import re
from posixpath import normpath
from typing import Final, Literal

from sessions_app.engine.commands import Effect, RuleSpec

Kind = Literal["command", "command_prefix", "path"]
KINDS: Final = ("command", "command_prefix", "path")

# A command that holds one of these may be several commands, or not the words it is read as: no prefix covers it.
_SHELL: Final = re.compile(r"[|&;<>(){}$`\\\n\r]")
# Programs that run what their arguments say: a prefix of theirs would allow a shell as a whole.
_RUNNERS: Final = re.compile(
    r"(ba|z|da|k|c|tc|a)?sh|fish|env|sudo|doas|su|xargs|find|parallel|nohup|timeout|time|nice|ionice|setsid|stdbuf|strace"
    r"|watch|exec|eval|command|builtin|source|\.|python[\d.]*|perl|ruby|node|deno|bun|php|lua|g?awk|sed|ssh|script"
)


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
            words, wanted = _words(effect.value), rule.value.split()
            return words[: len(wanted)] == wanted
        case "path", "path":
            path = _path(effect.value)
            inside = rule.value.endswith("/") and path is not None and path.startswith(rule.value)
            return path == rule.value or inside
    return False


def _command_offers(command: str) -> tuple[RuleSpec, ...]:
    exact = RuleSpec("command", command.strip())
    words = _words(command)
    if len(words) < 2 or words[1].startswith("-") or _RUNNERS.fullmatch(words[0].rpartition("/")[2]):
        return (exact,) if exact.value else ()
    return exact, RuleSpec("command_prefix", " ".join(words[:2]))


def _words(command: str) -> list[str]:
    """The words of a command that is one command for certain, none otherwise. Quotes stay: equal text, equal words."""
    words = [] if _SHELL.search(command) else command.split()
    return [] if words and "=" in words[0] else words


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
