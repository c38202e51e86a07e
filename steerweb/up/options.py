"""The options of `steerweb up`."""

from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from steerweb import runtime

DEFAULT_PORT = 8000


@dataclass(frozen=True, slots=True)
class Options:
    """What `up` was asked for; `url` is without a slash at its end, port 0 means any free one."""

    host: str
    port: int
    data: Path
    workers: int
    lan: bool
    url: str | None


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise ArgumentTypeError(f"{text!r} is not a number of workers (1 to 64)")
    return int(text)


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ArgumentTypeError(f"{text!r} is not an address such as https://steer.example.org")
    return f"{parts.scheme}://{parts.netloc}"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options on a parser."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="default: %(default)s; 0 takes any free one")
    parser.add_argument(
        "--data", type=Path, help="where everything is kept (default: STEERWEB_DATA, else ~/.local/share/steerweb)"
    )
    parser.add_argument("--workers", type=_workers, default=1, metavar="N", help="worker processes (default: 1)")
    parser.add_argument("--lan", action="store_true", help="reachable from a phone in the same network")
    parser.add_argument("--url", type=_url, help="the address people use, when a proxy or tunnel leads here")


def from_namespace(values: dict[str, Any]) -> Options:
    """The options from parsed values."""
    data: Path = values["data"] or runtime.data_dir()
    host = values["host"]
    if values["lan"] and host == "127.0.0.1":
        host = "0.0.0.0"  # noqa: S104  (this is what --lan asks for)
    return Options(host, values["port"], data.expanduser().absolute(), values["workers"], values["lan"], values["url"])


def parse(argv: list[str]) -> Options:
    """The options from a command line."""
    parser = ArgumentParser(
        prog="steerweb up",
        description="Start everything on this machine: PostgreSQL, Valkey, web and worker. Ctrl-C stops all of it.",
        epilog="DATABASE_URL and REDIS_URL name servers to use instead of starting some.",
    )
    add_arguments(parser)
    return from_namespace(vars(parser.parse_args(argv)))
