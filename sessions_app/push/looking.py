"""Who looks at a session this moment: what the web processes say in Redis (`live.presence`)."""

import logging
from typing import Any, Final

import orjson
import redis

from sessions_app.log import bell

_ID: Final = 0
_LOOKING: Final = 5
_log = logging.getLogger(__name__)


def looking(session: str) -> set[str]:
    """The ids of those with a visible page of it; nobody where Redis cannot be asked: then they are told once more."""
    members = bell.WATCHING.format(session)
    try:
        client = bell.client()
        processes: Any = client.smembers(members)
        values: Any = client.mget([f"{members}:{process.decode()}" for process in processes]) if processes else []
    except (redis.RedisError, OSError) as error:
        _log.warning("who looks at %s is not known: %s", session, error)
        return set()
    seats = [seat for value in values if value is not None for seat in orjson.loads(value)]
    return {seat[_ID] for seat in seats if len(seat) > _LOOKING and seat[_LOOKING]}
