"""A task that comes twice, late or never (J1): two workers, and the lease decides."""

import pytest
import redis

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


@pytest.mark.rule("J1", "J3", "B2")
@pytest.mark.scenario("D32")
def test_a_task_behind_a_long_turn_is_not_held_back_and_runs_once_elsewhere(
    make_stack: MakeStack, server: ModelServer, redis_url: str
) -> None:
    """No worker keeps a task: each is acknowledged at once, so that no visibility timeout can ever run out on one."""
    stack = make_stack(webs=0, workers=1, env={**server.environ(), "STEERWEB_TURNS": "1"})
    server.handler = lambda seen: (
        [call("shell", command="echo run >> ran; until [ -e go ]; do sleep 0.05; done")]
        if seen.last.text == "long"
        else [say("Done.")]
    )
    long, short = Running.create(), Running.create()
    loops = {session.id: str(session.events("LoopStarted")[0].loop) for session in (long, short)}
    long.submit("long")
    wait_until(lambda: long.size("ran") > 0, "the long turn's command")
    short.submit("short")
    for session in (long, short):
        for _ in range(20):
            offers.offer_now(session.id, loops[session.id])
    offers._sender.submit(lambda: None).result(60)  # all of them are sent
    with redis.Redis.from_url(redis_url) as broker:
        wait_until(lambda: not broker.llen("celery") and not broker.hlen("unacked"), "all tasks taken and acknowledged")
    assert short.count("TurnStarted") == 0, "its worker has no place for it"
    stack.start_worker()
    short.until("TurnDone")
    assert long.count("TurnDone") == 0, "it did not wait for the long one"
    long.file("go").touch()
    long.until("TurnDone")
    for session in (long, short):
        offers.offer_now(session.id, loops[session.id])
        session.until_idle()
        assert session.count("TurnStarted") == session.count("TurnDone") == 1
    assert long.file("ran").read_text() == "run\n"
    assert long.events("TurnStarted")[0].data["worker"] != short.events("TurnStarted")[0].data["worker"]
    assert len(server.requests) == 3
