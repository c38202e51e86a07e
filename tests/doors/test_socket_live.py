"""A session's socket over a real web process: replay, commands, text on two processes, presence, the list (D16-D19)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sessions_app import control
from sessions_app.control import transact
from sessions_app.control.transact import Order
from sessions_app.engine import commands
from sessions_app.ids import new_id
from sessions_app.log import bell, read, stream
from sessions_app.log.stream import Piece
from tests.conftest import MakeStack
from tests.doors.callers import token_of
from tests.support.sockets import Socket, opened
from tests.support.stack import Stack
from tests.support.world import World, person


@pytest.fixture
def token(world: World) -> str:
    return token_of("ana")


@pytest.fixture
async def ana(web: Stack, world: World, token: str) -> AsyncIterator[Socket]:
    async with opened(web.url, path(world), token=token) as socket:
        yield await socket.live()


def path(world: World, **query: Any) -> str:
    return f"/ws/sessions/{world.session}/?" + "&".join(f"{name}={value}" for name, value in query.items())


def observe(world: World, name: str = "kim") -> str:
    """The token of a new observer."""
    person(name)
    control.set_member(world.owner, world.session, new_id(), person=name, role="observer")
    return token_of(name)


def delta(world: World, offset: int, text: str, kind: str = "text") -> None:
    frame = {"t": "delta", "loop": world.loop, "turn": world.turn, "step": world.step, "attempt": 1, "kind": kind}
    bell.delta(world.session, {**frame, "offset": offset, "text": text})


def save(world: World, text: str) -> None:
    stream.save([Piece(world.session, world.loop, world.turn, world.step, 1, "text", text)])


@pytest.mark.rule("A7", "L1")
@pytest.mark.scenario("D36")
async def test_hello_says_who_and_where_one_is_then_the_log_follows(web: Stack, world: World, token: str) -> None:
    world.start("what runs")
    async with opened(web.url, path(world), token=token) as socket:
        await socket.live()
    hello = socket.frames[0]
    assert (hello["t"], hello["protocol"], hello["head"]) == ("hello", 1, 5)
    assert (hello["session"]["id"], hello["session"]["title"]) == (world.session, "A test")
    assert hello["you"]["role"] == "owner"
    assert {"submit", "steer", "interrupt"} <= set(hello["you"]["can"])
    [phase] = hello["live"]["phases"]
    assert (phase["loop"], phase["turn"], phase["phase"]) == (world.loop, world.turn, "model")
    assert hello["live"]["steps"] == []
    assert [who["name"] for who in hello["live"]["presence"]] == ["ana via test"]
    assert abs((datetime.fromisoformat(hello["now"]) - datetime.now(UTC)).total_seconds()) < 60
    assert [frame["t"] for frame in socket.frames[1:7]] == ["event"] * 5 + ["caught_up"]
    assert socket.frames[6] == {"t": "caught_up", "seq": 5}


@pytest.mark.rule("L1", "L4")
async def test_frames_are_byte_for_byte_those_of_the_log_for_each_audience(
    web: Stack, world: World, token: str, ana: Socket
) -> None:
    watcher = observe(world)
    world.start("hello")
    async with opened(web.url, path(world), token=watcher) as kim:
        await kim.live()
        world.plan("a", text="I run a")
        world.start_tool("a")
        world.settle("a", output="done")
        world.answer("all done")
        last = world.events()[-1].seq
        for socket in (ana, kim):
            await socket.until_seq(last)
    for socket, audience in ((ana, "member"), (kim, "observer")):
        sent = [text for text in socket.raw if text.startswith('{"t":"event"')]
        assert sent == [frame.decode() for frame in read.events(world.session, audience=audience)]  # type: ignore[arg-type]
    assert kim.events("MemberChanged")[0]["data"] == {}
    assert "instructions" not in kim.events("LoopStarted")[0]["data"]


@pytest.mark.rule("A4", "D9")
@pytest.mark.scenario("D17")
async def test_commands_are_acknowledged_when_durable_and_a_repeated_one_lands_once(world: World, ana: Socket) -> None:
    sent = new_id()
    first = await ana.ask("submit", text="once", id=sent)
    again = await ana.ask("submit", text="once", id=sent)
    assert first == again
    assert (first["t"], first["id"], first["result"]["position"]) == ("ack", sent, 0)
    reused = await ana.ask("submit", text="something else", id=sent)
    assert (reused["t"], reused["code"]) == ("error", "command_id_reused")
    assert world.claim()
    world.begin()
    steer = await ana.ask("steer", text="left")
    assert steer["result"]["lands"]["when"] == "safe_point"
    await ana.until_event("SteerQueued")
    assert [event["cause"] for event in ana.events("InputQueued")] == [sent]
    assert len(ana.events("InputQueued")) == 1


@pytest.mark.rule("B4", "D8", "E3")
async def test_every_verb_of_the_socket_reaches_its_command(world: World, ana: Socket) -> None:
    async def result(verb: str, **fields: Any) -> dict[str, Any]:
        answer = await ana.ask(verb, **fields)
        assert answer["t"] == "ack", answer
        found: dict[str, Any] = answer["result"]
        return found

    world.start()
    waiting = (await result("submit", text="later"))["input"]
    await result("edit", input=waiting, text="much later")
    steer = (await result("steer", text="left", urgent=True))["steer"]
    await result("edit", steer=steer, text="right")
    await result("withdraw", steer=steer)
    promoted = (await result("submit", text="sooner"))["input"]
    await result("edit", input=promoted, promote="normal")
    assert (await result("retract", input=waiting))["retracted"] is True
    held = (await result("submit", text="held"))["input"]
    stopped = await result("interrupt", reason="wrong branch", queue="hold", wait=10)
    assert (stopped["accepted"], stopped["joined"], stopped["turns"]) == (True, False, [world.turn])
    joined = await result("interrupt")
    assert (joined["joined"], joined["turns"]) == (True, [world.turn])
    world.end()
    await ana.until_event("InputHeld")
    await result("release", inputs=[held])
    await ana.until_event("InputReleased")
    idle = await ana.ask("interrupt", turn=world.turn)
    assert (idle["result"]["turns"], idle["result"]["note"]) == ([], "turn_over")


@pytest.mark.rule("A6", "M")
@pytest.mark.scenario("D49")
async def test_bad_frames_are_answered_and_cost_nobody_the_connection(
    web: Stack, world: World, token: str, ana: Socket
) -> None:
    other = new_id()
    await ana.connection.send("nonsense")
    await ana.connection.send(b"\x00\x01")
    await ana.connection.send(f'{{"t":"submit","id":"{other}","text":"x","extra":1}}')
    await ana.until(lambda: len(ana.of("error")) == 3, "three errors")
    assert [(frame["code"], frame.get("id")) for frame in ana.of("error")] == [
        ("invalid", None), ("invalid", None), ("invalid", other),
    ]  # fmt: skip
    assert (await ana.ask("submit", text=" \n"))["code"] == "blank"
    assert (await ana.ask("submit", text="x" * 900_000))["t"] == "ack"
    refused = await ana.ask("submit", text="x" * 1_200_000)
    assert (refused["code"], refused["data"]["size"]) == ("too_large", 1_200_000)
    async with opened(web.url, path(world), token=token) as second:
        await second.live()
        await second.connection.send("x" * 9_000_000)
        assert await second.closed() == 1009
    await ana.connection.send(f'{{"t":"submit","id":"{new_id()}","text":"half \\ud83d"}}')
    halved = await ana.until_event("InputQueued", 2)  # as a browser sends half an emoji: admitted, visibly replaced
    assert (halved["data"]["text"], halved["data"]["replaced"]) == ("half \ufffd", True)


@pytest.mark.rule("L1")
@pytest.mark.scenario("D16")
async def test_a_resume_sends_only_what_is_newer_however_long_the_session(web: Stack, world: World, token: str) -> None:
    for _ in range(120):
        control.retract_input(world.owner, world.session, new_id(), world.submit("text " * 40))
    last = world.events()[-1].seq
    async with opened(web.url, path(world, after=last - 10), token=token) as socket:
        await socket.live()
        assert socket.seqs() == list(range(last - 9, last + 1))
        world.submit("newer")
        await socket.until(lambda: socket.seqs()[-1] == last + 1, "the newer event")
        assert len(socket.raw) < 25
    async with opened(web.url, path(world), token=token) as socket:
        await socket.live()
        assert socket.seqs() == list(range(1, last + 2))
    async with opened(web.url, path(world, after=10**12), token=token) as socket:
        await socket.live()
        assert (socket.seqs(), socket.of("caught_up")) == ([], [{"t": "caught_up", "seq": last + 1}])
    async with opened(web.url, path(world, after="-1"), token=token) as socket:
        assert await socket.closed() == 1002
        assert socket.of("error")[0]["code"] == "invalid"


@pytest.mark.rule("A1", "L1")
@pytest.mark.scenario("D18")
async def test_a_writer_that_commits_late_is_never_skipped(web: Stack, world: World, token: str, ana: Socket) -> None:
    world.start()
    inside = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow_steer() -> None:
        def hold(*_: object) -> None:
            loop.call_soon_threadsafe(inside.set)
            threading.Event().wait(0.5)  # the writer has its number and has not committed

        steer = commands.SendSteer(new_id(), "slow")
        order = Order(world.session, steer, world.owner.key, new_id(), "slow", lambda cur: world.owner.actor)
        transact.execute(order, hold)

    slow = asyncio.create_task(asyncio.to_thread(slow_steer))
    await inside.wait()
    quick = asyncio.create_task(asyncio.to_thread(world.steer, "quick"))
    async with opened(web.url, path(world, after=5), token=token) as polling:
        await polling.live()
        await asyncio.gather(slow, quick)
        for socket in (ana, polling):
            await socket.until_event("SteerQueued", 2)
            assert [event["data"]["text"] for event in socket.events("SteerQueued")] == ["slow", "quick"]
        assert ana.seqs() == list(range(1, 8))
        assert polling.seqs() == [6, 7]


@pytest.mark.rule("L1", "L2")
@pytest.mark.scenario("D19")
async def test_leaving_and_returning_in_mid_stream_shows_everything_on_any_web_process(
    make_stack: MakeStack, world: World, token: str
) -> None:
    stack = make_stack(webs=2, workers=0)
    other = World.create("ana")
    world.start()
    said = [f"word {number} \U0001f680 " for number in range(60)]
    whole = "".join(said)
    talking = asyncio.Event()

    async def talk() -> None:
        text = ""
        for number, word in enumerate(said):
            delta(world, len(text), word)
            text += word
            if number % 6 == 0:
                await asyncio.to_thread(save, world, text)
            if number == 20:
                talking.set()
            await asyncio.sleep(0.02)
        await asyncio.to_thread(save, world, text)

    async with opened(stack.urls[0], path(world), token=token) as first:
        await first.live()
        talk_task = asyncio.create_task(talk())
        async with opened(stack.urls[0], path(other), token=token) as away:  # A, B, and back to A
            await away.live()
        await talking.wait()
        async with (
            opened(stack.urls[0], path(world), token=token) as back,
            opened(stack.urls[1], path(world), token=token) as second,
        ):
            await talk_task
            for socket in (first, back, second):
                await socket.until_text(whole)
            world.answer(whole)
            for socket in (first, back, second):
                await socket.until_event("TurnDone")
                assert socket.events("StepDone")[0]["data"]["text"] == whole
    async with opened(stack.urls[1], path(world), token=token) as late:
        await late.live()
        assert late.of("hello")[0]["live"]["steps"] == []


@pytest.mark.rule("L5")
async def test_people_are_seen_across_web_processes_and_devices(
    make_stack: MakeStack, world: World, token: str
) -> None:
    stack, kims = make_stack(webs=2, workers=0), observe(world)

    def people(socket: Socket) -> list[tuple[str, str, int]]:
        shown = [frame["people"] for frame in socket.of("presence")] or [socket.of("hello")[0]["live"]["presence"]]
        return [(who["name"], who["role"], who["devices"]) for who in shown[-1]]

    async with opened(stack.urls[0], path(world), token=token) as ana:
        await ana.live()
        async with opened(stack.urls[1], path(world), token=kims) as kim:
            both = [("ana via test", "owner", 1), ("kim via test", "observer", 1)]
            await kim.live()
            await ana.until(lambda: people(ana) == people(kim) == both, "both people")
        await ana.until(lambda: people(ana) == both[:1], "kim gone")


@pytest.mark.rule("L5")
async def test_the_list_tells_of_ones_own_sessions_and_no_others(web: Stack, world: World, token: str) -> None:
    World.create("ben")
    async with opened(web.url, "/ws/", token=token) as ana, opened(web.url, "/ws/", token=token_of("kim")) as kim:
        await ana.until(lambda: ana.of("session"), "the list as it stands")
        assert [(row["id"], row["title"], row["state"]) for row in ana.of("session")] == [
            (world.session, "A test", "idle")
        ]
        world.start()
        await ana.until(lambda: ana.of("session")[-1]["state"] == "running", "its new state")
        async with opened(web.url, path(world), token=token) as watcher:
            await watcher.live()
            await ana.until(
                lambda: [who["name"] for who in ana.of("session")[-1]["people"]] == ["ana via test"], "who watches"
            )
        assert kim.of("session") == []
        observe(world)
        await kim.until(
            lambda: [row["id"] for row in kim.of("session")] == [world.session], "a session shared with her"
        )
        control.set_member(world.owner, world.session, new_id(), person="kim", role=None)
        gone = {"t": "session", "id": world.session, "gone": True}
        await kim.until(lambda: kim.of("session")[-1] == gone, "its loss")
        assert (await ana.ask("submit", text="x"))["code"] == "invalid"


@pytest.mark.rule("L4")
async def test_filters_of_the_address_choose_what_comes(web: Stack, world: World, token: str) -> None:
    world.start()
    async with (
        opened(web.url, path(world, types="TurnStarted,SteerQueued", live=0), token=token) as few,
        opened(web.url, path(world, loop=new_id(), live=world.loop), token=token) as session_only,
    ):
        await few.live()
        await session_only.live()
        delta(world, 0, "hello")
        world.steer("left")
        await session_only.until_text("hello")
        await few.until_event("SteerQueued")
    assert [event["type"] for event in few.events()] == ["TurnStarted", "SteerQueued"]
    assert (few.of("delta"), few.of("presence")) == ([], [])
    assert [event["type"] for event in session_only.events()] == ["SessionCreated", "MemberChanged"]
