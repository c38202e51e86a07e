"""A task that comes twice, late or never (J1): two workers, and the lease decides."""

import pytest

from sessions_app.control import offers
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, call, say
from tests.support.running import Running
from tests.support.waiting import wait_until


@pytest.mark.rule("J1", "B2")
@pytest.mark.scenario("D32")
def test_a_task_delivered_again_and_again_runs_its_turn_once(make_stack: MakeStack) -> None:
    with ModelServer() as server:
        make_stack(webs=0, workers=2, env=server.environ())
        sessions = [Running.create() for _ in range(4)]
        replies = [call("shell", command="echo run >> ran; until [ -e go ]; do sleep 0.05; done")]
        server.handler = lambda seen: [say("Done.")] if seen.last.role == "tool" else replies
        for session in sessions:
            session.submit("Go.")
        loops = {session.id: str(session.events("LoopStarted")[0].loop) for session in sessions}
        for session in sessions:
            wait_until(lambda session=session: session.size("ran") > 0, "its command")  # type: ignore[misc]
            for _ in range(20):
                offers.offer_now(session.id, loops[session.id])
        for session in sessions:
            session.file("go").touch()
        for session in sessions:
            session.until("TurnDone")
            offers.offer_now(session.id, loops[session.id])
            assert session.count("TurnStarted") == 1
            assert session.file("ran").read_text() == "run\n"
        assert len(server.requests) == 2 * len(sessions)
        assert server.violations == []
