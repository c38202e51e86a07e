"""All tools by name, and the one way to run them."""

import json
from dataclasses import replace
from typing import Any, Final

from sessions_app.engine.commands import Effect
from sessions_app.engine.state import Mode
from sessions_app.engine.text import clean, clean_json
from sessions_app.worker.models.base import INVALID, ToolSpec
from sessions_app.worker.tools.base import BadArgumentsError, Tool, ToolContext, ToolError, ToolOutcome
from sessions_app.worker.tools.delegate import Delegate
from sessions_app.worker.tools.edit_file import EditFile
from sessions_app.worker.tools.read_file import ReadFile
from sessions_app.worker.tools.search import Search
from sessions_app.worker.tools.shell import Shell
from sessions_app.worker.tools.write_file import WriteFile

_ALL: Final[tuple[Tool, ...]] = (Shell(), ReadFile(), Search(), WriteFile(), EditFile(), Delegate())
TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in _ALL}


def specs(mode: Mode) -> tuple[ToolSpec, ...]:
    """The tools as a model is told of them, in a fixed order; in `plan`, those that only read (I1)."""
    offered = [tool for tool in TOOLS.values() if mode != "plan" or tool.changes is None]
    return tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in offered)


def effect_of(name: str, arguments: dict[str, Any]) -> Effect | None:
    """What a call would change; None for one that only reads, or cannot run at all and will be told why."""
    arguments, _ = clean_json(arguments)
    try:
        changes = _checked(name, arguments).changes
    except BadArgumentsError:
        return None
    if changes is None:
        return None
    kind, argument = changes
    if arguments.get("background"):  # no rule says that it may run on and on (H3)
        return Effect("other")
    return Effect(kind, str(arguments.get(argument, "")))


async def run_tool(name: str, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Run one call. Whatever is wrong with it comes back as outcome `error`, in words its model can act on.

    Arguments are cleaned first (A6), so that what runs is what the log says.
    """
    arguments, replaced = clean_json(arguments)
    try:
        outcome = await _checked(name, arguments).run(arguments, context)
    except (BadArgumentsError, ToolError) as error:
        text, changed = clean(str(error))
        return ToolOutcome("error", text, replaced=replaced or changed)
    except OSError as error:
        # The machine's trouble (a full disk, a vanished workspace) is the model's to know, not a defect of the turn.
        return ToolOutcome("error", f"{name} failed: {clean(str(error))[0]}", replaced=replaced)
    return replace(outcome, replaced=True) if replaced else outcome


def _checked(name: str, arguments: dict[str, Any]) -> Tool:
    """The tool, if it is one and knows all these arguments."""
    tool = TOOLS.get(name)
    if tool is None:
        raise BadArgumentsError(f"there is no tool {name!r}; there are {', '.join(TOOLS)}")
    if INVALID in arguments:
        raise BadArgumentsError(f"the arguments of {name} were not a JSON object")
    known = tool.schema["properties"]
    unknown = [each for each in arguments if each not in known]
    if unknown:
        raise BadArgumentsError(f"{name} has no argument {json.dumps(unknown[0])}; it has {', '.join(known)}")
    return tool
