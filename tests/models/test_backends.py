"""Text-completion servers and Cohere over a real connection, each in its own protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tavernkit as tk
from tavernkit.models import BackendModel, ConnectionFailedError, Endpoint, HTTPError, ModelError, ProviderError, Usage
from tavernkit.models._bodies import TEXT_SERVERS
from tavernkit.models._cohere import CohereReader
from tavernkit.models._factory import PROVIDERS
from tavernkit.models._openai import BACKENDS
from tavernkit.models._readers import Reader
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import pieces_of, text_of

KEY = "sk-very-secret-key-123"
OPTIONS = {"temperature": 0.5, "max_tokens": 50, "repetition_penalty": 1.1, "seed": 4}
SAID = [{"text": "Hel"}, {"text": "lo."}]


def ask(**fields: Any) -> tk.Request:
    return tk.Request(**{"prompt": "Once", "options": OPTIONS, "stop": ("\nUser:",), **fields})


def lines(events: Sequence[Any]) -> Wire:
    """An answer with one JSON object per line."""
    raw = "".join(f"{json.dumps(event)}\n" for event in events).encode()
    return Wire(raw=raw, headers={"content-type": "application/x-ndjson"})


OPENAI_BODY = {
    "model": "m",
    "prompt": "Once",
    "temperature": 0.5,
    "max_tokens": 50,
    "repetition_penalty": 1.1,
    "seed": 4,
    "stop": ["\nUser:"],
}
NATIVE: dict[str, dict[str, Any]] = {
    "llamacpp": {
        "path": "/completion",
        "body": {
            "prompt": "Once",
            "cache_prompt": True,
            "temperature": 0.5,
            "n_predict": 50,
            "repeat_penalty": 1.1,
            "seed": 4,
            "stream": False,
            "stop": ["\nUser:"],
        },
        "whole": {"content": "Hello.", "stop": True, "tokens_evaluated": 5, "tokens_predicted": 2},
        "events": [
            {"content": "Hel", "stop": False},
            {"content": "lo.", "stop": False},
            {
                "content": "",
                "stop": True,
                "stop_type": "limit",
                "tokens_evaluated": 5,
                "tokens_predicted": 2,
                "timings": {"cache_n": 3},
            },
        ],
    },
    "ollama": {
        "path": "/api/generate",
        "body": {
            "model": "m",
            "prompt": "Once",
            "raw": True,
            "stream": False,
            "options": {
                "temperature": 0.5,
                "num_predict": 50,
                "repeat_penalty": 1.1,
                "seed": 4,
                "stop": ["\nUser:"],
            },
        },
        "whole": {"response": "Hello.", "done": True, "prompt_eval_count": 5, "eval_count": 2},
        "events": [
            {"response": "Hel", "done": False},
            {"response": "lo.", "done": False},
            {"response": "", "done": True, "done_reason": "length", "prompt_eval_count": 5, "eval_count": 2},
        ],
    },
    "kobold": {
        "path": "/api/v1/generate",
        "stream_path": "/api/extra/generate/stream",
        "body": {
            "prompt": "Once",
            "temperature": 0.5,
            "max_length": 50,
            "rep_pen": 1.1,
            "sampler_seed": 4,
            "stop_sequence": ["\nUser:"],
        },
        "whole": {"results": [{"text": "Hello.", "prompt_tokens": 5, "completion_tokens": 2}]},
        "events": [
            {"token": "Hel", "finish_reason": "null"},
            {"token": "lo.", "finish_reason": None},
            {"token": "", "finish_reason": "length"},
        ],
    },
    "novelai": {
        "path": "/ai/generate",
        "stream_path": "/ai/generate-stream",
        "body": {
            "input": "Once",
            "model": "m",
            "parameters": {
                "use_string": True,
                "generate_until_sentence": True,
                "return_full_text": False,
                "temperature": 0.5,
                "max_length": 50,
                "repetition_penalty": 1.1,
            },
        },
        "whole": {"output": "Hello."},
        "events": [{"token": "Hel", "ptr": 0, "final": False}, {"token": "lo.", "ptr": 1, "final": True}],
    },
}
OPENAI_LIKE: dict[str, Any] = {
    "path": "/v1/completions",
    "body": OPENAI_BODY,
    "whole": {"choices": [{"text": "Hello.", "finish_reason": "stop"}], "usage": {"prompt_tokens": 5}},
    "events": [
        *({"choices": [{**piece, "finish_reason": None}]} for piece in SAID),
        {"choices": [{"text": "", "finish_reason": "length"}]},
    ],
}


def protocol(backend: str) -> dict[str, Any]:
    return NATIVE.get(backend, OPENAI_LIKE)


def answer(backend: str, events: Sequence[Any]) -> Wire:
    return lines(events) if backend == "ollama" else Wire(events=events)


def connect(backend: str, url: str, warnings: list[str] | None = None, **fields: Any) -> tk.Model:
    warn = (warnings if warnings is not None else []).append
    return tk.model(f"{backend}:m", base_url=url, api_key=KEY, max_retries=0, warn=warn, **fields)


def test_every_backend_of_sillytavern_has_a_name() -> None:
    from tavernkit.silly_tavern.providers import CHAT_SOURCES, TEXT_BACKENDS

    # cometapi is disabled in SillyTavern itself; openrouter speaks text completion at the same address.
    assert {*CHAT_SOURCES, *TEXT_BACKENDS} - {"cometapi"} <= {*PROVIDERS, "claude", "makersuite", "mistralai"}
    assert {*TEXT_SERVERS, *NATIVE} == {*BACKENDS}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_request_is_written_and_the_reply_read(backend: str) -> None:
    known = protocol(backend)
    async with serve_wire(Wire(known["whole"])) as server, connect(backend, server.url) as model:
        assert model.dialect == "text"
        reply = await model.send(ask())
    body = known["body"]
    if backend == "togetherai":
        body = {name: value for name, value in body.items() if name != "seed"}
    if backend == "generic":
        body = {name: value for name, value in body.items() if name != "repetition_penalty"}
    assert sent_json(server) == body
    sent = server.requests[0]
    prefix = PROVIDERS[backend].api_prefix
    assert sent.path == known["path"].replace("/v1/", f"{prefix}/" if backend not in NATIVE else "/v1/")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert ("x-api-key" in sent.headers) is (backend in ("tabby", "aphrodite", "mancer"))
    assert reply.text == "Hello."
    if backend in ("llamacpp", "ollama", "kobold"):
        assert reply.usage == Usage(input_tokens=5, output_tokens=2, reported=True)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_stream_is_read_piece_by_piece(backend: str) -> None:
    known = protocol(backend)
    async with serve_wire(answer(backend, known["events"])) as server, connect(backend, server.url) as model:
        pieces = await pieces_of(model, ask())
    assert [piece.text for piece in pieces if piece.text] == ["Hel", "lo."]
    assert pieces[-1].finish_reason == ("unknown" if backend == "novelai" else "length")
    if backend in ("kobold", "novelai"):
        assert server.requests[0].path == known["stream_path"]
    else:
        assert sent_json(server)["stream"] is True


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"detail": {"msg": "Server is busy", "type": "service_unavailable"}}, "Server is busy"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
        ({"statusCode": 402, "message": "no subscription"}, "no subscription"),
    ],
)
async def test_errors_inside_a_good_answer_are_errors(backend: str, body: Any, message: str) -> None:
    title = PROVIDERS[backend].title
    answers = (Wire(body), answer(backend, [protocol(backend)["events"][0], body]), Wire(body, status=503))
    async with serve_wire(*answers) as server, connect(backend, server.url) as model:
        with pytest.raises(ProviderError) as whole:
            await model.send(ask())
        with pytest.raises(ProviderError) as streamed:
            await pieces_of(model, ask())
        with pytest.raises(HTTPError) as refused:
            await model.send(ask())
    assert str(whole.value) == str(streamed.value) == str(refused.value) == f"{title}: {message}"
    assert streamed.value.partial is not None
    assert streamed.value.partial.text == "Hel"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_nothing_said_is_no_reply(backend: str) -> None:
    bodies: list[Any] = [{}, {"choices": []}, {"choices": [{"text": None}]}, {"results": []}]
    async with serve_wire(*map(Wire, bodies)) as server, connect(backend, server.url) as model:
        for _ in bodies:
            with pytest.raises(ProviderError, match="sent no reply"):
                await model.send(ask())


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_cut_stream_is_an_error_with_its_beginning(backend: str) -> None:
    begun = protocol(backend)["events"][:1]
    async with serve_wire(answer(backend, begun)) as server, connect(backend, server.url) as model:
        with pytest.raises(ConnectionFailedError) as cut:
            await pieces_of(model, ask())
    assert cut.value.partial is not None
    assert cut.value.partial.text == "Hel"


@pytest.mark.parametrize(
    ("backend", "left_out"),
    [("togetherai", "Together AI does not take seed"), ("novelai", "NovelAI takes no stop strings"),
     ("generic", "the server does not take repetition_penalty"), ("kobold", "KoboldAI does not take logit_bias")],
)  # fmt: skip
async def test_what_a_server_does_not_take_is_named(backend: str, left_out: str) -> None:
    warnings: list[str] = []
    async with (
        serve_wire(Wire(protocol(backend)["whole"])) as server,
        connect(backend, server.url, warnings) as model,
    ):
        await model.send(ask(options={**OPTIONS, "logit_bias": {"1": 2}} if backend == "kobold" else OPTIONS))
    assert any(left_out in warning for warning in warnings)


async def test_an_address_may_stand_in_place_of_the_name() -> None:
    async with (
        serve_wire(Wire(OPENAI_LIKE["whole"])) as server,
        tk.model(f"koboldcpp:{server.url}/v1", environment={}) as model,
    ):
        assert (await model.send(ask())).text == "Hello."
    assert server.requests[0].path == "/v1/completions"
    assert "model" not in sent_json(server)
    assert "authorization" not in server.requests[0].headers


async def test_servers_with_several_models_want_a_name() -> None:
    with pytest.raises(tk.ConfigError, match="which model"):
        await tk.model("ollama:http://localhost:9").send(ask())
    with pytest.raises(tk.ConfigError, match="NOVELAI_API_KEY"):
        await tk.model("novelai:kayra-v1", environment={}).send(ask())
    with pytest.raises(tk.ConfigError, match="unknown text backend 'horde'"):
        BackendModel("", Endpoint(), backend="horde")


def test_novelais_older_models_have_another_host() -> None:
    model = BackendModel("", Endpoint(base_url="https://text.novelai.net", api_prefix=""), backend="novelai")
    assert model.path(ask(model="clio-v1"), stream=False) == "https://api.novelai.net/ai/generate"
    assert model.path(ask(model="llama-3-erato-v1"), stream=True) == "/ai/generate-stream"


async def test_a_chat_is_sent_as_text() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    async with serve_wire(Wire(NATIVE["llamacpp"]["whole"])) as server, connect("llamacpp", server.url) as model:
        await model.send(tk.Request(messages=messages))
    assert sent_json(server)["prompt"] == "a\nb"


COHERE_WHOLE = {
    "id": "1",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"text": "Hello."}]},
    "usage": {"tokens": {"input_tokens": 5, "output_tokens": 2}},
}
COHERE_EVENTS = [
    {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}},
    {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "hm"}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hel"}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "lo."}}}},
    {"type": "content-end", "index": 0},
    {
        "type": "tool-call-start",
        "index": 0,
        "delta": {"message": {"tool_calls": {"id": "c1", "function": {"name": "roll", "arguments": ""}}}},
    },
    {"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls": {"function": {"arguments": "{}"}}}}},
    {
        "type": "message-end",
        "delta": {"finish_reason": "TOOL_CALL", "usage": {"tokens": {"input_tokens": 5, "output_tokens": 2}}},
    },
]


async def test_coheres_chat_api_both_ways() -> None:
    tool = {"type": "function", "function": {"name": "roll", "parameters": {"type": "object"}}}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    chat = tk.Request(
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        options={"temperature": 0.5, "top_p": 0.9, "top_k": 4, "max_tokens": 50},
        stop=("END",),
        tools=(tool,),
        tool_choice="required",
        response_format=schema,
    )
    async with serve_wire(Wire(COHERE_WHOLE), Wire(events=COHERE_EVENTS)) as server, connect("cohere", server.url) as m:
        whole = await m.send(chat)
        streamed = await m.send(chat, on_delta=lambda _: None)
    assert server.requests[0].path == "/v2/chat"
    assert sent_json(server, 0) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "p": 0.9,
        "k": 4,
        "max_tokens": 50,
        "stream": False,
        "stop_sequences": ["END"],
        "tools": [tool],
        "tool_choice": "REQUIRED",
        "response_format": {"type": "json_object", "json_schema": {"type": "object"}},
    }
    assert (whole.text, whole.reasoning, whole.finish_reason) == ("Hello.", "hm", "stop")
    assert (streamed.text, streamed.reasoning, streamed.finish_reason) == ("Hello.", "hm", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in streamed.tool_calls] == [("c1", "roll", "{}")]
    assert whole.usage == streamed.usage == Usage(input_tokens=5, output_tokens=2, reported=True)


async def test_coheres_errors() -> None:
    answers = (
        Wire({"id": "1", "message": "invalid request"}),
        Wire(events=[*COHERE_EVENTS[:4], {"type": "message-end", "delta": {"error": "overloaded"}}]),
        Wire(events=COHERE_EVENTS[:4]),
        Wire({"message": {"role": "assistant"}}),
        Wire({"message": {"role": "assistant", "content": None, "tool_calls": None}, "finish_reason": "COMPLETE"}),
        Wire({"message": "too many"}, status=429),
    )
    chat = tk.Request(messages=[{"role": "user", "content": "hi"}])
    async with serve_wire(*answers) as server, connect("cohere", server.url) as model:
        with pytest.raises(ProviderError, match="Cohere: invalid request"):
            await model.send(chat)
        with pytest.raises(ProviderError, match="overloaded"):
            await pieces_of(model, chat)
        with pytest.raises(ConnectionFailedError):
            await pieces_of(model, chat)
        with pytest.raises(ProviderError, match="no reply"):
            await model.send(chat)
        with pytest.raises(ProviderError, match="COMPLETE"):
            await model.send(chat)
        with pytest.raises(HTTPError, match="Cohere: too many"):
            await model.send(chat)


@pytest.mark.parametrize(
    ("name", "path", "header"),
    [
        ("azure_openai:my-deployment", "/openai/v1/chat/completions", "api-key"),
        ("groq:m", "/v1/chat/completions", "authorization"),
        ("perplexity:m", "/chat/completions", "authorization"),
        ("claude:m", "/v1/messages", "x-api-key"),
        ("makersuite:m", "/v1beta/models/m:generateContent", "x-goog-api-key"),
        ("vertexai:m", "/v1/publishers/google/models/m:generateContent", "x-goog-api-key"),
    ],
)
async def test_chat_sources_have_their_paths_and_key_headers(name: str, path: str, header: str) -> None:
    async with (
        serve_wire(Wire({"error": {"message": "stop here"}})) as server,
        tk.model(name, base_url=server.url, api_key=KEY, max_retries=0) as model,
    ):
        with pytest.raises(ProviderError, match="stop here"):
            await model.send(tk.Request(messages=[{"role": "user", "content": "hi"}]))
    assert server.requests[0].path == path
    assert KEY in server.requests[0].headers[header]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(
        {"choices", "text", "delta", "message", "content", "usage", "error", "detail", "results", "token", "stop",
         "response", "output", "final", "done", "type", "tool_calls"}
    )), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(["choices", "content", "message", "results", "type", "delta"]), JSON)
READERS: list[Any] = [CohereReader, *(backend.reader for backend in BACKENDS.values())]


@given(st.sampled_from(READERS), st.lists(OBJECTS, max_size=3))
def test_no_answer_breaks_a_reader(make: Any, events: list[Any]) -> None:
    reader: Reader = make()
    try:
        pieces = [reader.read(event) for event in events]
        reader.finish(streamed=False)
    except ModelError:
        return
    assert isinstance(text_of(pieces), str)
