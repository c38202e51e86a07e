"""Declared background processes with a real worker (E13): listed, killed, spared, and gone with their worker."""

import signal
from typing import Any

import pytest

from sessions_app import control
from sessions_app.engine.errors import Refused
from sessions_app.ids import new_id
from sessions_app.log import read
from tests.conftest import MakeStack
from tests.support.model_server import ModelServer, call, say
from tests.support.running import ENDLESS, Running
from tests.support.waiting import stays_true, wait_until
from tests.support.world import person


def serving(server: ModelServer) -> Running:
    """A session whose agent has started something endless in the background, and has answered."""
    server.script([call("shell", command=ENDLESS, background=True)], [say("It serves.")])
    session = Running.create()
    session.submit("Start it.")
    session.until("TurnDone")
    session.until_grows("f", "g")
    return session


def listed(session: Running) -> list[dict[str, Any]]:
    """What runs in the background of the primary loop, as everybody sees it."""
    (loop,) = read.snapshot(session.id)["state"]["loops"].values()
    return list(loop["background"])


@pytest.mark.rule("E13", "A5", "E7")
def test_it_outlives_its_turn_is_listed_and_ended_by_a_persons_button(
    make_stack: MakeStack, server: ModelServer
) -> None:
    make_stack(webs=0, env=server.environ())
    session = serving(server)
    settled = session.events("ToolSettled")[0]
    assert settled.data["outcome"] == "ok"
    assert len(settled.data["processes"]["background"]) > 1
    assert [each["call"] for each in listed(session)] == [settled.data["call"]]
    ben = person("ben")
    control.set_member(session.owner, session.id, new_id(), person=str(ben.person), role="owner")
    control.kill_processes(ben, session.id, new_id(), settled.data["call"])
    ended = session.until("ProcessesEnded")
    assert (ended.actor.name, ended.turn) == ("ben", settled.turn)
    assert len(ended.data["processes"]["ended"]) > 1
    stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
    assert listed(session) == []
    with pytest.raises(Refused) as refused:
        control.kill_processes(ben, session.id, new_id(), settled.data["call"])
    assert refused.value.code == "not_found"


@pytest.mark.rule("E13", "E3")
def test_a_stop_ends_it_with_the_turn_or_without_one_unless_it_is_to_be_kept(
    make_stack: MakeStack, server: ModelServer
) -> None:
    make_stack(webs=0, env=server.environ())
    session = serving(server)
    server.script([call("shell", command="sleep 600")])
    session.submit("And wait.")
    session.until("ToolStarted", 2)
    assert session.stop(keep_background=True)["stopped"]
    session.until_grows("f")
    assert len(listed(session)) == 1
    outcome = session.stop()
    assert (outcome["stopped"], outcome["note"]) == (False, "idle")
    stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
    assert session.events("ProcessesEnded")[0].actor.name == "ana"
    assert listed(session) == []


@pytest.mark.rule("E13", "J6")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_worker_and_the_log_says_so(
    make_stack: MakeStack, server: ModelServer, how: signal.Signals
) -> None:
    stack = make_stack(webs=0, env=server.environ())
    session = serving(server)
    stack.worker.send(how)
    assert stack.worker.wait(30)
    if how == signal.SIGKILL:
        stack.start_worker()  # whose sweep tells
    session.until("ProcessesEnded")
    stays_true(session.unchanged("f", "g"), "the files' sizes", 0.4)
    assert listed(session) == []


@pytest.mark.rule("E13")
def test_one_that_ends_by_itself_leaves_the_list(make_stack: MakeStack, server: ModelServer) -> None:
    make_stack(webs=0, env=server.environ())
    server.script(
        [call("shell", command="until [ -e go ]; do sleep 0.05; done; echo late", background=True)], [say("It waits.")]
    )
    session = Running.create()
    session.submit("Start it.")
    session.until("TurnDone")
    output = session.events("ToolSettled")[0].data["output"]
    session.file("go").touch()
    assert session.until("ProcessesEnded").actor.kind == "system"
    assert listed(session) == []
    path = next(word for word in output.split() if word.endswith((".log", ".log.", ".log,")))
    wait_until(lambda: "late" in session.file(path.rstrip(".,")).read_text(), "its late output")
