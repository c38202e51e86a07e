"""The addresses of the sockets."""

from typing import Final

from django.urls import URLPattern, path, re_path

from sessions_app.live.consumer import ListSocket, NoSocket, SessionSocket

websocket_urlpatterns: Final[list[URLPattern]] = [
    path("ws/sessions/<uuid:id>/", SessionSocket.as_asgi()),
    path("ws/", ListSocket.as_asgi()),
    re_path(r"", NoSocket.as_asgi()),
]
