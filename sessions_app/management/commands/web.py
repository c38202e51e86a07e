"""`steerweb web`: one web process, Daphne on the ASGI application."""

import asyncio
import threading
from argparse import ArgumentParser
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

LARGEST_FRAME: Final = 8 * 1024 * 1024
PING_EVERY_S, PING_TIMEOUT_S = 20, 30
FAREWELL_S: Final = 3.0


class Command(BaseCommand):
    help = "run one web process"
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="default: %(default)s")
        parser.add_argument("--fd", type=int, help="a listening IPv4 socket to use instead (up hands one over)")

    def handle(self, *_args: Any, **options: Any) -> None:
        if settings.SECRET_KEY.startswith("ephemeral-"):
            raise CommandError("Set STEERWEB_SECRET_KEY: every web process signs cookies with the same key.")
        # Before anything else of Twisted: this import installs the asyncio reactor.
        from daphne.endpoints import build_endpoint_description_strings
        from daphne.server import Server

        from sessions_app.worker.sweep import Sweep
        from steerweb.asgi import application
        from steerweb.bodies import bound

        bound()
        # Every web process sweeps too: dead workers' turns end also where no worker lives (J3).
        threading.Thread(target=Sweep().run, name="sweep", daemon=True).start()

        class Web(Server):  # type: ignore[misc]  # daphne publishes no types
            def kill_all_applications(self) -> Any:
                """End the open sockets' applications, within a bound (Daphne's own waits for each without one)."""
                from twisted.internet import defer

                tasks = [details.get("application_instance") for details in self.connections.values()]
                pending = [task for task in tasks if task is not None and not task.done()]
                for task in pending:
                    task.cancel()
                if not pending:
                    return None
                ended = asyncio.ensure_future(asyncio.wait(pending, timeout=FAREWELL_S))
                return defer.Deferred.fromFuture(ended)

        if options["fd"] is not None:
            endpoints = build_endpoint_description_strings(file_descriptor=options["fd"])
        else:
            endpoints = build_endpoint_description_strings(host=options["host"], port=options["port"])
        Web(
            application=application,
            endpoints=endpoints,
            server_name="steerweb",
            ping_interval=PING_EVERY_S,
            ping_timeout=PING_TIMEOUT_S,
            websocket_timeout=-1,  # Daphne's default closes sockets that are a day old
            websocket_max_message_size=LARGEST_FRAME,
            websocket_max_frame_size=LARGEST_FRAME,
            proxy_forwarded_address_header=None,  # nobody is believed about where a request came from
            proxy_forwarded_port_header=None,
            proxy_forwarded_proto_header=None,
            verbosity=0,
        ).run()
