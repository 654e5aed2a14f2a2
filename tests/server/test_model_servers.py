"""What reaches a model's server, and what becomes of what it sends back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tavernkit.models import HTTPError
from tavernkit.server.limits import CONTEXT_LENGTH
from tavernkit.server.upstreams.context_lengths import ContextLength, known_length
from tavernkit.testing import LoopbackServer
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.server.conftest import Client, StartApp

CHAT = "/v1/chat/completions"
HEADERS = {"X-Tavern-Session": "s"}
HELLO: dict[str, Any] = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
NOTHING: dict[str, list[Any]] = {
    "openai": [
        {"error": {"message": "no such model", "code": 404}},
        {"choices": []},
        {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]},
        {},
    ],
    "anthropic": [{"type": "error", "error": {"message": "busy"}}, {}, {"type": "message", "role": "assistant"}],
    "google": [{"error": {"message": "busy"}}, {}, {"candidates": []}],
}
REPLIES: dict[str, Any] = {
    "openai": HELLO,
    "anthropic": {"type": "message", "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn"},
    "google": {"candidates": [{"content": {"parts": [{"text": "Hello."}]}, "finishReason": "STOP"}]},
}


def at(server: LoopbackServer, **upstream: Any) -> dict[str, Any]:
    """Settings of a service that asks this server."""
    return {
        "upstreams": {"main": {"base_url": server.url, "model": "m", "context_length": 100_000, **upstream}},
    }


def said(text: str = "Hi", **more: Any) -> dict[str, Any]:
    return {"model": "aria", "messages": [{"role": "user", "content": text}], **more}


async def stored(client: Client) -> list[str]:
    """The roles of the session's messages, without the greeting."""
    session = (await client.get("/api/sessions")).json()["data"][0]["id"]
    found = (await client.get(f"/api/sessions/{session}/messages")).json()["data"]
    return [message["role"] for message in found][1:]


def wire(body: Any, *, streaming: bool) -> Wire:
    return Wire(events=[body]) if streaming else Wire(body)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("dialect", list(NOTHING))
async def test_no_reply_inside_200_is_an_error_and_nothing_is_stored(
    start: StartApp, dialect: str, streaming: bool
) -> None:
    bodies = NOTHING[dialect]
    answers = [wire(body, streaming=streaming) for body in bodies]
    config = {"dialect": dialect, "max_retries": 0}
    async with serve_wire(*answers, Wire(REPLIES[dialect])) as server, start(**at(server, **config)) as client:
        for number, _ in enumerate(bodies):
            answer = await client.post(CHAT, json=said(str(number), stream=streaming), headers=HEADERS)
            assert answer.status_code == 502, answer.text
            assert answer.json()["error"]["code"] == "upstream_error"
            assert await stored(client) == ["user"] * (number + 1)
        good = await client.post(CHAT, json=said("again"), headers=HEADERS)
        assert good.json()["choices"][0]["message"]["content"] == "Hello."
        assert await stored(client) == [*["user"] * (len(bodies) + 1), "assistant"]


async def test_an_empty_body_is_an_error(start: StartApp) -> None:
    empty = Wire(raw=b"")
    async with serve_wire(empty, empty) as server, start(**at(server)) as client:
        for streaming in (False, True):
            answer = await client.post(CHAT, json=said(stream=streaming), headers=HEADERS)
            assert answer.status_code == 502
        assert await stored(client) == ["user"]


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai", {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}),
        ("anthropic", {"type": "message", "content": [], "stop_reason": "end_turn"}),
        ("google", {"promptFeedback": {"blockReason": "SAFETY"}}),
    ],
)
async def test_a_model_that_says_nothing_is_told_of(start: StartApp, dialect: str, body: Any) -> None:
    async with serve_wire(Wire(body)) as server, start(**at(server, dialect=dialect)) as client:
        answer = await client.post(CHAT, json=said(), headers=HEADERS)
    reason = "content_filter" if dialect == "google" else "stop"
    assert answer.status_code == 200
    assert answer.json()["tavernkit"]["warnings"] == [f"the reply of 'main' is empty (finish reason: {reason})"]


async def test_an_error_inside_200_is_retried_by_its_status(start: StartApp) -> None:
    busy = Wire({"error": {"message": "busy", "code": 503}}, headers={})
    async with serve_wire(busy, Wire(HELLO)) as server, start(**at(server, max_retries=1)) as client:
        client.service.upstreams.get()._backoff = lambda _: 0.0
        assert (await client.post(CHAT, json=said())).status_code == 200
    assert len(server.requests) == 2


async def test_an_overload_in_the_stream_of_anthropic_is_retried(start: StartApp) -> None:
    busy = Wire(events=[{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}])
    config = {"dialect": "anthropic", "max_retries": 1}
    async with serve_wire(busy, Wire(REPLIES["anthropic"])) as server, start(**at(server, **config)) as client:
        client.service.upstreams.get()._backoff = lambda _: 0.0
        answer = await client.post(CHAT, json=said(stream=True))
    assert (answer.status_code, "Hello." in answer.text) == (200, True)


async def test_the_clients_mistake_inside_200_is_no_outage_and_may_have_another_route(start: StartApp) -> None:
    long = {"error": {"message": "maximum context length is 10 tokens", "code": 400}}
    async with serve_wire(*[Wire(long)] * 6) as server, serve_wire(Wire(HELLO)) as other:
        settings = at(server)
        settings["upstreams"]["large"] = {"base_url": other.url, "model": "m", "context_length": 100_000}
        route = [{"upstream": "main"}, {"upstream": "large", "weight": 0, "on": ["context_length"]}]
        settings["upstreams"]["both"] = {"route": route}
        async with start(**settings) as client:
            for _ in range(5):
                assert (await client.post(CHAT, json=said())).status_code == 502
            assert not client.service.upstreams.get("main").breaker.is_open
            answer = await client.post(CHAT, json=said(tavernkit={"upstream": "both"}))
    assert (answer.status_code, len(other.requests)) == (200, 1)


async def test_an_effort_that_is_left_to_the_model_is_not_sent(start: StartApp) -> None:
    async with serve_wire(Wire(HELLO), Wire(HELLO)) as server, start(**at(server)) as client:
        await client.post(CHAT, json=said(reasoning_effort="auto"))
        await client.post(CHAT, json=said(reasoning_effort="low"))
    assert "reasoning_effort" not in sent_json(server, 0)
    assert sent_json(server, 1)["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Wire({}, status=307, headers={"location": "http://127.0.0.1:9/"}), 502),
        (Wire({"error": "tomorrow"}, status=429, headers={"retry-after": "3600"}), 429),
        (Wire({"error": "late"}, status=504), 502),
    ],
)
async def test_what_is_not_asked_again(start: StartApp, answer: Wire, status: int) -> None:
    async with serve_wire(answer, Wire(HELLO)) as server, start(**at(server)) as client:
        refused = await client.post(CHAT, json=said())
    assert (refused.status_code, len(server.requests)) == (status, 1)
    if status == 429:
        assert refused.headers["retry-after"] == "3600"


async def test_a_request_that_is_retried_counts_once(start: StartApp) -> None:
    broken = [Wire({}, status=503)] * 8
    async with serve_wire(*broken) as server, start(**at(server, max_retries=1)) as client:
        upstream = client.service.upstreams.get()
        upstream._backoff = lambda _: 0.0
        for _ in range(4):
            assert (await client.post(CHAT, json=said())).status_code == 502
        assert not upstream.breaker.is_open
    assert len(server.requests) == 8


PRESET: dict[str, Any] = {
    "chat_completion_source": "openai",
    "openai_model": "o3",
    "temperature": 0.3,
    "top_p": 0.8,
    "top_k": 40,
    "openai_max_tokens": 222,
    "openai_max_context": 8000,
    "reasoning_effort": "auto",
    "assistant_prefill": "{{char}} nods.",
    "prompts": [],
    "prompt_order": [],
}


async def add_preset(client: Client, **changes: Any) -> None:
    content = json.dumps({**PRESET, **changes}).encode()
    added = await client.post("/api/presets", files={"file": ("own.json", content)})
    assert added.status_code == 201, added.text


async def asked(
    start: StartApp, answers: Sequence[Wire], upstream: dict[str, Any], **request: Any
) -> tuple[Any, Any, Any]:
    """What is sent, what the client is told, and what ``/api/build`` shows, for a chat with the preset."""
    async with serve_wire(*answers) as server, start(**at(server, **upstream)) as client:
        await add_preset(client)
        answer = await client.post(CHAT, json={**said(), "model": "aria@own", **request})
        assert answer.status_code == 200, answer.text
        options = {name: value for name, value in request.items() if name not in ("tavernkit", "no_such_option")}
        body = {"model": "aria@own", "messages": said()["messages"], "options": options}
        built = await client.post("/api/build", json=body)
        assert built.status_code == 200, built.text
    return sent_json(server), answer.json().get("tavernkit", {}), built.json()


async def test_the_model_that_is_asked_decides_which_options_are_sent(start: StartApp) -> None:
    sent, told, built = await asked(start, [Wire(HELLO)], {"model": "local-model"})
    assert {name: sent.get(name) for name in ("model", "temperature", "top_p", "top_k", "max_tokens")} == {
        "model": "local-model",
        "temperature": 0.3,
        "top_p": 0.8,
        "top_k": 40,
        "max_tokens": 222,
    }
    assert "reasoning_effort" not in sent
    assert "warnings" not in told
    assert built["request"] == sent


async def test_what_is_left_out_is_told(start: StartApp) -> None:
    sent, told, built = await asked(start, [Wire(HELLO)], {"model": "o3"}, stop=["END"])
    assert (sent.get("temperature"), sent["max_completion_tokens"], sent.get("stop")) == (None, 222, None)
    assert any("o3 does not take" in warning and "stop" in warning for warning in told["warnings"])
    assert [warning for warning in built["warnings"] if "o3" in warning]


async def test_an_upstream_may_say_which_fields_it_knows(start: StartApp) -> None:
    upstream: dict[str, Any] = {
        "model": "o3",
        "fields": ["max_tokens", "temperature", "dry_multiplier"],
        "body": {"cache_prompt": True},
    }
    sent, told, built = await asked(start, [Wire(HELLO)], upstream, max_completion_tokens=99, dry_multiplier=0.8)
    assert {name: value for name, value in sent.items() if name not in ("model", "messages")} == {
        "max_tokens": 99,
        "temperature": 0.3,
        "dry_multiplier": 0.8,
        "cache_prompt": True,
    }
    assert told["warnings"] == ["the server does not take top_k, top_p: left out of the request"]
    assert built["request"] == sent


async def test_options_that_nobody_knows_are_left_out_and_told(start: StartApp) -> None:
    extras = {"min_p": 0.1, "chat_template_kwargs": {"thinking": False}, "xtc_probability": 0.5}
    sent, told, _ = await asked(start, [Wire(HELLO)], {}, **extras, no_such_option=1)
    assert {name: sent.get(name) for name in extras} == extras
    assert "no_such_option" not in sent
    assert any("no_such_option" in warning for warning in told["warnings"])


async def test_what_a_preset_adds_to_its_own_connection_is_told(client: Client) -> None:
    body = {"chat_completion_source": "custom", "custom_include_body": "min_p: 0.2"}
    told: dict[str, list[str]] = {}
    for name, preset in {"custom": body, "openai": {**body, "chat_completion_source": "openai"}}.items():
        content = json.dumps({**PRESET, **preset}).encode()
        told[name] = (await client.post("/api/presets", files={"file": (f"{name}.json", content)})).json()["warnings"]
    assert [line for line in told["custom"] if "set body and fields of the upstream" in line]
    assert not [line for line in told["openai"] if "custom_include_body" in line]


async def test_claude_gets_the_prefill_of_a_preset(start: StartApp) -> None:
    upstream = {"dialect": "anthropic", "model": "claude-sonnet-4-5"}
    sent, _, built = await asked(start, [Wire(REPLIES["anthropic"])], upstream)
    assert sent["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "Aria nods."}]}
    assert built["request"] == sent


async def test_a_chat_without_a_preset_names_no_model_of_sillytaverns(start: StartApp) -> None:
    async with serve_wire(Wire(HELLO)) as server, start(**at(server, model=None)) as client:
        await client.post(CHAT, json=said())
    assert sent_json(server)["model"] == "main"


async def size_of(start: StartApp, upstream: dict[str, Any], *answers: Wire, **request: Any) -> tuple[int, Any]:
    """The status of a request, and the last thing that was sent."""
    async with serve_wire(*answers) as server, start(**at(server, **upstream)) as client:
        answer = await client.post(CHAT, json=said(**request))
    return answer.status_code, [(each.method, each.path) for each in server.requests]


async def test_long_replies_can_be_asked_for_without_a_preset(start: StartApp) -> None:
    models = Wire({"data": [{"id": "m", "max_model_len": 5000}]})
    status, asked = await size_of(start, {"context_length": None}, models, Wire(HELLO), max_tokens=4096)
    assert (status, asked) == (200, [("GET", "/v1/models"), ("POST", "/v1/chat/completions")])
    refused, _ = await size_of(start, {"context_length": None}, models, max_tokens=5000)
    assert refused == 400
    unknown = Wire({}, status=404)
    assert (await size_of(start, {"context_length": None}, unknown, Wire(HELLO), max_tokens=4096))[0] == 200
    assert (await size_of(start, {"context_length": 4096}, max_tokens=4096))[0] == 400
    longer: Any = {"max_tokens": 4096, "tavernkit": {"context_length": 9000}}
    assert (await size_of(start, {"context_length": 4096}, Wire(HELLO), **longer))[0] == 200


async def test_a_preset_gets_no_longer_context_than_the_model_has(start: StartApp) -> None:
    async with serve_wire(Wire(HELLO)) as server, start(**at(server, context_length=1000)) as client:
        await add_preset(client)  # wants 8,000
        body = {**said("word " * 3000), "model": "aria@own"}
        assert (await client.post(CHAT, json=body)).status_code == 400
        risu = {"platform": "risu_ai"}
        assert (await client.post(CHAT, json={**said("word " * 3000), "tavernkit": risu})).status_code == 400
        longer = {**risu, "context_length": 8000}
        assert (await client.post(CHAT, json={**said("word " * 3000), "tavernkit": longer})).status_code == 200


async def test_context_sizes_are_known_or_asked() -> None:
    assert (known_length("openai/GPT-4o-mini"), known_length("my-model")) == (128_000, None)
    now, asked = [0.0], list[str]()

    async def call(path: str) -> Any:
        asked.append(path)
        if path == "../props":
            return {"default_generation_settings": {"n_ctx": 2048}}
        return {"data": [{"id": "some.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]}

    llama = ContextLength(None, call, clock=lambda: now[0])
    assert [await llama.of("any") for _ in range(2)] == [2048, 2048]
    assert asked == ["/models", "../props"]
    now[0] = 601
    await llama.of("any")
    assert len(asked) == 4

    async def fails(path: str) -> Any:
        raise HTTPError("no", status=500)

    llama._call = fails
    now[0] = 1300
    assert await llama.of("any") == 2048  # as before, while the server does not answer
    assert await ContextLength(None, fails).of("claude-x") == 200_000
    assert await ContextLength(None, fails).of("nobody-knows") == CONTEXT_LENGTH
    assert await ContextLength(4096, fails).of("claude-x") == 4096


async def test_user_chooses_no_session_unless_it_is_switched_on(start: StartApp) -> None:
    async with start(user_is_session=False) as client:
        answer = (await client.post(CHAT, json=said(user="ann"))).json()
        assert "session_id" not in answer.get("tavernkit", {})
        named = (await client.post(CHAT, json=said(user="ann", tavernkit={"session": "s1"}))).json()
        same = (await client.post(CHAT, json=said(), headers={"X-Tavern-Session": "s1"})).json()
        assert named["tavernkit"]["session_id"] == same["tavernkit"]["session_id"]


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
@pytest.mark.parametrize("session", [None, "s"])
async def test_names_of_users_become_speakers(start: StartApp, platform: str, session: str | None) -> None:
    messages = [
        {"role": "user", "content": "Who is there?", "name": "Bob"},
        {"role": "user", "content": "It is me.", "name": "Cid"},
    ]
    body: dict[str, Any] = {"model": "aria", "messages": messages, "tavernkit": {"platform": platform}}
    async with serve_wire(Wire(HELLO)) as server, start(**at(server)) as client:
        answer = await client.post(CHAT, json=body, headers={"X-Tavern-Session": session} if session else {})
        assert answer.status_code == 200, answer.text
    text = json.dumps(sent_json(server)["messages"])
    assert "Bob: Who is there?" in text
    assert "Cid: It is me." in text


AUDIO: dict[str, Any] = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
PDF: dict[str, Any] = {
    "type": "file",
    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
}


@pytest.mark.parametrize("platform", ["silly_tavern", "risu_ai"])
async def test_sounds_and_files_reach_the_model(start: StartApp, platform: str) -> None:
    parts = [{"type": "text", "text": "Listen."}, AUDIO, PDF, {"type": "smell"}]
    body: dict[str, Any] = {
        "model": "aria",
        "messages": [{"role": "user", "content": parts}],
        "tavernkit": {"platform": platform},
    }
    async with serve_wire(Wire(HELLO)) as server, start(**at(server)) as client:
        told = (await client.post(CHAT, json=body, headers=HEADERS)).json()["tavernkit"]
    last = [each for each in sent_json(server)["messages"] if each["role"] == "user"][-1]
    assert [part["type"] for part in last["content"]] == ["text", "input_audio", "file"]
    assert last["content"][1] == AUDIO
    assert told["warnings"] == ["parts of the type 'smell' are not supported and were left out"]


async def test_parts_that_a_protocol_does_not_have_are_told(start: StartApp) -> None:
    body = said()
    body["messages"][0]["content"] = [{"type": "text", "text": "Listen."}, AUDIO]
    config = {"dialect": "anthropic"}
    async with serve_wire(Wire(REPLIES["anthropic"])) as server, start(**at(server, **config)) as client:
        told = (await client.post(CHAT, json=body)).json()["tavernkit"]
    assert "UklGRg==" not in json.dumps(sent_json(server))
    assert any("audio" in warning for warning in told["warnings"])
