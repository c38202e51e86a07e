"""The scripted model server does what the tests that rely on it believe it does."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.model_server import ModelServer, ScriptedReply, call, drop, fail, pieces, say, stall

USER = {"role": "user", "content": "hi"}
CALLS = [{"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}]
ASKS = {"role": "assistant", "content": None, "tool_calls": CALLS}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}
ANSWER = {"role": "assistant", "content": "all right"}

A_TEXT = {"type": "text", "text": "hi"}
A_DONE = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
A_USER = {"role": "user", "content": [A_TEXT]}
A_ASKS = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "shell", "input": {}}]}
A_RESULT = {"role": "user", "content": [A_DONE]}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def openai(server: ModelServer, *messages: dict[str, Any]) -> httpx.Response:
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": messages}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body)


def anthropic(server: ModelServer, *messages: dict[str, Any]) -> httpx.Response:
    body = {"model": "m", "stream": True, "max_tokens": 9, "messages": messages}
    return httpx.post(f"{server.url}/v1/messages", json=body)


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_replies_are_streamed_in_order_and_recorded(server: ModelServer) -> None:
    server.script([say("two words"), call("shell", command="ls")], [say("done")])
    first = openai(server, USER)
    assert first.text.endswith("data: [DONE]\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(first) if chunk["choices"]]
    assert [delta["content"] for delta in deltas if delta.get("content")] == ["two ", "words"]
    arguments = "".join(d["tool_calls"][0]["function"]["arguments"] for d in deltas if "tool_calls" in d)
    assert json.loads(arguments) == {"command": "ls"}
    assert chunks(first)[-1]["usage"]["completion_tokens"] == 2
    second = openai(server, USER, ANSWER, {"role": "user", "content": "secret word"})
    assert "done" in second.text
    server.wait_for(lambda s: s.requests[1].finished)
    assert [seen.sent_tokens for seen in server.requests] == [2, 1]
    assert "secret word" in server.requests[1].text
    assert server.requests[1].last.role == "user"
    assert server.violations == []


def test_a_handler_answers_what_no_script_does(server: ModelServer) -> None:
    server.handler = lambda seen: [say(f"you said {seen.last.text}")]
    server.script([say("scripted")])
    assert "scripted" in openai(server, USER).text
    assert "you " in openai(server, USER).text


def test_a_request_without_any_reply_is_a_violation(server: ModelServer) -> None:
    assert openai(server, USER).status_code == 400
    assert server.violations == ["0: request 0 came without a scripted reply"]


@pytest.mark.scenario("D07")
@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([USER, ASKS, USER], "tool calls ['c1'] have no result"),
        ([USER, ASKS], "the last tool calls ['c1'] have no result"),
        ([USER, ASKS, RESULT, RESULT], "a result for 'c1'"),
        ([USER, RESULT], "a result for 'c1'"),
        ([USER, ASKS, RESULT, ANSWER, RESULT], "a result for 'c1'"),
        ([USER, ANSWER], "the last message is of role 'assistant'"),
        ([USER, ANSWER, ANSWER, USER], "an assistant message after one of role 'assistant'"),
        ([{"role": "user", "content": " "}], "an empty user message"),
        ([USER, {"role": "assistant", "content": ""}, USER], "neither text nor calls"),
        ([USER, {"role": "robot", "content": "x"}, USER], "no role is called 'robot'"),
        ([USER, {**ASKS, "tool_calls": [*CALLS, *CALLS]}, RESULT, RESULT], "bad ids"),
    ],
)
def test_openai_histories_that_real_providers_refuse(server: ModelServer, messages: Any, fault: str) -> None:
    server.script([say("never")])
    response = openai(server, *messages)
    assert response.status_code == 400
    assert fault in response.json()["error"]["message"]
    assert any(fault in violation for violation in server.violations)
    assert openai(server, USER).status_code == 200, "a refused request takes no scripted reply"


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([A_USER, A_ASKS, A_USER], "tool_use ids ['c1'] are followed by results for []"),
        ([A_USER, A_RESULT], "role 'user' after 'user'"),
        ([A_USER, A_ASKS, {"role": "user", "content": [A_TEXT, A_DONE]}], "results must come first"),
        ([A_USER, A_ASKS, A_RESULT, A_ASKS, A_RESULT], "must be unique"),
        ([A_USER, A_ASKS], "the last message is of role 'assistant'"),
        ([A_USER, {"role": "assistant", "content": [{"type": "text", "text": ""}]}, A_USER], "empty content"),
    ],
)
def test_anthropic_histories_that_real_providers_refuse(server: ModelServer, messages: Any, fault: str) -> None:
    server.script([say("never")])
    response = anthropic(server, *messages)
    assert response.status_code == 400
    assert fault in response.json()["error"]["message"]


def test_good_histories_are_accepted(server: ModelServer) -> None:
    server.handler = lambda _: [say("yes")]
    assert (
        openai(server, {"role": "system", "content": "be good"}, USER, ASKS, RESULT, USER, ANSWER, USER).status_code
        == 200
    )
    both = {"role": "user", "content": [A_DONE, A_TEXT]}
    assert anthropic(server, A_USER, A_ASKS, both).status_code == 200
    assert server.violations == []


def test_failures_and_keys(server: ModelServer) -> None:
    server.script([fail(429, "slow down", retry_after=7)])
    response = openai(server, USER)
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    server.key = "right"
    assert openai(server, USER).status_code == 401


def test_a_dropped_connection_is_an_error_for_the_client(server: ModelServer) -> None:
    server.script([say("half a"), drop()])
    with pytest.raises(httpx.RemoteProtocolError):
        openai(server, USER)
    server.wait_for(lambda s: s.requests[0].ended_at)
    assert not server.requests[0].finished


def test_a_client_that_leaves_is_seen_leaving(server: ModelServer) -> None:
    server.script([say("word " * 50, delay_s=0.005), stall(), say("never")])
    body = {"model": "m", "stream": True, "messages": [USER]}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body):
        server.wait_for(lambda s: s.requests[0].sent_tokens >= 10)
        assert server.requests[0].closed_at is None
    server.wait_for(lambda s: s.requests[0].closed_at)
    seen = server.requests[0]
    assert 10 <= seen.sent_tokens <= 50
    assert not seen.finished


def test_release_ends_every_stall(server: ModelServer) -> None:
    server.script([stall(), say("at last")])
    server.release()
    assert openai(server, USER).text.endswith("data: [DONE]\n\n")
    assert server.requests[0].sent_tokens == 2


def test_a_request_can_be_taken_and_left_unanswered(server: ModelServer) -> None:
    server.script([stall(unanswered=True), say("at last")])
    body = {"model": "m", "stream": True, "messages": [USER]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=0.2)
    server.wait_for(lambda s: s.requests[0].closed_at)
    server.script([stall(unanswered=True), say("at last")])
    server.release()
    assert "at " in openai(server, USER).text


def test_waiting_for_what_never_comes_says_so(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="not within"):
        server.wait_for(lambda s: s.requests[-1].finished, timeout_s=0.05)


def test_half_a_surrogate_pair_goes_out_as_an_escape(server: ModelServer) -> None:
    server.script([pieces("ready \ud83d", "\ude80")])
    assert r"ready \ud83d" in openai(server, USER).text


def test_a_failing_handler_is_a_violation(server: ModelServer) -> None:
    def broken(_: object) -> ScriptedReply:
        raise ZeroDivisionError("oops")

    server.handler = broken
    with pytest.raises(httpx.RemoteProtocolError):
        openai(server, USER)
    server.wait_for(lambda seen: seen.violations)  # the connection ends first
    assert server.violations == ["the script failed: ZeroDivisionError('oops')"]
