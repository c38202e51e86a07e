"""What one gets from the manual: a Channels consumer in a group of channels_redis, under Daphne.

`python -m sessions_app.bench.stock FD REDIS_URL` serves on a listening socket. Needs channels_redis, which steerweb
itself does not.
"""

import sys
from typing import Any, Final

GROUP: Final = "watchers"


def main(descriptor: str, redis_url: str) -> None:
    """Serve until killed."""
    import django
    from django.conf import settings

    layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [redis_url]}}
    settings.configure(CHANNEL_LAYERS={"default": layer}, SECRET_KEY="unused")  # noqa: S106  (nothing is signed)
    django.setup()
    # Before anything else of Twisted: this import installs the asyncio reactor.
    from daphne.server import Server

    # isort: split
    from channels.generic.websocket import AsyncWebsocketConsumer
    from channels.routing import ProtocolTypeRouter

    class Consumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels publishes no types
        async def connect(self) -> None:
            await self.channel_layer.group_add(GROUP, self.channel_name)
            await self.accept()
            await self.send(text_data='{"t":"caught_up","seq":0}')

        async def disconnect(self, code: int) -> None:
            await self.channel_layer.group_discard(GROUP, self.channel_name)

        async def delta(self, event: dict[str, Any]) -> None:
            await self.send(text_data=event["text"])

    application = ProtocolTypeRouter({"websocket": Consumer.as_asgi()})
    Server(application=application, endpoints=[f"fd:fileno={descriptor}"], verbosity=0).run()


if __name__ == "__main__":
    main(*sys.argv[1:3])
