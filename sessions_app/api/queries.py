"""Query strings: typed like bodies, and as strict about names they do not know."""

from typing import Literal

from django.http import HttpRequest
from pydantic import AwareDatetime, ConfigDict, Field

from sessions_app.api.fields import MAX_SEQ, Id, QueryShape
from sessions_app.api.problems import invalid

PAGE = 50
MAX_PAGE = 200
MAX_EVENTS = 1000
MAX_TEXT = 1024 * 1024


class SessionsQuery(QueryShape):
    """Which sessions: in a state (or `archived`), with words in the title or in a message, started by a person."""

    state: str | None = None
    q: str | None = Field(default=None, max_length=200)
    person: str | None = None
    cursor: str | None = None
    limit: int = Field(default=PAGE, ge=1, le=MAX_PAGE)


class StoppableQuery(QueryShape):
    """Which sessions a stop would be about."""

    scope: Literal["mine", "all"] = "mine"


class EventsQuery(QueryShape):
    """Which events: after or before a seq (neither is included), of types (repeated or joined by commas), of a loop."""

    after: int | None = Field(default=None, ge=0, le=MAX_SEQ)
    before: int | None = Field(default=None, ge=0, le=MAX_SEQ)
    limit: int = Field(default=100, ge=1, le=MAX_EVENTS)
    types: list[str] = Field(default_factory=list)
    loop: Id | None = None
    order: Literal["asc", "desc"] = "asc"


class TurnsQuery(QueryShape):
    """Which turns: those numbered below `before`, or just the one of this id, whosever it is."""

    turn: Id | None = None
    before: int | None = Field(default=None, ge=1, le=MAX_SEQ)
    limit: int = Field(default=200, ge=1, le=MAX_EVENTS)


class TextQuery(QueryShape):
    """Which part of a text, in code points."""

    offset: int = Field(default=0, ge=0, le=MAX_SEQ)
    length: int = Field(default=256 * 1024, ge=1, le=MAX_TEXT)


class InterruptionsQuery(QueryShape):
    """Which interruptions: by whom (name or id), of which cause, with words in the reason or anywhere (`q`), when."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    person: str | None = None
    cause: str | None = None
    reason: str | None = None
    q: str | None = None
    start: AwareDatetime | None = Field(default=None, alias="from")
    end: AwareDatetime | None = Field(default=None, alias="to")
    cursor: str | None = None
    limit: int = Field(default=PAGE, ge=1, le=MAX_PAGE)


def only(request: HttpRequest, shape: type[QueryShape]) -> None:
    """Refuse names the shape does not have, and names given twice that hold one value: ninja drops them silently."""
    known = {field.alias or name: field for name, field in shape.model_fields.items()}
    for name, values in request.GET.lists():
        if name not in known:
            raise invalid(f"{name}: There is no such parameter here.", field=name)
        if len(values) > 1 and known[name].annotation != list[str]:
            raise invalid(f"{name}: This may be given once.", field=name)
