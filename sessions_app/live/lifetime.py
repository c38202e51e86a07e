"""The hub of a web process lives as long as somebody is connected, and a little longer."""

import asyncio

from django.conf import settings

from sessions_app.live.hub import LINGER_S, Hub

_hub: Hub | None = None
_loop: asyncio.AbstractEventLoop | None = None


def enter_hub() -> Hub:
    """The hub of this process, started for its first user. Each user calls `leave_hub` once."""
    global _hub, _loop
    loop = asyncio.get_running_loop()
    if _hub is None or _loop is not loop:
        _hub, _loop = Hub(settings.REDIS_URL), loop
        _hub.start()
    _hub.users += 1
    return _hub


async def leave_hub(hub: Hub, *, at_once: bool) -> None:
    """The last user stops the hub: soon, for they may only be reconnecting, or at once when the process is stopping."""
    hub.users -= 1
    if hub.users:
        return
    if at_once:
        await _stop_unused(hub)
    else:
        asyncio.get_running_loop().call_later(LINGER_S, lambda: asyncio.ensure_future(_stop_unused(hub)))


async def _stop_unused(hub: Hub) -> None:
    global _hub
    if not hub.users and _hub is hub:
        _hub = None
        await hub.stop()
