"""Other protocols than chat completions, with the SDKs of their owners."""

from __future__ import annotations

import asyncio
import gc
import json
import re
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pytest
from openai import AsyncOpenAI, ConflictError, NotFoundError, OpenAI

from tavernkit.models._scripted import Disconnect, Hang
from tavernkit.testing import ScriptedModel, answer, calls, failure, streamed, tool_call, usage
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import loose
from tests.server.conftest import StartApp
from tests.server.test_model_servers import at

anthropic: Any = pytest.importorskip("anthropic")

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
ROLL: dict[str, Any] = {"type": "object", "properties": {"sides": {"type": "integer"}}}


class Loopback(Protocol):
    def __call__(self, model: Any = None, **changes: object) -> AbstractContextManager[str]: ...


def openai_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="anything", max_retries=0)


def claude_of(url: str, key: str = "anything") -> Any:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def test_anthropics_sdk_talks_to_a_character(loopback: Loopback) -> None:
    model = ScriptedModel(answer("Welcome.", usage=usage(7, 3)), streamed("Wel", "come.", usage=usage(7, 3)))
    with loopback(model) as url, claude_of(url) as client:
        asked: Any = {"model": "aria", "max_tokens": 50, "messages": HELLO, "system": "Be brief."}
        whole = client.messages.create(**asked, stop_sequences=["END"], extra_body={"temperature": 0.3})
        with client.messages.stream(**asked) as stream:
            pieces = list(stream.text_stream)
            last = stream.get_final_message()
    assert (whole.content[0].text, whole.stop_reason, whole.usage.input_tokens) == ("Welcome.", "end_turn", 7)
    assert (pieces, last.content[0].text, last.usage.output_tokens) == (["Wel", "come."], "Welcome.", 3)
    sent: Any = model.requests[0]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.3, 50, ["END"])
    assert any("Be brief." in str(message["content"]) for message in sent["messages"])


def test_tools_of_anthropics_protocol(loopback: Loopback) -> None:
    called = calls(tool_call("roll", {"sides": 6}, id="c1"))
    model = ScriptedModel(called, called, "You rolled a 4.")
    tools = [{"name": "roll", "description": "Rolls.", "input_schema": ROLL}]
    with loopback(model) as url, claude_of(url) as client:
        asked: Any = {"model": "aria", "max_tokens": 50, "tools": tools, "tool_choice": {"type": "any"}}
        whole = client.messages.create(**asked, messages=HELLO)
        with client.messages.stream(**asked, messages=HELLO) as stream:
            last = stream.get_final_message()
        result = [{"type": "tool_result", "tool_use_id": "c1", "content": "4"}]
        history = [*HELLO, {"role": "assistant", "content": whole.content}, {"role": "user", "content": result}]
        end = client.messages.create(**asked, messages=history)
    for message in (whole, last):
        block = message.content[-1]
        assert (block.type, block.name, block.input, block.id) == ("tool_use", "roll", {"sides": 6}, "c1")
        assert message.stop_reason == "tool_use"
    assert end.content[0].text == "You rolled a 4."
    sent: Any = model.requests[2]
    assert [message["role"] for message in sent["messages"][-2:]] == ["assistant", "tool"]
    assert (sent["tools"][0]["function"]["parameters"], sent["tool_choice"]) == (ROLL, "required")


def test_errors_of_anthropics_protocol(loopback: Loopback) -> None:
    with loopback(ScriptedModel(failure(500)), require_keys=True, admin_key="key") as url:
        asked: Any = {"model": "nobody", "max_tokens": 5, "messages": HELLO}
        with claude_of(url, "wrong") as client, pytest.raises(anthropic.AuthenticationError):
            client.messages.create(**asked)
        with claude_of(url, "key") as client:
            with pytest.raises(anthropic.NotFoundError) as unknown:
                client.messages.create(**asked)
            with pytest.raises(anthropic.NotFoundError) as missing:
                client.messages.count_tokens(model="aria", messages=[{"role": "user", "content": "Hi"}])
            with pytest.raises(anthropic.BadRequestError):
                client.messages.create(**{**asked, "model": "aria", "max_tokens": 0})
    assert unknown.value.body["error"]["type"] == "not_found_error"
    assert missing.value.body["type"] == "error"


def test_a_session_by_anthropics_sdk(loopback: Loopback) -> None:
    model = ScriptedModel("One.", "Two.")
    with loopback(model) as url, claude_of(url) as client:
        for _ in range(2):
            client.messages.create(model="aria", max_tokens=5, messages=HELLO, extra_headers={"X-Tavern-Session": "s"})
    assert "One." in json.dumps(model.requests[1])


def test_responses_go_on_with_each_other(loopback: Loopback) -> None:
    model = ScriptedModel(answer("One.", usage=usage(7, 3)), "Two.", "Other two.", "Alone.")
    with loopback(model) as url, openai_of(url) as client:
        first = client.responses.create(model="aria", input="Hello", temperature=0.3, max_output_tokens=50)
        second = client.responses.create(model="aria", input="More", previous_response_id=first.id)
        branch = client.responses.create(model="aria", input="Else", previous_response_id=first.id)
        again = client.responses.retrieve(first.id)
        alone = client.responses.create(model="aria", input="Hello", store=False)
        with pytest.raises(NotFoundError):
            client.responses.create(model="aria", input="Hello", previous_response_id=alone.id)
        with pytest.raises(ConflictError, match="one of 'aria'"):
            client.responses.create(model="bel", input="Hello", previous_response_id=first.id)
    assert (first.model, again.model) == ("aria", "aria")
    assert [each.output_text for each in (first, second, branch, again)] == ["One.", "Two.", "Other two.", "One."]
    assert (first.status, first.usage.total_tokens if first.usage else 0) == ("completed", 10)
    told = [json.dumps(request["messages"]) for request in model.requests]
    assert "One." in told[1]
    assert "Two." not in told[2]
    assert "One." not in told[3]
    assert (model.requests[0]["temperature"], model.requests[0]["max_tokens"]) == (0.3, 50)


def test_responses_stream_and_call_tools(loopback: Loopback) -> None:
    called = calls(tool_call("roll", {"sides": 6}, id="c1"), text="Let me roll.")
    model = ScriptedModel(streamed("Wel", "come."), called, "A four.")
    tool: Any = {"type": "function", "name": "roll", "parameters": ROLL, "strict": False}
    with loopback(model) as url, openai_of(url) as client:
        with client.responses.stream(model="aria", input="Hello") as stream:
            kinds = [event.type for event in stream]
            told = stream.get_final_response()
        with client.responses.stream(model="aria", input="Roll", tools=[tool]) as stream:
            rolling = stream.get_final_response()
        output: Any = {"type": "function_call_output", "call_id": "c1", "output": "4"}
        end = client.responses.create(model="aria", input=[output], tools=[tool], previous_response_id=rolling.id)
    assert told.output_text == "Welcome."
    assert kinds[0] == "response.created"
    assert kinds.count("response.output_text.delta") == 2
    assert kinds[-1] == "response.completed"
    call: Any = rolling.output[-1]
    assert (call.type, call.name, json.loads(call.arguments), call.call_id) == (
        "function_call",
        "roll",
        {"sides": 6},
        "c1",
    )
    assert end.output_text == "A four."
    assert [message["role"] for message in loose(model.requests[2]["messages"])[-2:]] == ["assistant", "tool"]


def test_text_completions(loopback: Loopback) -> None:
    model = ScriptedModel(answer("a time.", usage=usage(7, 3)), streamed("a ", "time."), "x", "y")
    with loopback(model) as url, openai_of(url) as client:
        whole = client.completions.create(model="aria", prompt="Once upon", max_tokens=5, echo=True)
        chunks = list(client.completions.create(model="aria", prompt=["Once upon"], stream=True))
        both = client.completions.create(model="aria", prompt="Once", n=2)
    assert (whole.choices[0].text, whole.object) == ("Once upona time.", "text_completion")
    assert "".join(chunk.choices[0].text for chunk in chunks) == "a time."
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert sorted(choice.text for choice in both.choices) == ["x", "y"]


async def test_a_text_upstream_gets_sillytaverns_templates(start: StartApp) -> None:
    told = Wire({"choices": [{"text": " Well met.", "finish_reason": "stop"}]})
    async with serve_wire(told, told) as server, start(**at(server, dialect="text")) as client:
        answer = await client.post("/v1/completions", json={"model": "aria", "prompt": "Hello there"})
        chat = await client.post("/v1/chat/completions", json={"model": "aria", "messages": HELLO})
    assert answer.json()["choices"][0]["text"].strip() == "Well met."
    assert chat.json()["choices"][0]["message"]["content"].strip() == "Well met."
    assert [each.path for each in server.requests] == ["/v1/completions"] * 2
    prompt = sent_json(server, 0)["prompt"]
    assert "User: Hello there\n" in prompt
    assert prompt.rstrip().endswith("Aria:")


async def test_several_choices_and_logprobs(start: StartApp) -> None:
    logprobs = {"content": [{"token": "Hi", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop", "logprobs": logprobs}
    events = [
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "logprobs": logprobs}]},
        {"choices": [{"index": 0, "delta": {"content": " you"}, "logprobs": logprobs}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    body: dict[str, Any] = {"model": "aria", "messages": HELLO, "n": 2, "logprobs": True}
    wires = [Wire({"choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}})] * 2
    async with serve_wire(*wires, *[Wire(events=events)] * 2) as server, start(**at(server)) as client:
        whole = (await client.post("/v1/chat/completions", json=body)).json()
        text = (await client.post("/v1/chat/completions", json={**body, "stream": True})).text
        session = await client.post("/v1/chat/completions", json=body, headers={"X-Tavern-Session": "s"})
        many = await client.post("/v1/chat/completions", json={**body, "n": 5})
    assert [each["index"] for each in whole["choices"]] == [0, 1]
    assert all(each["logprobs"] == logprobs for each in whole["choices"])
    assert whole["usage"]["total_tokens"] == 6
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    said = [(c["index"], c["delta"].get("content"), c["logprobs"]) for chunk in chunks for c in chunk["choices"]]
    for index in (0, 1):
        assert [(text, told) for at_, text, told in said if at_ == index and text] == [
            ("Hi", logprobs),
            (" you", logprobs),
        ]
    assert (session.status_code, many.status_code) == (400, 400)


@pytest.mark.parametrize(
    ("stream", "script"),
    [
        (False, (failure(400), Hang())),
        (True, (Hang(after=["a"]), failure(400))),
        (True, (Disconnect(after=["a"]), Hang(after=["b"]))),
    ],
)
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
async def test_when_one_of_several_choices_fails_the_others_are_stopped(
    start: StartApp, caplog: pytest.LogCaptureFixture, path: str, stream: bool, script: tuple[Any, ...]
) -> None:
    body = {"model": "aria", "messages": HELLO, "prompt": "Hello", "n": 2, "stream": stream}
    async with start(ScriptedModel(*script), shutdown_seconds=0) as client:
        answer = await client.post(f"/v1/{path}", json=body)
        async with asyncio.timeout(5):
            while client.service.turns._running:  # noqa: ASYNC110  # nobody tells when a turn has ended
                await asyncio.sleep(0)
    assert '"error"' in answer.text
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_mistake_of_ours_is_logged_although_nobody_waits_for_the_turn(
    start: StartApp, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"model": "aria", "messages": HELLO, "n": 2}
    async with start(ScriptedModel(failure(400), Hang()), shutdown_seconds=0) as client:

        async def broken(*_: object) -> None:
            raise RuntimeError("the disk is full")

        client.service.turns.log.give_up = broken  # type: ignore[method-assign]
        await client.post("/v1/chat/completions", json=body)
        async with asyncio.timeout(5):
            while client.service.turns._running:  # noqa: ASYNC110  # nobody tells when a turn has ended
                await asyncio.sleep(0)
    assert "a turn failed whose client has left" in caplog.text


async def test_embeddings_and_moderations_are_passed_on(start: StartApp) -> None:
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "e"}
    judged = {"id": "m", "model": "x", "results": [{"flagged": False}]}
    async with serve_wire(Wire(vectors), Wire(judged), Wire({}, status=500)) as server:
        config = at(server, embedding_model="small")
        config["upstreams"]["none"] = {"dialect": "scripted"}
        async with start(**config) as client:
            embedded = await client.post("/v1/embeddings", json={"model": "any", "input": ["a"], "dimensions": 1})
            moderated = await client.post("/v1/moderations", json={"model": "mod", "input": "a"})
            failed = await client.post("/v1/embeddings", json={"input": "a"})
            nobody = await client.post("/v1/embeddings", json={"input": "a", "upstream": "none"})
    assert (embedded.json(), moderated.json()) == (vectors, judged)
    assert [each.path for each in server.requests] == ["/v1/embeddings", "/v1/moderations", "/v1/embeddings"]
    assert sent_json(server, 0) == {"model": "small", "input": ["a"], "dimensions": 1}
    assert sent_json(server, 1)["model"] == "mod"
    assert (failed.status_code, nobody.status_code) == (502, 400)


async def test_embeddings_and_moderations_with_openais_sdk(loopback: Loopback) -> None:
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "e"}
    judged = {"id": "m", "model": "x", "results": [{"flagged": False, "categories": {}, "category_scores": {}}]}
    async with serve_wire(Wire(vectors), Wire(judged)) as server:
        with loopback(**at(server, embedding_model="small")) as url:
            async with AsyncOpenAI(base_url=f"{url}/v1", api_key="anything", max_retries=0) as client:
                embedded = await client.embeddings.create(model="any", input=["a"], encoding_format="float")
                moderated = await client.moderations.create(model="mod", input="a")
    assert embedded.data[0].embedding == [0.5]
    assert moderated.results[0].flagged is False


def test_a_model_by_its_id(loopback: Loopback) -> None:
    with loopback() as url, openai_of(url) as client:
        assert client.models.retrieve("aria").id == "aria"
        with pytest.raises(NotFoundError):
            client.models.retrieve("nobody")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_repeated_request_gets_the_same_response(start: StartApp, stream: bool) -> None:
    """With a key, and also where the first try fails: the id continues the response."""
    model = ScriptedModel(failure(400), "One.", "Two.", "Three.")
    async with start(model) as client:

        async def create(text: str, key: str, **more: object) -> tuple[int, str]:
            body = {"model": "aria", "input": text, "stream": stream, **more}
            reply = await client.post("/v1/responses", json=body, headers={"Idempotency-Key": key})
            ids = set(re.findall(r'"id":"(resp_[0-9a-f]+)"', reply.text))
            assert len(ids) <= 1
            return reply.status_code, *ids  # type: ignore[return-value]

        assert (await create("Hello", "a"))[0] == 400
        first, again = await create("Hello", "a"), await create("Hello", "a")
        second = await create("More", "b", previous_response_id=first[1])
        repeated = await create("More", "b", previous_response_id=first[1])
        assert (first, second) == (again, repeated)
        assert (await create("Even more", "c", previous_response_id=second[1]))[0] == 200
        stored = [(await client.get(f"/v1/responses/{each}")).json() for _, each in (first, second)]
        listed = (await client.get("/api/sessions")).json()["data"]
    assert [each["output"][0]["content"][0]["text"] for each in stored] == ["One.", "Two."]
    assert (len(model.requests), len(listed)) == (4, 1)


def test_a_repeated_call_of_a_tool_is_streamed_again_in_every_protocol(loopback: Loopback) -> None:
    model = ScriptedModel(calls(tool_call("roll", {"sides": 6}, id="c1")), repeat_last=True)
    messages: Any = {"model": "aria", "messages": HELLO, "max_tokens": 50}
    with loopback(model) as url, openai_of(url) as client, claude_of(url) as claude:
        for _ in range(2):
            with client.chat.completions.stream(**messages, extra_headers={"Idempotency-Key": "a"}) as chat:
                call: Any = (chat.get_final_completion().choices[0].message.tool_calls or [])[0]
            assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("c1", "roll", {"sides": 6})
            with client.responses.stream(model="aria", input="Hi", extra_headers={"Idempotency-Key": "b"}) as events:
                done: Any = [event for event in events if event.type == "response.output_item.done"]
            assert [(each.item.name, json.loads(each.item.arguments)) for each in done] == [("roll", {"sides": 6})]
            with claude.messages.stream(**messages, extra_headers={"Idempotency-Key": "c"}) as stream:
                [block] = stream.get_final_message().content
            assert (block.type, block.name, block.input, block.id) == ("tool_use", "roll", {"sides": 6}, "c1")
    assert len(model.requests) == 3


async def test_a_repeated_message_has_the_same_id(start: StartApp) -> None:
    body = {"model": "aria", "max_tokens": 9, "messages": HELLO}
    async with start(ScriptedModel("One.")) as client:
        replies = [await client.post("/v1/messages", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert len({reply.json()["id"] for reply in replies}) == 1


async def test_an_empty_idempotency_key_is_none(start: StartApp) -> None:
    async with start(ScriptedModel("One.", "Two.")) as client:
        texts = []
        for said in ("Hello", "More"):
            body = {"model": "aria", "messages": [{"role": "user", "content": said}]}
            reply = await client.post("/v1/chat/completions", json=body, headers={"Idempotency-Key": ""})
            texts.append(reply.json()["choices"][0]["message"]["content"])
    assert texts == ["One.", "Two."]
