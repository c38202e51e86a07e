"""The warden process: `python -m steerweb warden`, started by a worker with one end of a socket pair.

It kills when it hears of a mark or of a kill order (E13), when the worker asks, when the worker is dead (the socket
says so) and when the lease was not renewed in time by its own monotonic clock, which may only shorten a lease (A7). It
imports no Django and keeps no secret where a tool could read it: the database's address comes over the socket, not in
its environment.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from typing import Final

from sessions_app.log import secrets
from sessions_app.worker.warden.bell import hear_stops
from sessions_app.worker.warden.custody import Custody
from sessions_app.worker.warden.isolation import Isolation, choose
from sessions_app.worker.warden.link import Link
from sessions_app.worker.warden.reports import Reporter
from sessions_app.worker.warden.shapes import KilledBy, Patience
from sessions_app.worker.warden.spawn import adopt_orphans, keep_private
from sessions_app.worker.warden.wire import Header

REPORT_FOR_S: Final = 15.0
"""How long a warden that has to go tries to write its reports while PostgreSQL is down."""
REPORT_AT_CLOSE_FOR_S: Final = 5.0
MARGIN_S: Final = 0.5


class Warden:
    """Wires the parts together; `run()` is over when there is nothing left to guard."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._link = Link(self._on_frame, self._on_worker_gone, self._on_room)
        self._over: asyncio.Future[tuple[str, KilledBy]] = asyncio.get_running_loop().create_future()
        self._custody: Custody | None = None
        self._reporter: Reporter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._alive_for_s = 0.0
        self._renewed_at = time.monotonic()

    async def run(self, sock: socket.socket) -> None:
        """Serve the worker until it dies or the lease lapses; then kill, tell, report."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        # A shutdown comes through the worker, which may still need its tools to hand over (J4).
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(ignored, lambda: None)
        await self._link.open(sock)
        self._link.send({"op": "hello", "isolation": self._isolation.words, "mode": self._isolation.mode})
        reason, by = await self._over
        if self._custody is None or self._reporter is None:
            return
        await self._custody.end_all(reason, by)
        self._link.send({"op": "lapsed" if by == "lapse" else "closed"})
        if not await self._reporter.finish(REPORT_FOR_S if reason != "worker_closed" else REPORT_AT_CLOSE_FOR_S):
            sys.stderr.write("warden: PostgreSQL stayed away; what was killed could not be reported\n")

    def _on_frame(self, header: Header, _body: bytes) -> None:
        match header["op"]:
            case "close":
                self._end("worker_closed", "worker")
            case "config":
                self._configure(header)
            case "secrets":
                secrets.learn(map(str, header["values"]))
            case "renew":
                self._renew(float(header["began"]))
            case "start" if self._custody:
                self._lapse_if_due()
                self._custody.start(header)
            case "kill" if self._custody:
                self._custody.kill(int(header["key"]))
            case "keep" if self._custody:
                self._custody.keep(int(header["key"]))
            case "confirmed" if self._custody:
                self._custody.confirmed(int(header["key"]))

    def _configure(self, header: Header) -> None:
        worker, url = str(header["worker"]), str(header["database_url"])
        patience, lease_s = Patience(**header["patience"]), float(header["lease_s"])
        # Everything is to be dead when the lease is over, so the killing begins a grace earlier.
        self._alive_for_s = max(lease_s - patience.grace_s - MARGIN_S, lease_s / 2)
        # Not the time of reading this: a warden that was frozen meanwhile has less of the lease left.
        self._renewed_at = min(float(header["began"]), time.monotonic())
        self._reporter = Reporter(worker, url)
        self._custody = Custody(worker, self._isolation, patience, self._link, self._reporter)
        self._listening = asyncio.get_running_loop().create_task(
            hear_stops(worker, url, float(header["poll_s"]), self._custody.mark, self._custody.kill_kept)
        )
        self._watch_lease()

    def _renew(self, began: float) -> None:
        """The worker's heartbeat was accepted; it began at `began` on this host's monotonic clock."""
        self._lapse_if_due()
        self._renewed_at = max(self._renewed_at, min(began, time.monotonic()))
        self._link.send({"op": "renewed"})

    def _watch_lease(self) -> None:
        self._lapse_if_due()
        if not self._over.done():
            wait_s = max(self._renewed_at + self._alive_for_s - time.monotonic(), 0.01)
            asyncio.get_running_loop().call_later(wait_s, self._watch_lease)

    def _lapse_if_due(self) -> None:
        """Also looked at before anything is started: a warden that was frozen itself wakes with old requests."""
        if not self._over.done() and time.monotonic() >= self._renewed_at + self._alive_for_s:
            self._end("lease_lapsed", "lapse")

    def _on_worker_gone(self) -> None:
        self._end("worker_died", "worker")

    def _end(self, reason: str, by: KilledBy) -> None:
        if not self._over.done():
            self._over.set_result((reason, by))
            if self._custody:
                self._custody.close(reason)

    def _on_room(self) -> None:
        if self._custody:
            self._custody.room()

    def _reap(self) -> None:
        """Reap every child that has ended, adopted ones too."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._custody:
                    self._custody.reaped(pid, status)


async def _run(sock: socket.socket, isolation: Isolation) -> None:
    await Warden(isolation).run(sock)


def main() -> None:
    """Run a warden on the socket whose descriptor is in STEERWEB_WARDEN_FD."""
    if "STEERWEB_WARDEN_FD" not in os.environ:
        sys.stderr.write("warden: started by a worker, for itself; there is nothing to do here without one\n")
        raise SystemExit(2)
    sock = socket.socket(fileno=int(os.environ.pop("STEERWEB_WARDEN_FD")))
    sock.set_inheritable(False)
    try:
        isolation = choose(os.environ.get("STEERWEB_ISOLATION"))
    except ValueError as error:
        sys.stderr.write(f"warden: {error}\n")
        raise SystemExit(2) from error
    adopt_orphans()
    keep_private()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_run(sock, isolation))
    sys.stderr.flush()
    # Not the interpreter's way out: that waits for a query of a server that may be frozen.
    os._exit(0)
