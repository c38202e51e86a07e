"""Addresses: the listening socket, this machine's address in its network, and whether an address leads to us."""

import errno
import json
import os
import socket
import urllib.error
import urllib.request
from contextlib import closing
from http.client import HTTPException

from steerweb.services.errors import ServiceError


def bind(host: str, port: int) -> socket.socket:
    """The listening socket, taken before anything starts and handed to each web process in turn.

    So nobody else can take the port meanwhile, and a page that asks while the web process restarts waits instead of
    being refused. ServiceError with one sentence where it cannot be had.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(256)
    except OSError as problem:
        raise ServiceError(_bind_sentence(problem, host, port)) from problem
    return listener


def _bind_sentence(problem: OSError, host: str, port: int) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"Port {port} is taken by another program; choose another one, such as --port {port % 65535 + 1}."
    if problem.errno == errno.EACCES:
        return f"Port {port} is reserved for the system; choose one above 1023, such as --port 8000."
    if problem.errno == errno.EADDRNOTAVAIL or isinstance(problem, socket.gaierror):
        return f"{host} is no address of this machine; leave --host out, or use --lan."
    return f"Cannot listen on {host}:{port}: {problem.strerror or problem}."


def in_brackets(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def local_host(host: str) -> str:
    """The host by which this machine reaches a socket that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (names, nothing is bound)


def lan_address() -> str | None:
    """This machine's address in its network, None where it is in none; nothing is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address of no host: only the route's own end is asked for
            found = str(probe.getsockname()[0])
        except OSError:
            return None
    return None if found.startswith(("127.", "0.")) else found


def why_not_ours(url: str, instance: str, timeout_s: float = 5, *, direct: bool = True) -> str | None:
    """None when `url` leads to this very instance, else why not, in words that follow "it".

    `direct` ignores a proxy of the environment, as for addresses of this machine and its network.
    """
    handlers = [urllib.request.ProxyHandler({})] if direct else []
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(f"{url}/health/live", headers={"User-Agent": f"steerweb-up/{os.getpid()}"})  # noqa: S310
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            told = json.load(answer)
    except urllib.error.HTTPError as problem:
        return f"answers with the status {problem.code} instead of ours"
    except urllib.error.URLError as problem:
        return f"does not answer ({problem.reason})"
    except (OSError, HTTPException) as problem:
        return f"does not answer ({problem})"
    except ValueError:
        return "answers, but another program does"
    if not isinstance(told, dict) or told.get("instance") != instance:
        return "answers, but another program or another steerweb does"
    return None
