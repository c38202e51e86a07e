"""Files that messages carry: uploaded first, then named by an input or a steer, whose event says what they are.

A file in an event is `{id, name, size, type}`: its name is a text and can be erased (A3), the rest are facts. Its bytes
lie beside the log and are forgotten with the texts of an event that names it.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from sessions_app.engine.errors import Refused
from sessions_app.engine.events import Data
from sessions_app.engine.text import clean

FILES_AT_ONCE: Final = 10
FILE_BYTES: Final = 10_000_000
NAME_CHARS: Final = 255
IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types that are looked for in the bytes and shown in place."""
UPLOADS: Final = ".steerweb/uploads"
"""Where in a workspace its agent finds the files."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SAFE_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class File:
    """A file as an agent's conversation holds it; `name` is None once erased."""

    id: str
    name: str | None
    size: int
    type: str

    @property
    def path(self) -> str:
        """Where it lies, relative to the workspace."""
        safe = _UNSAFE.sub("_", self.name or "file").strip("._")[-_SAFE_CHARS:]
        return f"{UPLOADS}/{self.id}-{safe or 'file'}"


def files_of(data: Data) -> tuple[File, ...]:
    """The files of an event's payload."""
    return tuple(
        File(each["id"], each["name"] if isinstance(each["name"], str) else None, each["size"], each["type"])
        for each in data.get("files") or ()
    )


def check_file_size(size: int) -> None:
    """Refuse a file that is too large with its size and the limit (`too_large`)."""
    if size > FILE_BYTES:
        detail = f"This file has {size:,} bytes; at most {FILE_BYTES:,} can be sent."
        raise Refused("too_large", detail, size=size, limit=FILE_BYTES)


def cleaned_name(name: str) -> str:
    """A name as it is stored: its last part, without what would hide how it ends, at most 255 characters."""
    last = clean(name)[0].replace("\\", "/").rstrip("/").rpartition("/")[2]
    shown = "".join(each for each in last if unicodedata.category(each)[0] != "C").strip()
    if len(shown) > NAME_CHARS:
        stem, dot, ending = shown.rpartition(".")
        short = bool(dot) and len(ending) < NAME_CHARS // 8
        shown = f"{stem[: NAME_CHARS - len(ending) - 1]}.{ending}" if short else shown[:NAME_CHARS]
    return "file" if shown in ("", ".", "..") else shown
