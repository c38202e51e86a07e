"""Following a session's socket: connects, resumes after the last event it saw, and ends when the session is closed."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from sessions_app.cli.client import REFUSED, UNREACHABLE, Address, Failure, failure_of

MAX_FRAME: Final = 8 * 1024 * 1024
OPEN_S: Final = 10.0
SILENCE_S: Final = 45.0
"""A server says something every 15 s; three beats missed mean that nobody is there."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0

_FINAL_CLOSES: Final = {
    4401: ("unauthenticated", ""),
    4403: ("not_allowed", "You may not watch this session any more."),
    4404: ("session_not_found", "There is no such session, or it is not yours."),
}
OnFrame = Callable[[Mapping[str, Any]], None]


class _Lost(Exception):
    """The connection is gone; another attempt may succeed. `at_once`: without a pause."""

    def __init__(self, why: str, *, at_once: bool = False) -> None:
        super().__init__(why)
        self.at_once = at_once


class Watch:
    """One watched session. `after` is the seq of the last event handed on: where every reconnect resumes (L1)."""

    def __init__(self, address: Address, session: str, after: int, on_frame: OnFrame) -> None:
        self._address = address
        self._session = session
        self._on_frame = on_frame
        self.after = after
        self._caught_up = False
        self._closed = False
        self._reached = False

    def follow(self, on_lost: Callable[[str], None], *, once: bool = False) -> None:
        """Hand every frame on until the session is closed, or, with `once`, until all that has happened was seen."""
        pause = FIRST_PAUSE_S
        while True:
            before = self.after
            try:
                return self._read(once)
            except _Lost as lost:
                if not self._reached:
                    raise Failure(f"{self._address.url} cannot be reached: {lost}.", UNREACHABLE) from lost
                if lost.at_once:
                    continue
                on_lost(str(lost))
            pause = FIRST_PAUSE_S if self.after > before else min(2 * pause, LONGEST_PAUSE_S)
            time.sleep(pause)

    def _read(self, once: bool) -> None:
        with self._connection() as socket:
            self._reached = True
            self._caught_up = False
            while not (self._caught_up and (once or self._closed)):
                self._take(orjson.loads(socket.recv(timeout=SILENCE_S)))

    def _take(self, frame: Mapping[str, Any]) -> None:
        kind = frame.get("t")
        if kind == "event":
            if frame["seq"] <= self.after:
                return
            self.after = frame["seq"]
            self._closed = self._closed or frame["type"] == "SessionClosed"
        elif kind == "caught_up":
            self._caught_up = True
        elif kind == "error":
            raise failure_of(frame["code"], frame["detail"], frame)
        self._on_frame(frame)
        if kind == "resync":
            raise _Lost("this end fell behind", at_once=True)

    @contextmanager
    def _connection(self) -> Iterator[ClientConnection]:
        uri = self._address.socket(f"/ws/sessions/{self._session}/?after={self.after}&live=1")
        headers = self._address.headers
        agent = headers.pop("User-Agent")
        try:
            with connect(
                uri, additional_headers=headers, user_agent_header=agent, max_size=MAX_FRAME, open_timeout=OPEN_S
            ) as socket:
                yield socket
        except InvalidStatus as exc:
            raise _handshake_failure(exc.response.status_code) from exc
        except ConnectionClosed as exc:
            code = exc.rcvd.code if exc.rcvd else 1006
            if code in _FINAL_CLOSES:
                raise failure_of(*_FINAL_CLOSES[code]) from exc
            raise _Lost("the connection was closed") from exc
        except TimeoutError as exc:
            raise _Lost("nothing was heard") from exc
        except (OSError, InvalidHandshake, InvalidURI) as exc:
            raise _Lost(str(exc).rstrip(".") or type(exc).__name__) from exc


def _handshake_failure(status: int) -> Exception:
    if status == 401:
        return failure_of("unauthenticated", "")
    if 400 <= status < 500:
        return Failure(f"The server refused to be watched ({status}).", REFUSED)
    return _Lost(f"the server answered {status}")
