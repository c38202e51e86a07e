"""What the tests of the warden and the tools share: a warden to talk to, trees that try to get away, and a census."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from sessions_app.worker.background import Background, BackgroundNews
from sessions_app.worker.tools.base import ToolContext
from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.client import Warden
from sessions_app.worker.warden.running import RunningCall
from sessions_app.worker.warden.shapes import CallSpec, Exit, Patience, SurvivorsNews
from tests.support.waiting import PATIENCE_S, wait_until_async

NOWHERE = "postgresql:///no_test_asked_for_a_database?host=/nonexistent"
MODES = ["namespace", "user-namespace", "marker"] if os.geteuid() == 0 else ["user-namespace", "marker"]
ESCAPE = """
(setsid sh -c 'exec sleep {token}' &)
(setsid sh -c '(sh -c "exec sleep {token}" &); exit 0' &)
sh -c 'trap "" TERM HUP INT; exec sleep {token}' &
(exec env -i /usr/bin/setsid sh -c 'exec >/dev/null 2>&1 </dev/null; exec /bin/sleep {token}' &)
wait
"""
"""One of every kind: a session of its own, a double fork, a deaf one, and one without marks, output or terminal."""
ESCAPED = 4
PATIENCE = Patience()


@dataclass
class Ward:
    """A warden with everything it ever said."""

    worker: str
    folder: Path
    marked: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    survivors_ended: list[SurvivorsNews] = field(default_factory=list)
    specs: list[CallSpec] = field(default_factory=list)
    news: list[BackgroundNews] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)
    on_output: Callable[[bytes], None] | None = None
    warden: Warden = field(init=False)
    background: Background = field(init=False)

    async def start(self, *argv: str, turn: str = "", timeout_s: float | None = None, **env: str) -> RunningCall:
        """Start a call whose output goes to `output`."""
        turn = turn or str(uuid4())
        spec = CallSpec("call_1", turn, str(uuid4()), str(uuid4()), 1, argv, str(self.folder), env, timeout_s)
        self.specs.append(spec)
        return await self.warden.start_call(spec, self.on_output or self.output.extend)

    async def sh(self, command: str, **options: Any) -> RunningCall:
        """Start a command line."""
        return await self.start("sh", "-c", command, **options)

    async def run(self, command: str, **options: Any) -> Exit:
        """Run a command line to its end."""
        return await (await self.sh(command, **options)).wait()

    def text(self) -> str:
        """All output so far."""
        return self.output.decode("utf-8", "replace")


@asynccontextmanager
async def guarded(
    folder: Path,
    database: str = NOWHERE,
    *,
    lease_s: float = 60,
    patience: Patience = PATIENCE,
    poll_s: float = 1.0,
) -> AsyncIterator[Ward]:
    """A warden of an own worker id; closed at the end, so nothing of it outlives the test."""
    ward = Ward(str(uuid4()), folder)
    ward.background = Background(ward.news.append)
    ward.warden = await Warden.start(
        ward.worker,
        database,
        lease_s,
        on_marked=ward.marked.extend,
        on_gone=ward.gone.append,
        on_survivors_ended=ward.survivors_ended.append,
        patience=patience,
        poll_s=poll_s,
    )
    try:
        yield ward
    finally:
        await ward.warden.aclose()


def tool_context(ward: Ward, emitted: list[str] | None = None) -> ToolContext:
    """A call in the ward's folder."""
    return ToolContext(
        workspace=ward.folder,
        call="call_1",
        turn=str(uuid4()),
        session=str(uuid4()),
        loop=str(uuid4()),
        epoch=1,
        warden=ward.warden,
        emit=(emitted if emitted is not None else []).append,
        stop=asyncio.Event(),
        scratch_home=ward.folder / "home",
        keeper=ward.background,
    )


def new_token() -> str:
    """A duration for `sleep` that no other process has: who carries it can be found by its command line."""
    return f"9{secrets.randbelow(10**8):08}.{secrets.randbelow(10**6):06}"


def alive(token: str) -> list[int]:
    """The pids of the living processes whose command line holds `token` as a word of its own."""
    own = os.getpid()
    return [pid for pid, stat in procfs.scan().items() if stat.alive and pid != own and _carries(pid, token)]


def _carries(pid: int, token: str) -> bool:
    try:
        return token.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


async def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for a condition while the loop goes on."""

    async def look() -> object:
        return condition()

    await wait_until_async(look, what, timeout_s)


def reports(database: str, worker: str) -> list[dict[str, Any]]:
    """The worker's rows of warden_report, oldest first."""
    query = "SELECT turn::text, call, epoch, processes, output, reason FROM warden_report WHERE worker = %s ORDER BY id"
    with psycopg.connect(database, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query, (worker,)).fetchall()


def mark(database: str, worker: str, turn: str, *, ring: bool = True) -> None:
    """Mark a turn as control does: the row and the bell in one transaction."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO turn_mark (turn, session, worker, request) VALUES (%s, %s, %s, %s)",
            (turn, uuid4(), worker, uuid4()),
        )
        if ring:
            payload = f'{{"session":"{uuid4()}","request":"{uuid4()}","turns":["{turn}"]}}'
            connection.execute("SELECT pg_notify('steerweb_stop', %s)", (payload,))
