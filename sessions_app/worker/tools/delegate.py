"""`delegate`: hand a task to an agent of its own (G1). The engine makes that agent's loop; nothing is run here."""

from typing import Any, Final

from sessions_app.engine.limits import INPUT_BYTES
from sessions_app.engine.text import clean
from sessions_app.worker.tools.base import (
    BadArgumentsError,
    Changes,
    Schema,
    ToolContext,
    ToolOutcome,
    schema,
    text_argument,
)

NAME: Final = "delegate"


class Delegate:
    """Checks a task; a call with a good one never gets here, as its turn starts a child instead."""

    name = NAME
    description = (
        "Hand a task to another agent with the same tools in the same workspace, and wait for its answer. It knows "
        "nothing of this conversation: put everything it needs into the task, and say what it is to answer with. "
        "Several calls in one reply work side by side."
    )
    schema: Schema = schema({"task": {"type": "string", "description": "The whole task, in words."}}, "task")
    changes: Changes | None = None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Say what is wrong with the task."""
        check_task(arguments)
        raise BadArgumentsError("`delegate` takes nothing but a `task`")


def check_task(arguments: dict[str, Any]) -> str:
    """The task of a call; raises BadArgumentsError."""
    task = text_argument(arguments, "task")
    if not task.strip():
        raise BadArgumentsError("`task` is empty")
    if len(clean(task)[0].encode()) > INPUT_BYTES:
        raise BadArgumentsError(f"`task` is over {INPUT_BYTES:,} bytes")
    return task


def task_of(tool: str, arguments: dict[str, Any]) -> str | None:
    """The task that a call delegates; None where it is another tool's, or no good."""
    if tool != NAME or arguments.keys() != {"task"}:
        return None
    try:
        return check_task(arguments)
    except BadArgumentsError:
        return None
