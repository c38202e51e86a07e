"""Who gets a socket: the origin, the credential, the session (D22, D23, D25)."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import psycopg
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from sessions_app import control
from sessions_app.ids import new_id
from sessions_app.models import Person
from sessions_app.people.accounts import suspend
from sessions_app.people.devices import sign_out_everywhere
from tests.doors.callers import token_of
from tests.support.people import signed_in
from tests.support.sockets import Socket, opened, ws
from tests.support.stack import Stack
from tests.support.waiting import wait_until
from tests.support.world import World, person

PROXY = "https://steer.example.org"


@pytest.fixture(scope="module")
def web_env() -> dict[str, str]:
    """The web process is behind a proxy's address."""
    return {"STEERWEB_URL": PROXY}


def cookie_of(name: str) -> str:
    """The cookie of a browser in which that person is signed in."""
    account, _ = Person.objects.get_or_create(username=name)
    return signed_in(account).cookies["sessionid"].value


async def status_of(stack: Stack, path: str, **headers: str) -> int:
    """The status of a handshake that must be refused."""
    with pytest.raises(InvalidStatus) as refused:
        async with connect(ws(stack.url, path), additional_headers=headers, proxy=None):
            pass
    return refused.value.response.status_code


@pytest.mark.rule("A5")
@pytest.mark.scenario("D22")
async def test_a_page_of_another_origin_is_refused_whatever_it_carries(web: Stack, world: World) -> None:
    path, cookie, token = f"/ws/sessions/{world.session}/", f"sessionid={cookie_of('ana')}", token_of("ana")
    port = web.url.rpartition(":")[2]
    foreign = (
        "http://evil.example", "null", web.url.replace("http", "https"), "http://127.0.0.1", f"http://localhost:{port}",
        f"http://127.0.0.1.evil.example:{port}", PROXY.replace("https", "http"), PROXY + ":8443", "file://",
    )  # fmt: skip
    for origin in foreign:
        assert await status_of(web, path, Origin=origin, Cookie=cookie) == 403, origin
    assert await status_of(web, path, Origin="", Cookie=cookie) == 400  # no origin at all: the server's own answer
    assert await status_of(web, path, Origin="http://evil.example") == 403
    assert await status_of(web, path, Origin="http://evil.example", Authorization=f"Bearer {token}") == 403
    assert await status_of(web, "/ws/", Origin="http://evil.example", Cookie=cookie) == 403
    assert await status_of(web, path, Cookie=cookie) == 403  # no browser leaves its origin out
    assert world.types() == ["SessionCreated", "MemberChanged", "LoopStarted"]
    wait_until(lambda: "refused: the foreign origin 'http://evil.example'" in web.logs()["web-0.log"], "the log line")


@pytest.mark.scenario("D22")
async def test_the_own_origin_and_the_address_of_the_proxy_are_allowed(web: Stack, world: World) -> None:
    path, cookie = f"/ws/sessions/{world.session}/", cookie_of("ana")
    for origin in (web.url, PROXY):
        async with opened(web.url, path, cookie=cookie, origin=origin) as socket:
            await socket.live()
            assert socket.of("hello")[0]["you"]["name"] == "ana"


@pytest.mark.rule("A5")
async def test_a_token_comes_in_the_header_or_as_the_first_frame(web: Stack, world: World) -> None:
    path, token = f"/ws/sessions/{world.session}/", token_of("ana", agent=True)
    async with opened(web.url, path, token=token) as socket:
        await socket.live()
        assert socket.of("hello")[0]["you"]["name"] == "test (agent of ana)"
    async with opened(web.url, path) as socket:
        assert socket.frames == []
        await socket.connection.send(f'{{"t":"auth","token":"{token}"}}')
        await socket.live()
        assert (await socket.ask("submit", text="hi"))["t"] == "ack"
        await socket.until(lambda: socket.events("InputQueued"), "the input")
        queued = socket.events("InputQueued")[0]
        assert (queued["actor"]["kind"], queued["data"]["agency"]) == ("agent", "machine")


@pytest.mark.rule("A5")
@pytest.mark.parametrize(("agent", "device"), [(False, ("cli", "desk-1")), (True, ("api", "test"))])
async def test_the_command_lines_name_makes_a_persons_token_a_terminal_and_no_agents(
    web: Stack, world: World, agent: bool, device: tuple[str, str]
) -> None:
    path, token = f"/ws/sessions/{world.session}/", token_of("ana", agent=agent)
    async with opened(web.url, path, token=token, user_agent="steerweb-cli (desk-1)") as socket:
        await socket.live()
        assert (await socket.ask("submit", text="hi"))["t"] == "ack"
        shown = (await socket.until_event("InputQueued"))["actor"]["device"]
        assert (shown["kind"], shown["name"]) == device


@pytest.mark.rule("M")
async def test_without_a_good_credential_a_socket_gets_no_frame_and_4401(web: Stack, world: World) -> None:
    async def answer(first: str | None) -> tuple[int | None, int]:
        async with opened(web.url, f"/ws/sessions/{world.session}/") as socket:
            if first is not None:
                await socket.connection.send(first)
            return await socket.closed(), len(socket.frames)

    wrong = (
        '{"t":"auth","token":"no"}',
        '{"t":"auth"}',
        '{"t":"submit","text":"x"}',
        "no",
        '{"t":"auth","token":7}',
        None,
    )
    assert await asyncio.gather(*(answer(first) for first in wrong)) == [(4401, 0)] * len(wrong)


async def test_a_dead_cookie_or_token_is_4401_at_once(web: Stack, world: World) -> None:
    path = f"/ws/sessions/{world.session}/"
    async with opened(web.url, path, cookie="x" * 32) as socket:
        assert await socket.closed() == 4401
    async with opened(web.url, path, token="sw_" + "x" * 43, cookie=cookie_of("ana")) as socket:
        assert await socket.closed() == 4401
    assert socket.frames == []


@pytest.mark.rule("M")
@pytest.mark.scenario("D23")
async def test_a_session_that_is_not_yours_does_not_exist(web: Stack, world: World) -> None:
    token = token_of("ben")
    for name in (world.session, new_id(), "nonsense", "0", world.session + "/more"):
        async with opened(web.url, f"/ws/sessions/{name}/", token=token) as socket:
            assert await socket.closed() == 4404, name
            assert [frame["code"] for frame in socket.frames] == ["session_not_found"], name


@pytest.fixture
async def watching(web: Stack, world: World) -> AsyncIterator[tuple[Socket, Socket, Socket]]:
    """Ana by cookie; Ben, another owner, by token; Kim, an observer, by cookie."""
    for name, role in (("ben", "owner"), ("kim", "observer")):
        person(name)
        control.set_member(world.owner, world.session, new_id(), person=name, role=role)
    path = f"/ws/sessions/{world.session}/"
    async with (
        opened(web.url, path, cookie=cookie_of("ana")) as ana,
        opened(web.url, path, token=token_of("ben")) as ben,
        opened(web.url, path, cookie=cookie_of("kim")) as kim,
    ):
        yield await ana.live(), await ben.live(), await kim.live()


@pytest.mark.rule("M")
@pytest.mark.scenario("D25")
async def test_who_is_removed_gets_nothing_more(world: World, watching: tuple[Socket, Socket, Socket]) -> None:
    ana, ben, kim = watching
    control.set_member(world.owner, world.session, new_id(), person="kim", role=None)
    assert await kim.closed() == 4403
    heard = len(kim.frames)
    world.submit("secret")
    await ana.until(lambda: ana.events("InputQueued"), "the others go on")
    assert len(kim.frames) == heard
    assert ben.code is None


@pytest.mark.rule("M")
@pytest.mark.scenario("D24", "D25")
async def test_who_becomes_an_observer_watches_on_and_is_refused(
    world: World, watching: tuple[Socket, Socket, Socket]
) -> None:
    ana, ben, kim = watching
    control.set_member(world.owner, world.session, new_id(), person="ben", role="observer")
    answer = await ben.ask("steer", text="left")
    assert (answer["t"], answer["code"]) == ("error", "not_allowed")
    await ben.until(lambda: ben.of("you"), "the new role")
    assert (ben.of("you")[0]["you"]["role"], ben.of("you")[0]["you"]["can"]) == ("observer", [])
    for verb, fields in (
        ("submit", {"text": "x"}), ("steer", {"text": "x"}), ("interrupt", {}), ("release", {}),
        ("edit", {"input": new_id(), "text": "x"}), ("retract", {"input": new_id()}), ("withdraw", {"steer": new_id()}),
    ):  # fmt: skip
        assert (await kim.ask(verb, **fields))["code"] == "not_allowed", verb
    world.submit("for all")
    for socket in (ana, ben, kim):
        await socket.until(partial(socket.events, "InputQueued"), "the input")
    assert kim.events("InputQueued")[0]["actor"]["device"] == {"kind": "desk"}


@pytest.mark.rule("M")
@pytest.mark.scenario("D25")
async def test_a_credential_that_ends_closes_its_socket_within_five_seconds(
    web: Stack, world: World, watching: tuple[Socket, Socket, Socket], sql: psycopg.Connection[dict[str, object]]
) -> None:
    ana, ben, kim = watching
    person("kim2")
    control.set_member(world.owner, world.session, new_id(), person="kim2", role="owner")
    async with opened(web.url, f"/ws/sessions/{world.session}/", cookie=cookie_of("kim2")) as other:
        await other.live()
        sign_out_everywhere(Person.objects.get(username="kim").id)
        sql.execute("UPDATE api_token SET revoked_at = now()")
        suspend(Person.objects.get(username="kim2"))
        for gone in (ben, kim, other):
            assert (await gone.ask("steer", text="still here?"))["code"] == "unauthenticated"
        assert [await gone.closed() for gone in (ben, kim, other)] == [4401] * 3
        world.submit("goes on")
        await ana.until(lambda: ana.events("InputQueued"), "the others")
