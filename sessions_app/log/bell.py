"""The bell: tells every web process, through Redis, that something happened. A hint only (L5): nobody waits for it, a
poll stands behind it, and while Redis is away it costs a caller nothing."""

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

import orjson
import redis

from sessions_app.log.append import Appended
from sessions_app.log.frames import event_frame

SESSION_CHANNEL: Final = "steerweb:s:{}"
LIST_CHANNEL: Final = "steerweb:list"
WATCHING: Final = "steerweb:watching:{}"
"""The set of web processes in which somebody watches a session; `{}:process` holds who (see `live.presence`)."""
_PATIENCE_S: Final = 0.25
_QUIET_S: Final = 1.0

_log = logging.getLogger(__name__)
_guard = threading.Lock()
_client: redis.Redis | None = None
_quiet_until = 0.0


def configure(url: str) -> None:
    """Use another Redis from now on."""
    global _client, _quiet_until
    with _guard:
        if _client is not None:
            _client.close()
        _client, _quiet_until = _connect(url), 0.0


def _connect(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S, health_check_interval=0, retry=None
    )


def client() -> redis.Redis:
    """The process's Redis connection pool."""
    global _client
    with _guard:
        if _client is None:
            from django.conf import settings

            _client = _connect(settings.REDIS_URL)
        return _client


def ring(appended: Appended) -> None:
    """Pass on committed events, encoded once for each audience. Call after the commit."""
    if not appended.rows:
        return
    events = [
        {
            "seq": row.seq,
            "member": event_frame(row).decode(),
            "observer": event_frame(row, "observer").decode(),
        }
        for row in appended.rows
    ]
    _publish([
        (SESSION_CHANNEL.format(appended.session), {"k": "events", "events": events}),
        (LIST_CHANNEL, {"id": appended.session}),
    ])  # fmt: skip


def ring_list(session: str) -> None:
    """Something that no event tells has changed about a session in somebody's list."""
    _publish([(LIST_CHANNEL, {"id": session})])


def delta(session: str, frame: dict[str, Any]) -> None:
    """Pass on a piece of streamed text."""
    deltas([(session, frame)])


def deltas(frames: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """The same for many, each with its session: all of a worker's streams in one trip."""
    _publish([(SESSION_CHANNEL.format(session), {"k": "delta", "frame": frame}) for session, frame in frames])


def frame(session: str, frame: dict[str, Any]) -> None:
    """Pass on another ephemeral frame: `stopping`, `retrying`, `leaving`."""
    _publish([(SESSION_CHANNEL.format(session), {"k": "frame", "frame": frame})])


def _publish(messages: Iterable[tuple[str, dict[str, Any]]]) -> None:
    global _quiet_until
    if time.monotonic() < _quiet_until:
        return
    try:
        with client().pipeline(transaction=False) as pipe:
            for channel, message in messages:
                pipe.publish(channel, orjson.dumps(message))
            pipe.execute()
    except (redis.RedisError, OSError) as error:
        _quiet_until = time.monotonic() + _QUIET_S  # one caller a second pays for finding out
        _log.warning("the bell is silent: %s", error)
