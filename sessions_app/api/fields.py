"""The types of fields in requests: strict, and exact about what they accept."""

import re
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
)

from sessions_app.engine.instants import read_instant
from sessions_app.ids import derived_id

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Shape(BaseModel):
    """A request's shape: unknown fields and wrong types are refused, never guessed at."""

    model_config = ConfigDict(extra="forbid", strict=True)


class QueryShape(BaseModel):
    """The shape of a query string, whose values all arrive as text."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="after")
    @classmethod
    def _searchable(cls, value: object) -> object:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("No text holds a NUL character.")
        return value


def _id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise ValueError("This is not an id; ids are UUIDs.")
    return value.lower()


Id = Annotated[str, AfterValidator(_id), WithJsonSchema({"type": "string", "format": "uuid"})]
"""A UUID in its 36 character spelling; upper case is accepted and lowered."""


def _instant(value: object) -> object:
    return read_instant(value) if isinstance(value, str) else value


Instant = Annotated[AwareDatetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant of RFC 3339, with its offset from UTC."""

MAX_SEQ: Final = 2**63 - 1
Seq = Annotated[int, Field(ge=1, le=MAX_SEQ)]
"""The number of an event."""


def command_id_of(key: str) -> str:
    """The command id an `Idempotency-Key` stands for: itself where it is a UUID, else one derived from it (A4)."""
    return key.lower() if _UUID.fullmatch(key) else derived_id(key)
