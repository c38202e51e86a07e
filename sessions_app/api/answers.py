"""How answers leave: JSON bytes, instants in UTC with `Z`, never cached."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
from django.http import HttpResponse


def encode(data: Any) -> bytes:
    """JSON bytes. Text that UTF-8 cannot hold (a lone surrogate handed back in an error) is escaped, as it came."""
    try:
        return orjson.dumps(data, option=orjson.OPT_UTC_Z)
    except TypeError:
        return json.dumps(data, default=str).encode()


def answer(data: Any, status: int = 200) -> HttpResponse:
    """A JSON answer."""
    return _response(encode(data), status)


def page_of_bytes(items: Sequence[bytes], following: Any) -> HttpResponse:
    """`{"items": [...], "next": ...}` of items that are JSON already: joined, not decoded and encoded again."""
    return _response(b'{"items":[%b],"next":%b}' % (b",".join(items), encode(following)), 200)


def _response(content: bytes, status: int) -> HttpResponse:
    response = HttpResponse(content, status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    return response
