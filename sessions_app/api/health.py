"""Is the process alive, and can it serve? The two pages anybody may read; they say nothing about what is inside."""

import logging
import os

import psycopg
import redis
from django.http import HttpRequest, HttpResponse

from sessions_app.api.answers import answer
from sessions_app.engine.errors import Refused
from sessions_app.log.bell import client
from sessions_app.log.db import cursor
from steerweb import runtime

log = logging.getLogger(__name__)


def instance() -> str | None:
    """The id of the `up` this process belongs to; None for a web process on its own."""
    if given := os.environ.get("STEERWEB_INSTANCE"):
        return given
    record = runtime.read_record()
    return record.instance if record else None


def live(request: HttpRequest) -> HttpResponse:
    """The process answers. No service is asked."""
    return answer({"ok": True, "instance": instance()})


def ready(request: HttpRequest) -> HttpResponse:
    """The database answers and holds our tables; else 503. Redis is only told about: without it things are slower."""
    database = _database_answers()
    return answer({"ok": database, "database": database, "redis": _redis_answers()}, 200 if database else 503)


def _database_answers() -> bool:
    try:
        with cursor("read") as cur:
            cur.execute("SELECT FROM session LIMIT 1")
    except (Refused, psycopg.Error) as exc:
        log.warning("not ready: %s", exc)
        return False
    return True


def _redis_answers() -> bool:
    try:
        return bool(client().ping())
    except (redis.RedisError, OSError):
        return False
