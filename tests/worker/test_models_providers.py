"""The adapter over pydantic-ai against a strict model server, over real HTTP, in four dialects."""

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from sessions_app.engine.transcript_types import AssistantEntry, Call, Entry, ResultEntry, UserEntry
from sessions_app.log.secrets import known
from sessions_app.worker.models import providers
from sessions_app.worker.models.base import INVALID, Delta, ModelError, Reasoning, Reply, Request, Text, ToolSpec, Usage
from sessions_app.worker.models.providers import close_connections
from sessions_app.worker.models.registry import open_model, preload_providers
from tests.support.model_server import (
    PROVIDERS,
    ModelServer,
    ScriptedReply,
    call,
    counted,
    drop,
    fail,
    finish,
    half_json,
    pieces,
    raw_call,
    say,
    stall,
    think,
    unknown_field,
)
from tests.support.waiting import wait_until_async

CHAT, RESPONSES, ANTHROPIC, GOOGLE = (
    "openai-chat:m-1",
    "openai:m-1",
    "anthropic:claude-opus-5",
    "google:gemini-3.8-flash",
)
ALL = pytest.mark.parametrize("name", [CHAT, RESPONSES, ANTHROPIC, GOOGLE])
STREAMED_ARGUMENTS = pytest.mark.parametrize("name", [CHAT, RESPONSES, ANTHROPIC])
SHELL = ToolSpec("shell", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
HI = (UserEntry("hi"),)
CLOSED_WITHIN_S = 1.0
"""Far above the 1 to 3 ms measured when nothing else runs, since other tests share the cores; D04 allows 2 s."""


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Load all four providers' libraries before anything is measured: it takes seconds, on a busy machine many."""
    with ModelServer() as server, pytest.MonkeyPatch.context() as patch:
        for key, value in server.environ(*PROVIDERS).items():
            patch.setenv(key, value)
        preload_providers()


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    with ModelServer() as server:
        for key, value in server.environ(*PROVIDERS).items():
            monkeypatch.setenv(key, value)
        known.cache_clear()  # an earlier test's process had other secrets
        yield server
        await close_connections()


async def take(name: str, entries: tuple[Entry, ...] = HI, instructions: str = "Be good.") -> tuple[list[Delta], Reply]:
    """All deltas and the reply, which must come last and only once."""
    request = Request(name, instructions, entries, (SHELL,))
    items = [item async for item in open_model(name).stream(request)]
    reply = items[-1]
    assert isinstance(reply, Reply)
    deltas = [item for item in items[:-1] if not isinstance(item, Reply)]
    assert len(deltas) == len(items) - 1
    assert reply.text == "".join(delta.text for delta in deltas if isinstance(delta, Text))
    assert reply.reasoning == "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))
    return deltas, reply


async def refused(name: str, entries: tuple[Entry, ...] = HI) -> ModelError:
    with pytest.raises(ModelError) as error:
        await take(name, entries)
    return error.value


# -- replies --------------------------------------------------------------------------------------------------------


@ALL
async def test_a_reply_is_streamed_and_then_whole(server: ModelServer, name: str) -> None:
    server.script(
        [say("Let me look."), call("shell", command="ls"), call("shell", command="pwd"), counted(100, 20, 60)]
    )
    deltas, reply = await take(name)
    assert deltas == [Text("Let "), Text("me "), Text("look.")]
    assert [(each.tool, each.arguments) for each in reply.calls] == [
        ("shell", {"command": "ls"}),
        ("shell", {"command": "pwd"}),
    ]
    assert reply.usage == Usage(100, 20, 60)
    assert not reply.replaced
    assert [(said.role, said.text) for said in server.requests[0].history] == [("system", "Be good."), ("user", "hi")]
    assert server.violations == []


@pytest.mark.parametrize("name", [CHAT, ANTHROPIC, GOOGLE])
async def test_reasoning_is_kept_apart(server: ModelServer, name: str) -> None:
    server.script([think("hm well"), say("Yes.")])
    deltas, reply = await take(name)
    assert deltas == [Reasoning("hm "), Reasoning("well"), Text("Yes.")]
    assert (reply.reasoning, reply.text) == ("hm well", "Yes.")


@pytest.mark.rule("C4", "C5", "D3")
@pytest.mark.scenario("D07", "D08")
@ALL
async def test_a_conversation_with_every_kind_of_settlement_is_accepted(server: ModelServer, name: str) -> None:
    server.script([call("shell", command="ls"), call("shell", command="rm -r x")], [say("I see.")])
    _, asked = await take(name)
    one, two = asked.calls
    entries: tuple[Entry, ...] = (
        *HI,
        AssistantEntry("", asked.calls),
        ResultEntry(one.id, "shell", "a.txt"),
        ResultEntry(two.id, "shell", "It was stopped after it had started; it may have had effects.", "interrupted"),
        UserEntry("Ana says: hello", interrupt=True),
        UserEntry("Ben says: go on"),
    )
    _, reply = await take(name, entries)
    assert reply.text == "I see."
    history = server.requests[1].history
    roles = [said.role for said in history if said.role != "system"]
    assert "".join(role[0] for role in roles).replace("aa", "a").startswith("uatt")
    text = server.requests[1].text
    assert text.index("a.txt") < text.index("may have had effects") < text.index("Ana says") < text.index("Ben says")
    assert server.violations == []


@ALL
async def test_the_odd_pieces_a_model_leaves_behind_do_not_poison_the_history(server: ModelServer, name: str) -> None:
    """Empty replies, made-up names of tools, arguments that were no JSON, ids of another provider (I1)."""
    server.script([say("Fine.")])
    entries: tuple[Entry, ...] = (
        *HI,
        AssistantEntry(" "),
        UserEntry("still there?"),
        AssistantEntry("Yes.\n", (Call("pyd_ai_1", "functions.shell now!", {INVALID: '{"command": "ec'}),)),
        ResultEntry("pyd_ai_1", "functions.shell now!", "There is no such tool.", "error"),
    )
    _, reply = await take(name, entries)
    assert reply.text == "Fine."
    assert server.violations == []


async def test_instructions_and_tools_may_be_missing(server: ModelServer) -> None:
    server.handler = lambda _: [say("ok")]
    for name in (CHAT, ANTHROPIC):
        async for _ in open_model(name).stream(Request(name, "", HI)):
            pass
    assert [[said.role for said in seen.history] for seen in server.requests] == [["user"], ["user"]]
    assert not any(seen.body.get("tools") for seen in server.requests)


@pytest.mark.rule("A6")
@pytest.mark.scenario("D47")
@ALL
async def test_halves_of_emoji_come_out_whole(server: ModelServer, name: str) -> None:
    server.script(
        [pieces("ready \ud83d", "\ude80 👨\u200d\ud83d", "\udc69\u200d👧\u200d", "👦"), call("shell", command="🚀")]
    )
    _, reply = await take(name)
    assert reply.text == "ready 🚀 👨\u200d👩\u200d👧\u200d👦"
    assert reply.calls[0].arguments == {"command": "🚀"}
    assert not reply.replaced
    server.script([pieces("ends on \ud83d")])
    _, reply = await take(name)
    assert (reply.text, reply.replaced) == ("ends on \ufffd", True)


@pytest.mark.scenario("D47")
@STREAMED_ARGUMENTS
async def test_halves_of_emoji_inside_arguments_come_out_whole(server: ModelServer, name: str) -> None:
    server.script([raw_call("shell", '{"command": "\ud83d\ude80 \\ud83d\\ude80"}', chunks=24)])
    _, reply = await take(name)
    assert reply.calls[0].arguments == {"command": "🚀 🚀"}


@STREAMED_ARGUMENTS
@pytest.mark.parametrize("raw", ['{"command": "ec', "[1]", "ls -l", '{"n": NaN}'])
async def test_arguments_that_are_no_object_come_out_as_their_text(server: ModelServer, name: str, raw: str) -> None:
    server.script([raw_call("shell", raw)])
    _, reply = await take(name)
    assert reply.calls[0].arguments == {INVALID: raw}


async def test_ids_that_a_server_uses_again_are_told_apart(server: ModelServer) -> None:
    server.script([call("shell", id="call_0", command="ls")], [call("shell", id="call_0", command="pwd")], [say("ok")])
    _, first = await take(CHAT)
    entries: tuple[Entry, ...] = (*HI, AssistantEntry("", first.calls), ResultEntry("call_0", "shell", "x"))
    _, second = await take(CHAT, entries)
    assert [each.id for each in (*first.calls, *second.calls)] == ["call_0", "call_0_2"]
    await take(CHAT, (*entries, AssistantEntry("", second.calls), ResultEntry("call_0_2", "shell", "y")))
    assert server.violations == []


@ALL
async def test_a_reply_cut_by_its_length_limit_is_a_reply(server: ModelServer, name: str) -> None:
    server.script([say("as far as"), finish("length")])
    _, reply = await take(name)
    assert reply.text == "as far as"


@ALL
async def test_a_chunk_of_a_newer_api_is_passed_over(server: ModelServer, name: str) -> None:
    server.script([say("some "), unknown_field(), say("more")])
    _, reply = await take(name)
    assert reply.text == "some more"


# -- failures -------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    ("status", "code", "retryable", "says"),
    [
        (400, "provider_refused", False, "refused the request"),
        (401, "provider_refused", False, "did not accept the key"),
        (404, "model_unknown", False, "has no model called"),
        (429, "provider_error", True, "asks to slow down"),
        (500, "provider_error", True, "failed"),
        (503, "provider_error", True, "not available"),
        (529, "provider_error", True, "overloaded"),
    ],
)
async def test_http_failures(
    server: ModelServer, name: str, status: int, code: str, retryable: bool, says: str
) -> None:
    server.script([fail(status, "because of scripted-key-0123456789")])
    error = await refused(name)
    assert (error.status, error.code, error.retryable) == (status, code, retryable)
    assert re.search(rf"{says}.* \({status}\): because of \*\*\*$", error.detail), error.detail
    assert len(server.requests) == 1, "retries are ours alone"


@pytest.mark.scenario("D43")
@ALL
async def test_the_providers_own_waiting_time_is_handed_on(server: ModelServer, name: str) -> None:
    server.script([fail(429, retry_after=8)])
    error = await refused(name)
    assert (error.retry_after_s, error.retryable) == (8.0, True)
    assert len(server.requests) == 1


async def test_used_up_credit_is_not_worth_a_retry(server: ModelServer) -> None:
    server.script([fail(429, "You exceeded your current quota", "insufficient_quota")])
    error = await refused(CHAT)
    assert (error.code, error.retryable) == ("provider_refused", False)
    assert "credit is used up" in error.detail


async def test_a_conversation_that_is_too_long_is_called_that(server: ModelServer) -> None:
    server.script([fail(400, "too many tokens", "context_length_exceeded")])
    error = await refused(CHAT)
    assert error.detail == "The conversation has become longer than 'm-1' can read (400): too many tokens"


@ALL
async def test_a_filtered_reply_is_a_refusal(server: ModelServer, name: str) -> None:
    server.script([finish("content_filter")])
    error = await refused(name)
    assert (error.code, error.retryable) == ("provider_refused", False)


@ALL
async def test_an_empty_reply_is_worth_another_try(server: ModelServer, name: str) -> None:
    server.script([])
    error = await refused(name)
    assert (error.code, error.retryable) == ("bad_reply", True)


@ALL
@pytest.mark.parametrize("how", ["reset", "end"])
async def test_a_reply_that_breaks_off_is_no_reply(server: ModelServer, name: str, how: str) -> None:
    """Also when the connection ends in good order: half a command must never pass for a whole one."""
    server.script([say("some words"), drop("reset" if how == "reset" else "end")])
    error = await refused(name)
    assert (error.code, error.retryable) == ("provider_error", True)


@ALL
async def test_half_a_json_is_a_bad_reply(server: ModelServer, name: str) -> None:
    server.script([say("some words"), half_json(), say("more")])
    error = await refused(name)
    assert error.code == "bad_reply"


@ALL
async def test_a_server_that_is_not_there_is_worth_another_try(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as gone:
        environ = gone.environ(*PROVIDERS)
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    error = await refused(name)
    assert (error.code, error.status, error.retryable) == ("provider_error", None, True)
    assert "could not be reached" in error.detail
    await close_connections()


@ALL
async def test_silence_is_a_failure_in_the_end(server: ModelServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERWEB_MODEL_STALL_S", "0.3")
    server.script([say("a b"), stall()])
    error = await refused(name)
    assert (error.code, error.retryable) == ("provider_error", True)
    assert "did not answer in time" in error.detail
    await server.until(lambda s: s.requests[0].closed_at)


async def test_an_address_that_is_none_is_told_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "127.0.0.1:1/v1")
    assert "missing an 'http://' or 'https://' protocol" in (await refused(CHAT)).detail
    await close_connections()


@pytest.mark.rule("A6")
async def test_a_key_in_a_providers_words_is_masked(server: ModelServer) -> None:
    server.key = "another-key-0123"
    error = await refused(CHAT)
    assert "Incorrect API key provided: ***" in error.detail
    assert "scripted-key" not in str(error)


async def test_a_page_of_html_is_cut_short(server: ModelServer) -> None:
    server.script([fail(502, "<html>" + "x " * 5000)])
    assert len((await refused(CHAT)).detail) < 800


# -- stopping -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("E6")
@pytest.mark.scenario("D04")
@ALL
@pytest.mark.parametrize("where", ["stream", "stalled stream", "before the first word"])
async def test_a_cancelled_stream_closes_its_connection(server: ModelServer, name: str, where: str) -> None:
    replies: dict[str, ScriptedReply] = {
        "stream": [say("word " * 1200, delay_s=0.02)],
        "stalled stream": [say("a b c"), stall()],
        "before the first word": [stall()],
    }
    server.script(replies[where], [say("next")])

    task = asyncio.create_task(take(name))
    least = 0 if where == "before the first word" else 3
    await server.until(lambda s: s.requests[0].status and s.requests[0].sent_tokens >= least)
    stopped_at = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - stopped_at < CLOSED_WITHIN_S
    await server.until(lambda s: s.requests[0].closed_at)
    stopped = server.requests[0]
    assert stopped.closed_at is not None
    assert stopped.closed_at - stopped_at < CLOSED_WITHIN_S
    _, after = await take(name)
    assert after.text == "next", "the next request does not wait for the old stream"
    assert stopped.sent_tokens < 100
    assert not stopped.finished


@pytest.mark.rule("E6")
async def test_a_consumer_that_leaves_in_between_closes_the_connection_too(server: ModelServer) -> None:
    server.script([say("word " * 1000, delay_s=0.01)])
    async with aclosing(open_model(CHAT).stream(Request(CHAT, "", HI))) as stream:
        assert await anext(stream) == Text("word ")
    await server.until(lambda s: s.requests[0].closed_at)
    assert not server.requests[0].finished


async def test_many_streams_share_a_client_and_stop_alone(server: ModelServer) -> None:
    server.handler = lambda _: [say("word " * 400, delay_s=0.01)]
    tasks = [asyncio.create_task(take(CHAT)) for _ in range(10)]
    await server.until(lambda s: len(s.requests) == 10 and all(seen.sent_tokens > 5 for seen in s.requests))
    for task in tasks[:9]:
        task.cancel()
    await server.until(lambda s: sum(seen.closed_at is not None for seen in s.requests) == 9)
    _, reply = await tasks[9]
    assert reply.text.split() == ["word"] * 400
    assert all(task.cancelled() for task in tasks[:9])


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """One entry for every full look for garbage that somebody asks for; by itself the collector makes none."""
    seen: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(info["generation"])

    gc.disable()
    gc.callbacks.append(look)
    yield seen
    gc.callbacks.remove(look)
    gc.enable()


@pytest.mark.rule("E6")
async def test_cancellations_at_once_share_their_looks_for_garbage(server: ModelServer, looks: list[int]) -> None:
    """Each look stops every turn of the worker: one for the first, and one more for those that came before it ended."""
    server.script([say("ok")])
    await take(CHAT)
    loop = asyncio.get_running_loop()
    shared = providers._connections[loop]

    async def over() -> bool:
        return not shared.collecting

    for cancelled, in_all in ((40, 2), (40, 4), (1, 5)):
        before = len(looks)
        for _ in range(cancelled):
            providers._collect_soon(loop)
        assert len(looks) == before, "none before the exceptions have left"
        await wait_until_async(over, "the last look that was asked for")
        assert len(looks) == in_all
