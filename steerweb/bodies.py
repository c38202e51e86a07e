"""How much of a request's body the web server takes: what no door takes is neither stored nor read by anything.

Twisted writes a body to disk as it comes, before anybody could look at its size, or at who sends it.
"""

from typing import Any, Final

from daphne import server
from daphne.http_protocol import HTTPFactory, WebRequest

from sessions_app.api.problems import problem

MOST: Final = 16 * 1024 * 1024
"""Bytes; the largest of the doors takes a file of 10 MB."""


class BoundedRequest(WebRequest):  # type: ignore[misc]  # daphne publishes no types
    """A request of which at most `MOST` bytes are kept; with more it is answered `too_large`, once it has been sent.

    An answer before that, and an end of the connection, would reach most clients as an error of the network. Forms are
    Django's to read: Twisted would parse one as well, with a second's halt of everything here for a file of 10 MB.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._sent = 0
        super().__init__(*args, **{**kwargs, "parsePOSTFormSubmission": False})

    def gotLength(self, length: int | None) -> None:  # noqa: N802  # Twisted's name
        super().gotLength(length if length is None else min(length, MOST))

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802  # Twisted's name
        if self._sent + len(data) <= MOST:
            super().handleContentChunk(data)
        self._sent += len(data)

    def process(self) -> Any:
        if self._sent <= MOST:
            return super().process()
        detail = f"The body has {self._sent:,} bytes; {MOST:,} are allowed."
        answer = problem("too_large", detail, 413, data={"size": self._sent, "limit": MOST})
        answer["Content-Length"] = str(len(answer.content))
        headers = [(name.encode(), value.encode()) for name, value in answer.items()]
        self.handle_reply({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": answer.content})
        return None


class BoundedFactory(HTTPFactory):  # type: ignore[misc]  # daphne publishes no types
    """Makes connections whose requests are bounded."""

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802  # Twisted's name
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = BoundedRequest
        return protocol


def bound() -> None:
    """From now on a Daphne server takes bounded bodies: it has no setting for that."""
    server.HTTPFactory = BoundedFactory
