"""A worker of the tests' own: starts a warden and one call, renews the lease, and takes what is done to it.

`python -m tests.worker.warden_worker WORKER DATABASE FOLDER TURN LEASE_S COMMAND`; prints one line when all of it runs.
"""

import asyncio
import sys
from uuid import uuid4

from sessions_app.worker.warden.client import Warden
from sessions_app.worker.warden.shapes import CallSpec, Patience


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def main() -> None:
    worker, database, folder, turn, lease_s, command = sys.argv[1:]
    warden = await Warden.start(
        worker,
        database,
        float(lease_s),
        on_marked=lambda turns: None,
        on_gone=lambda reason: _say(f"gone {reason}"),
        patience=Patience(grace_s=0.3),
        poll_s=0.2,
    )
    spec = CallSpec("call_1", turn, str(uuid4()), str(uuid4()), 3, ("sh", "-c", command), folder)
    await warden.start_call(spec, lambda data: None)
    _say(f"ready {warden.pid}")
    while True:
        await asyncio.sleep(0.1)
        warden.renew()


if __name__ == "__main__":
    asyncio.run(main())
