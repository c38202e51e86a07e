"""The files of a message: named when it is queued, and kept wherever it goes."""

from collections.abc import Sequence
from typing import Any, Final

from sessions_app.engine.decide.context import Context
from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Data
from sessions_app.engine.files import FILES_AT_ONCE

_NAMES_BYTES: Final = 1000


def named(ids: Sequence[str], context: Context) -> Data:
    """The field `files` of a new message's event; none where it has no files. Refused where one is not there."""
    if not ids:
        return {}
    wanted = list(dict.fromkeys(ids))
    if len(wanted) > FILES_AT_ONCE:
        detail = f"A message carries at most {FILES_AT_ONCE} files."
        raise Refused("invalid", detail, field="files", limit=FILES_AT_ONCE)
    there = context.uploads(wanted)
    missing = [each for each in wanted if each not in there]
    if missing:
        raise Refused("file_not_found", "A file of this message is not there, or was erased.", files=missing)
    return {"files": [there[each] for each in wanted]}


def kept(seq: int, context: Context) -> Data:
    """The field `files` of an event that moves the message which the event `seq` has queued."""
    files = context.files(seq)
    return {"files": files} if files else {}


def worded(text: str, files: Data) -> str:
    """A message's text: files that are sent without a word are called by their names."""
    if text.strip() or not files:
        return text
    names: list[Any] = [each["name"] for each in files["files"]]
    listed = ", ".join(name for name in names if isinstance(name, str))
    if 0 < len(listed.encode()) <= _NAMES_BYTES:
        return listed
    return "1 file" if len(names) == 1 else f"{len(names)} files"
