"""The HTTP client of the terminal commands: where the server is, who asks, and failures in one clear sentence."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from sessions_app.engine.files import FILE_BYTES
from steerweb import runtime

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
DEADLINE: Final = 4
INTERRUPTED: Final = 130

CONNECT_S: Final = 5.0
ANSWER_S: Final = 20.0
PAGE: Final = 100


class Failure(Exception):
    """A command that did not do what was asked: one sentence, the exit code, the server's problem if it sent one."""

    def __init__(self, sentence: str, exit_code: int, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Address:
    """Where to ask and as whom."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What every request and handshake carries. The agent's name makes the device a command line (A5)."""
        agent = f"steerweb-cli ({platform.node() or 'terminal'})"
        return {"Authorization": f"Bearer {self.token}", "User-Agent": agent}

    def socket(self, path: str) -> str:
        """The websocket address of `path`."""
        return self.url.replace("http", "ws", 1) + path


def find_address(url: str | None, token: str | None) -> Address:
    """The address from options, else STEERWEB_URL and STEERWEB_TOKEN, else the record of a running `up`."""
    found = url or os.environ.get("STEERWEB_URL") or _recorded_url()
    if not found:
        raise Failure(
            f"No steerweb runs on {runtime.data_dir()}: start one with `steerweb up`, "
            "or name one with --url or STEERWEB_URL.",
            USAGE,
        )
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Failure(f"{found!r} is not an address like http://127.0.0.1:8000.", USAGE)
    secret = token or os.environ.get("STEERWEB_TOKEN")
    if not secret:
        raise Failure(
            "No token: make one with `steerweb token create --user NAME --name LABEL`, "
            "and pass it in STEERWEB_TOKEN or with --token.",
            USAGE,
        )
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise Failure("The token holds characters no token has; was more than the token pasted?", USAGE)
    return Address(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", secret)


def _recorded_url() -> str | None:
    record = runtime.read_record()
    return record.web_url if record else None


class Client:
    """The REST doors. Every method answers decoded JSON or raises `Failure`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._http = httpx.Client(
            base_url=f"{address.url}/api/v1",
            headers=address.headers,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params={name: value for name, value in query.items() if value is not None})

    def post(self, path: str, body: Mapping[str, Any], command: str, *, wait_s: float = 0) -> Any:
        """A command. `command` is its id (A4); `wait_s` is added to the time the answer may take."""
        fields = {name: value for name, value in body.items() if value is not None}
        timeout = httpx.Timeout(ANSWER_S + wait_s, connect=CONNECT_S)
        return self._ask("POST", path, json=fields, headers={"Idempotency-Key": command}, timeout=timeout)

    def upload(self, session: str, paths: Iterable[str]) -> list[str] | None:
        """Upload files for a message of the session: their ids, None for none."""
        sent = []
        for path in paths:
            content = _content(Path(path))
            answer = self._ask("POST", f"/sessions/{session}/files", files={"file": (Path(path).name, content)})
            sent.append(answer["id"])
        return sent or None

    def items(self, path: str, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
        """Up to `limit` items of a list, page after page."""
        cursor: str | None = None
        while limit > 0:
            page = self.get(path, cursor=cursor, limit=min(limit, PAGE), **query)
            yield from page["items"][:limit]
            limit -= len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TimeoutException as exc:
            raise Failure(f"{self.address.url} did not answer in time.", UNREACHABLE) from exc
        except httpx.HTTPError as exc:
            raise Failure(f"{self.address.url} cannot be reached: {_reason(exc)}.", UNREACHABLE) from exc
        if response.is_success:
            return self._decoded(response)
        raise self._failure(response)

    def _decoded(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as exc:
            sentence = f"{self.address.url} answers, but not as steerweb does; is the address right?"
            raise Failure(sentence, UNREACHABLE) from exc

    def _failure(self, response: httpx.Response) -> Failure:
        try:
            problem = response.json()
            code, detail = str(problem["code"]), str(problem["detail"])
        except (ValueError, KeyError, TypeError):
            return Failure(f"{self.address.url} answered {response.status_code} without a reason.", UNREACHABLE)
        return failure_of(code, detail, problem)


def _content(path: Path) -> bytes:
    """What is in a file that may be sent; a device or a pipe might never end, so neither is opened."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise Failure(f"{path} cannot be sent: it is no ordinary file.", USAGE)
        if size > FILE_BYTES:
            raise Failure(f"{path} has {size:,} bytes; at most {FILE_BYTES:,} can be sent.", USAGE)
        with path.open("rb") as file:
            return file.read(FILE_BYTES + 1)  # it may have grown: the server says so
    except OSError as exc:
        raise Failure(f"{path} cannot be read: {exc.strerror or exc}.", USAGE) from exc


def failure_of(code: str, detail: str, problem: Mapping[str, Any] | None = None) -> Failure:
    """The failure a problem's code stands for, its exit code by the code alone."""
    exit_code = {"deadline": DEADLINE, "unavailable": UNREACHABLE}.get(code, REFUSED)
    if code == "unauthenticated":
        detail = "The token is not valid (any more)."
    return Failure(detail, exit_code, problem)


def _reason(exc: httpx.HTTPError) -> str:
    return (str(exc) or type(exc).__name__).rstrip(".")
