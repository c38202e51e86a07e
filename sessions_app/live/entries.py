"""Events on their way out: encoded for each audience, with what the hub looks at; and pages of them from the log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from sessions_app.live.frames import Frame
from sessions_app.log import read
from sessions_app.log.frames import Audience

FIRST_PAGE: Final = 64
LARGEST_PAGE: Final = 1000
SMALL_PAGE_BYTES: Final = 512 * 1024
PART_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One event. `call` is the call that a `ToolSettled` settles."""

    seq: int
    type: str
    loop: str | None
    turn: str | None
    step: int | None
    call: str | None
    member: Frame
    observer: Frame

    def frame(self, audience: Audience) -> Frame:
        return self.observer if audience == "observer" else self.member


def entry(member: bytes, observer: bytes) -> Entry:
    """An entry from its two encodings; equal ones share their frame."""
    head = orjson.loads(member)
    call = head["data"].get("call") if head["type"] == "ToolSettled" else None
    first = Frame(member)
    second = first if member == observer else Frame(observer)
    return Entry(head["seq"], head["type"], head["loop"], head["turn"], head["step"], call, first, second)


def parts(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The same events in runs of about `PART_BYTES`, so that a slow client can be waited for in between."""
    part: list[Entry] = []
    size = 0
    for one in entries:
        part.append(one)
        size += len(one.member)
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def next_limit(page: Sequence[Entry], limit: int) -> int:
    """How many events to ask for after this page: more while they are small, fewer when they are large."""
    size = sum(len(one.member) for one in page)
    return min(limit * 2, LARGEST_PAGE) if size < SMALL_PAGE_BYTES else max(limit // 2, 1)


def page_after(session: str, after: int, limit: int, audience: Audience) -> list[Entry]:
    """The next events after a seq, for one audience."""
    return [entry(one, one) for one in read.events(session, after=after, limit=limit, audience=audience)]


def entries_after(session: str, after: int) -> list[Entry]:
    """The next events after a seq, for both audiences."""
    members = read.events(session, after=after, limit=FIRST_PAGE, audience="member")
    observers = read.events(session, after=after, limit=len(members), audience="observer") if members else []
    return [entry(member, observer) for member, observer in zip(members, observers, strict=True)]
