"""The ASGI application: Django for HTTP, the socket doors for websockets."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "steerweb.settings")
http_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402  (models need the set-up above)

from sessions_app.live.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter({"http": http_application, "websocket": URLRouter(websocket_urlpatterns)})
