"""Stops of process trees that try to get away, one after the other and side by side: no survivor (E7).

A run of the tests stops twenty in each way of keeping processes together; `STEERWEB_ESCAPES=1000` is the release's.
"""

import asyncio
import os
from pathlib import Path

import pytest

from sessions_app.worker.warden import procfs
from sessions_app.worker.warden.shapes import Patience
from tests.worker.wardens import ESCAPE, ESCAPED, MODES, Ward, alive, guarded, new_token, until

ESCAPES = int(os.environ.get("STEERWEB_ESCAPES", "20"))
AT_ONCE = 5
FORKER = """
trap '' TERM HUP INT QUIT
f() {{ (setsid sh -c 'trap "" TERM HUP; exec sleep {token}' &) ; }}
f; f; f; f
while :; do f; sleep 0.05; done
"""
"""Forks on for ever, each a session of its own, deaf to every signal one can be deaf to."""
CHAIN = """
link() {{
    (setsid sh -c '(sleep {token} &) ; (sleep {token} &) ; exec sleep {token}' </dev/null >/dev/null 2>&1 &)
}}
link; link
exec sleep {token}
"""
"""Double forks whose links leave before the next one is there, without input, output or terminal."""
FLOOD = """
trap '' PIPE TERM
(setsid sleep {token} &) ; (setsid sleep {token} &) ; (setsid sleep {token} &)
sleep {token} &
while :; do echo flood 2>/dev/null; done
"""
"""Writes without end, and does not end when nobody listens."""
TRICKS = (ESCAPE, FORKER, CHAIN, FLOOD)


@pytest.mark.rule("E7")
@pytest.mark.parametrize("mode", MODES)
async def test_no_tree_gets_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("STEERWEB_ISOLATION", mode)
    async with guarded(tmp_path, patience=Patience(0.1)) as ward:
        numbers = iter(range(ESCAPES))

        async def stop_in_turn() -> None:
            for number in numbers:
                await one(ward, TRICKS[number % len(TRICKS)])

        await asyncio.gather(*(stop_in_turn() for _ in range(AT_ONCE)))
        assert procfs.descendants(procfs.scan(), [ward.warden.pid]) == set()


async def one(ward: Ward, trick: str) -> None:
    token = new_token()
    call = await ward.sh(trick.format(token=token))
    await until(lambda: len(alive(token)) >= ESCAPED, "all of the tree", 60)
    end = await call.stop()
    assert (end.killed_by, end.surviving) == ("stop", [])
    assert alive(token) == [], "a process got away"
