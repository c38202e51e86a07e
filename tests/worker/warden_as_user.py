"""Run by test_warden_users.py as another user: one tree that tries to get away, stopped; prints what became of it."""

import asyncio
import json
import sys
from pathlib import Path

from sessions_app.worker.warden.census import kill_marked
from sessions_app.worker.warden.shapes import Patience
from tests.support.waiting import wait_until_async
from tests.worker.wardens import ESCAPE, ESCAPED, alive, guarded, new_token


async def _started(token: str) -> bool:
    return len(alive(token)) == ESCAPED


async def main() -> None:
    token = new_token()
    async with guarded(Path(sys.argv[1]), patience=Patience(0.3)) as ward:
        call = await ward.sh("id -u; " + ESCAPE.format(token=token))
        await wait_until_async(lambda: _started(token), "the tree")
        end = await call.stop()
        stopped = {"alive": alive(token), "ended": len(end.ended), "surviving": len(end.surviving)}
        await ward.sh(ESCAPE.format(token=token))
        await wait_until_async(lambda: _started(token), "the second tree")
        killed = await asyncio.to_thread(kill_marked, ward.worker)
        swept = {"alive": alive(token), "ended": len(killed.ended), "surviving": len(killed.surviving)}
    print(json.dumps({"mode": ward.warden.mode, "output": ward.text(), "stopped": stopped, "swept": swept}))


if __name__ == "__main__":
    asyncio.run(main())
