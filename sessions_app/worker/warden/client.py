"""The worker's side of its warden: start it, have calls run and ended, renew its lease, hear its news."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from sessions_app.worker.warden.link import Link
from sessions_app.worker.warden.running import RunningCall, retrieve
from sessions_app.worker.warden.shapes import CallSpec, Patience, SurvivorsNews, WardenError, processes_from_json
from sessions_app.worker.warden.wire import Header

HELLO_WITHIN_S: Final = 15.0
CLOSE_WITHIN_S: Final = 5.0
_ROOT: Final = Path(__file__).resolve().parents[3]


class Warden:
    """A running warden. All of it belongs to the event loop it was started on, except `renew`.

    `isolation` says in words how calls are kept together, `mode` in one word.
    """

    def __init__(
        self,
        lease_s: float,
        on_marked: Callable[[list[str]], None],
        on_gone: Callable[[str], None],
        on_survivors_ended: Callable[[SurvivorsNews], None] | None,
    ) -> None:
        self.isolation, self.mode, self.pid = "", "", 0
        self._lease_s = lease_s
        self._on_marked, self._on_gone, self._on_survivors_ended = on_marked, on_gone, on_survivors_ended
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._hello.add_done_callback(retrieve)
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._link = Link(self._on_frame, self._on_closed)
        self._calls: dict[int, RunningCall] = {}
        self._keys = 0
        self._gone_told = True  # until it is ready, its end is an error of `start`
        self._unanswered_since: float | None = None

    @classmethod
    async def start(
        cls,
        worker_id: str,
        database_url: str,
        lease_s: float,
        *,
        on_marked: Callable[[list[str]], None],
        on_gone: Callable[[str], None],
        on_survivors_ended: Callable[[SurvivorsNews], None] | None = None,
        patience: Patience | None = None,
        poll_s: float = 1.0,
    ) -> "Warden":
        """Start a warden and wait until it is ready; raises WardenError.

        `on_marked` gets every marked turn it hears of, once. `on_gone` is called once, with `lapsed`, `unresponsive`
        or `ended`, after which no tool of this worker runs and none can be started. `on_survivors_ended` is told when
        survivors of a kill ended at last (E7). `patience`: how long a call's processes may take to end.
        """
        warden = cls(lease_s, on_marked, on_gone, on_survivors_ended)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = _launch(theirs)
            warden.pid = process.pid
            await warden._link.open(ours)
        except OSError as error:
            ours.close()
            raise WardenError(f"the warden could not be started: {error}") from error
        # Somebody has to wait for it, but no one may have to wait for that.
        threading.Thread(target=process.wait, name="warden-wait", daemon=True).start()
        try:
            await asyncio.wait_for(warden._hello, HELLO_WITHIN_S)
        except TimeoutError as error:
            warden._kill_process()
            raise WardenError("the warden did not answer") from error
        warden.send(
            {
                "op": "config",
                "worker": worker_id,
                "database_url": database_url,
                "lease_s": lease_s,
                "patience": asdict(patience or Patience()),
                "poll_s": poll_s,
                "began": time.monotonic(),
            }
        )
        warden._gone_told = False
        return warden

    async def start_call(self, spec: CallSpec, on_output: Callable[[bytes], None]) -> RunningCall:
        """Start a call; returns when its command runs. `on_output` gets its output, on this loop.

        Raises TurnMarkedError when the turn is marked (nothing ran), WardenError when it cannot start otherwise.
        """
        if self._ended.done():
            raise WardenError("the warden is gone")
        self._keys += 1
        call = self._calls[self._keys] = RunningCall(self.send, self._keys, on_output)
        self.send({"op": "start", "key": self._keys, **asdict(spec)})
        try:
            await call.started()
        except asyncio.CancelledError:
            call.kill()
            raise
        return call

    def renew(self, began: float | None = None) -> None:
        """The lease was renewed in the database; callable from any thread.

        `began` is `time.monotonic()` from before that renewal was sent: whatever time it took shortens what the warden
        grants, so that it never outlasts the database's own (A7). Default: now.
        """
        with contextlib.suppress(RuntimeError):  # the loop is closed: the worker is on its way out
            self._loop.call_soon_threadsafe(self._renew, time.monotonic() if began is None else began)

    def learn(self, secrets: list[str]) -> None:
        """Have it mask these, too, in what it writes by itself (A6); callable from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.send, {"op": "secrets", "values": secrets})

    async def aclose(self) -> None:
        """Let the warden go. Returns when it has killed what still ran, or after 5 s."""
        self._gone_told = True
        self.send({"op": "close"})
        await asyncio.wait({self._ended}, timeout=CLOSE_WITHIN_S)
        self._link.close()

    def send(self, header: Header) -> None:
        """Send one request."""
        self._link.send(header)

    def _renew(self, began: float) -> None:
        now = time.monotonic()
        if self._unanswered_since is not None and now - self._unanswered_since > self._lease_s:
            # It answers nothing, so it would not hear of a stop either; its death is the death of its tools.
            self._tell_gone("unresponsive")
            self._kill_process()
            return
        self._unanswered_since = self._unanswered_since or now
        self.send({"op": "renew", "began": began})

    def _on_frame(self, header: Header, body: bytes) -> None:
        match header["op"]:
            case "hello":
                self.isolation, self.mode = str(header["isolation"]), str(header["mode"])
                if not self._hello.done():
                    self._hello.set_result(None)
            case "marked":
                self._loop.call_soon(self._on_marked, [str(turn) for turn in header["turns"]])
            case "renewed":
                self._unanswered_since = None
            case "lapsed":
                self._end()
                self._tell_gone("lapsed")
            case "closed":
                self._end()
            case "survivors_ended":
                if self._on_survivors_ended:
                    ended = processes_from_json(header["ended"])
                    news = SurvivorsNews(header["session"], header["loop"], header["turn"], header["call"], ended)
                    self._loop.call_soon(self._on_survivors_ended, news)
            case _ if (call := self._calls.get(header.get("key", 0))) and call.hear(header, body):
                del self._calls[header["key"]]

    def _on_closed(self) -> None:
        error = WardenError("the warden is gone")
        if not self._hello.done():
            self._hello.set_exception(WardenError("the warden ended before it was ready"))
        for call in self._calls.values():
            call.fail(error)
        self._calls.clear()
        self._end()
        self._tell_gone("ended")

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _tell_gone(self, reason: str) -> None:
        if not self._gone_told:
            self._gone_told = True
            self._loop.call_soon(self._on_gone, reason)

    def _kill_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _launch(sock: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the process with what it needs to run and to reach PostgreSQL, and nothing else of our environment."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "STEERWEB_ISOLATION")
    env = {name: value for name, value in os.environ.items() if name in kept or name.startswith("PG")}
    if _ROOT.name not in ("site-packages", "dist-packages"):
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), env.get("PYTHONPATH")]))
    env["STEERWEB_WARDEN_FD"] = str(sock.fileno())
    return subprocess.Popen(
        [sys.executable, "-m", "steerweb", "warden"],
        env=env,
        stdin=subprocess.DEVNULL,
        pass_fds=(sock.fileno(),),
        # Ctrl-C at a terminal is for the worker; the warden ends with it.
        start_new_session=True,
    )
