"""Replies: how pieces come together, and what counts as none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tavernkit._values import freeze_object, thaw
from tavernkit.errors import ConfigError
from tavernkit.models import (
    Accumulator,
    AnthropicModel,
    ConnectionFailedError,
    DecodeError,
    Endpoint,
    HTTPError,
    OpenAIModel,
    ProviderError,
    Reply,
    ReplyPiece,
    Request,
    ScriptedModel,
    TextModel,
    ToolCallPiece,
    Usage,
    WireRequest,
)
from tavernkit.models._anthropic import AnthropicReader
from tavernkit.models._cohere import CohereReader
from tavernkit.models._google import GoogleReader
from tavernkit.models._readers import LlamaCppReader, OpenAIReader, Reader
from tavernkit.testing import Body, Disconnect, RawBytes, calls, serve, streamed, tool_call
from tests.models.native_server import Wire, sent_json, serve_wire
from tests.models.support import ask, pieces_of
from tests.quickness import at_most


def test_fragments_of_several_calls_are_put_together() -> None:
    collected = Accumulator()
    for piece in (
        ToolCallPiece(index=0, id="a", name="roll"),
        ToolCallPiece(index=1, id="b", name="wait"),
        ToolCallPiece(index=0, arguments='{"sides"'),
        ToolCallPiece(index=0, arguments=": 6}", extra={"signature": "s"}),
    ):
        collected.add(ReplyPiece(tool_calls=(piece,)))
    assert [call.to_dict() for call in collected.reply().tool_calls] == [
        {"id": "a", "type": "function", "function": {"name": "roll", "arguments": '{"sides": 6}'}, "signature": "s"},
        {"id": "b", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
    ]


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    collected = Accumulator()
    placed = [
        collected.add(ReplyPiece(tool_calls=(ToolCallPiece(index=0, id=each, name=each),))) for each in ("a", "b")
    ]
    assert [piece.tool_calls[0].index for piece in placed] == [0, 1]
    assert [call.id for call in collected.reply().tool_calls] == ["a", "b"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_streamed_and_whole_replies_are_equal(streaming: bool) -> None:
    called = tool_call("roll", {"sides": 6}, id="c1")
    counts: Any = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    model = ScriptedModel(calls(called, text="Let me roll.", usage=counts))
    reply = await model.send(ask(), on_delta=(lambda _: None) if streaming else None)
    assert (reply.text, reply.finish_reason, reply.model) == ("Let me roll.", "tool_calls", "scripted-model")
    assert [call.to_dict() for call in reply.tool_calls] == [called]
    assert reply.usage == Usage(input_tokens=9, output_tokens=4, cached_tokens=8, reasoning_tokens=3, reported=True)


EMPTY: list[Any] = [
    {},
    {"choices": []},
    {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]},
    {"choices": [{"message": {}, "finish_reason": "length"}]},
    {"error": {"message": "No endpoints found", "code": 404}},
    {"object": "error", "message": "overloaded"},
    {"detail": "not here"},
    {"detail": [{"loc": ["body", "model"], "msg": "Field required"}]},
    {"success": False, "errors": [{"code": 5007, "message": "No such model"}], "result": {}},
    {
        "choices": [
            {"message": {"content": "Half"}, "finish_reason": "error", "error": {"code": 502, "message": "gone"}}
        ]
    },
]


@pytest.mark.parametrize("body", EMPTY)
async def test_no_reply_inside_200_is_an_error(body: Any) -> None:
    async with serve(ScriptedModel(Body(body), Body(body))) as server, OpenAIModel("m", _at(server.url)) as model:
        for attempt in (model.send(ask()), pieces_of(model)):
            with pytest.raises(ProviderError) as caught:
                await attempt
            assert caught.value.partial is None
    for streaming in (False, True):
        scripted = ScriptedModel(Body(body))
        with pytest.raises(ProviderError):
            await scripted.send(ask(), on_delta=(lambda _: None) if streaming else None)


async def test_an_empty_body_is_an_error() -> None:
    empty = RawBytes([b""], "application/json")
    async with serve(ScriptedModel(empty, empty)) as server, OpenAIModel("m", _at(server.url)) as model:
        for attempt in (model.send(ask()), pieces_of(model)):
            with pytest.raises(ProviderError, match="empty body"):
                await attempt


@pytest.mark.parametrize("delta", [{"role": "assistant", "content": None}, {}])
async def test_a_stream_that_says_nothing_is_an_error(delta: Any) -> None:
    events = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    blocks = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    script = RawBytes([*blocks, b"data: [DONE]\n\n"])
    async with serve(ScriptedModel(script)) as server, OpenAIModel("m", _at(server.url)) as model:
        with pytest.raises(ProviderError, match="finish reason: stop"):
            await pieces_of(model)


@pytest.mark.parametrize(
    "message", [{"content": ""}, {"content": None, "refusal": "no"}, {"content": None, "reasoning_content": "hm"}]
)
async def test_an_empty_text_a_refusal_and_reasoning_are_replies(message: Any) -> None:
    reply = await ScriptedModel(Body({"choices": [{"message": message, "finish_reason": "stop"}]})).send(ask())
    assert reply.text == ""
    assert reply.refusal + reply.reasoning == "".join(str(value) for value in message.values() if value)


@pytest.mark.parametrize("body", [{}, {"type": "message"}, {"type": "error", "error": {"message": "busy"}}])
async def test_no_reply_of_anthropic_is_an_error(body: Any) -> None:
    async with serve_wire(Wire(body)) as server, AnthropicModel("m", _at(server.url)) as model:
        with pytest.raises(ProviderError):
            await model.send(ask())


def _read_stream(reader: Reader, events: list[Any]) -> None:
    for event in events:
        reader.read(event)
    reader.finish(streamed=True)


READERS: list[Any] = [OpenAIReader, AnthropicReader, GoogleReader, CohereReader, LlamaCppReader]


@pytest.mark.parametrize("make", READERS)
@pytest.mark.parametrize(
    "error", [{"type": "error", "message": "busy"}, {"detail": [{"msg": "busy"}]}, {"errors": [{"message": "busy"}]}]
)
def test_an_error_of_any_shape_that_ends_a_stream_is_reported(make: Any, error: Any) -> None:
    with pytest.raises(ProviderError, match=r"^busy$"):
        _read_stream(make(), [error])


def test_an_error_of_one_choice_names_its_status() -> None:
    choice = {"error": {"code": 429, "message": "slow down"}, "message": {"content": None}}
    with pytest.raises(ProviderError, match="slow down") as caught:
        OpenAIReader().read({"choices": [choice]})
    assert caught.value.status == 429


ARGUMENTS: list[tuple[Any, str]] = [
    ('{"sides":', '{"sides":'),
    ("no json", "no json"),
    ({"sides": 6}, '{"sides":6}'),
    ([6], "[6]"),
    ({}, "{}"),
    (None, "{}"),
]


@pytest.mark.parametrize(("arguments", "kept"), ARGUMENTS)
def test_every_reader_keeps_the_arguments_of_a_call(arguments: Any, kept: str) -> None:
    call = {"id": "c1", "function": {"name": "roll", "arguments": arguments}}
    used = {"type": "tool_use", "id": "c1", "name": "roll", "input": arguments}
    called = {"functionCall": {"id": "c1", "name": "roll", "args": arguments}}
    answers: list[tuple[Reader, Any]] = [
        (OpenAIReader(), {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}),
        (CohereReader(), {"message": {"tool_calls": [call]}}),
        (AnthropicReader(), {"content": [used]}),
        (GoogleReader(), {"candidates": [{"content": {"parts": [called]}}]}),
    ]
    for reader, body in answers:
        collected = Accumulator()
        collected.add(reader.read(body))
        reader.finish(streamed=False)
        assert [each.arguments for each in collected.reply().tool_calls] == [kept], type(reader).__name__


def _read(reader: Reader, events: list[Any]) -> Reply:
    collected = Accumulator()
    for event in events:
        collected.add(reader.read(event))
    reader.finish(streamed=len(events) > 1)
    return collected.reply()


CANDIDATES: list[tuple[Any, list[Any]]] = [
    (
        OpenAIReader,
        [{"choices": [{"message": {"content": "One"}, "finish_reason": "stop"}, {"message": {"content": "Two"}}]}],
    ),
    (
        OpenAIReader,
        [
            {"choices": [{"index": 0, "delta": {"content": "O"}}]},
            {"choices": [{"index": 1, "delta": {"content": "Tw"}}]},
            {"choices": [{"index": 0, "delta": {"content": "ne"}, "finish_reason": "stop"}]},
            {"choices": [{"index": 1, "delta": {"content": "o"}, "finish_reason": "length"}]},
        ],
    ),
    (OpenAIReader, [{"choices": [{"index": 0, "text": "One"}, {"index": 1, "text": "Two"}]}]),
    (
        GoogleReader,
        [
            {
                "candidates": [
                    {"index": 0, "content": {"parts": [{"text": "O"}]}},
                    {"index": 1, "content": {"parts": [{"text": "Two"}]}},
                ]
            },
            {"candidates": [{"content": {"parts": [{"text": "ne"}]}, "finishReason": "STOP"}]},
        ],
    ),
]


@pytest.mark.parametrize(("make", "events"), CANDIDATES)
def test_other_candidates_are_alternatives(make: Any, events: list[Any]) -> None:
    reply = _read(make(), events)
    assert (reply.text, reply.alternatives) == ("One", ("Two",))
    assert reply.finish_reason in ("stop", "unknown")


def test_a_block_of_anthropics_stream_may_begin_with_text() -> None:
    events = [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m."}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Hel"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    reply = _read(AnthropicReader(), events)
    assert (reply.text, reply.reasoning) == ("Hello.", "Hmm.")
    assert reply.extra["thinking"] == ({"type": "thinking", "thinking": "Hmm."},)


def test_reasoning_that_goes_back_to_the_router_is_joined() -> None:
    details: list[Any] = [
        [{"type": "reasoning.text", "index": 0, "text": "Let me ", "format": "f"}],
        [{"type": "reasoning.text", "index": 0, "text": "think."}],
        [{"type": "reasoning.text", "index": 0, "signature": "S1"}],
        [{"type": "reasoning.encrypted", "index": 0, "id": "c1", "data": "AAA"}],
        [{"type": "reasoning.encrypted", "index": 0, "id": "c1", "data": "BBB"}],
        None,
    ]
    events = [{"choices": [{"delta": {"reasoning_details": each}}]} for each in details]
    reply = _read(OpenAIReader(), [*events, {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}])
    assert thaw(reply.extra["reasoning_details"]) == [
        {"type": "reasoning.text", "index": 0, "text": "Let me think.", "format": "f", "signature": "S1"},
        {"type": "reasoning.encrypted", "index": 0, "id": "c1", "data": "AAA"},
        {"type": "reasoning.encrypted", "index": 0, "id": "c1", "data": "BBB"},
    ]
    blocks = [{"type": "reasoning.text", "text": "One."}, {"type": "reasoning.text", "text": "Two."}]
    whole = _read(OpenAIReader(), [{"choices": [{"message": {"content": "x", "reasoning_details": blocks}}]}])
    assert thaw(whole.extra["reasoning_details"]) == blocks


def test_a_server_that_numbers_its_only_candidate_in_its_own_way_is_understood() -> None:
    events = [
        {"choices": [{"index": 1, "delta": {"content": "One"}}]},
        {"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]},
    ]
    reply = _read(OpenAIReader(), events)
    assert (reply.text, reply.alternatives) == ("One", ())


async def test_a_broken_stream_keeps_what_was_said() -> None:
    model = ScriptedModel(Disconnect(after=["Hel", "lo"]), Disconnect())
    with pytest.raises(ConnectionFailedError) as caught:
        await pieces_of(model)
    partial = caught.value.partial
    assert partial is not None
    assert (partial.text, partial.interrupted) == ("Hello", str(caught.value))
    with pytest.raises(ConnectionFailedError) as caught:
        await pieces_of(model)
    assert caught.value.partial is None


@pytest.mark.parametrize(
    ("content_type", "portions"),
    [
        ("text/event-stream", [b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n', b'data: {"choices":[{"de']),
        ("application/x-ndjson", [b'{"choices":[{"delta":{"content":"Hel"}}]}\n', b'{"choices":[{"de']),
    ],
)
async def test_a_stream_cut_inside_an_event_keeps_what_was_said(content_type: str, portions: list[bytes]) -> None:
    cut = RawBytes(portions, content_type)
    async with serve(ScriptedModel(cut)) as server, OpenAIModel("m", _at(server.url)) as model:
        with pytest.raises(ConnectionFailedError, match="before the reply") as caught:
            await pieces_of(model)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"


async def test_a_broken_connection_keeps_what_was_said() -> None:
    scripted = ScriptedModel(Disconnect(after=["Hel", "lo"]))
    async with serve(scripted) as server, OpenAIModel("m", _at(server.url)) as model:
        with pytest.raises(ConnectionFailedError) as caught:
            await model.send(ask(), on_delta=lambda _: None)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello"


async def test_text_completion_has_its_own_path_and_body() -> None:
    scripted = ScriptedModel(streamed("Once ", "upon"), "a time")
    async with serve(scripted) as server, TextModel("m", _at(server.url)) as model:
        request = Request(prompt="Tell:", stop=("\n",), options={"max_tokens": 3})
        reply = await model.send(request, on_delta=lambda _: None)
        assert (reply.text, (await model.send(request)).text) == ("Once upon", "a time")
    assert [request.path for request in server.requests] == ["/v1/completions"] * 2
    assert scripted.requests[1] == {"model": "m", "prompt": "Tell:", "stop": ["\n"], "max_tokens": 3}


async def test_the_request_of_another_program_is_sent_as_it_is() -> None:
    answer = {"choices": [{"message": {"content": "hi"}}]}
    wire = WireRequest(method="POST", url="/odd/path?x=1", headers={"X-Mine": "yes"}, body={"b": 1, "a": [2]})
    async with serve_wire(Wire(answer), Wire(answer)) as server, OpenAIModel("m", _at(server.url)) as model:
        await model.send(ask(wire=wire))
        absolute = WireRequest(method="POST", url=f"{server.url}/there", headers={}, body={"c": 1})
        await model.send(ask(wire=absolute))
    first = server.requests[0]
    assert (first.path, first.body, first.headers["x-mine"]) == ("/odd/path?x=1", b'{"b":1,"a":[2]}', "yes")
    assert "authorization" not in first.headers
    assert server.requests[1].path == "/there"
    assert sent_json(server) == {"c": 1}


async def test_the_model_puts_its_key_into_a_request_without_one() -> None:
    answer = {"choices": [{"message": {"content": "hi"}}]}
    headers = {"Authorization": "Bearer <key>", "X-Mine": "yes"}
    wire = WireRequest(method="POST", url="/v1/there?key=<key>&alt=sse", headers=headers, body={})
    async with serve_wire(Wire(answer)) as server, OpenAIModel("m", _at(server.url, api_key="sk-secret")) as model:
        await model.send(ask(wire=wire))
    sent = server.requests[0]
    # A key in an address would be logged.
    assert (sent.path, sent.headers["x-goog-api-key"]) == ("/v1/there?alt=sse", "sk-secret")
    assert sent.headers["authorization"] == "Bearer sk-secret"
    assert wire.needs_key
    assert wire.with_key("k").url == "/v1/there?key=k&alt=sse"
    with pytest.raises(ConfigError, match="no API key"):
        wire.with_key(None)
    headless = WireRequest(method="POST", url="/v1/there", headers=headers, body={}).with_key(None)
    assert headless.headers == {"X-Mine": "yes"}


async def test_a_key_is_not_sent_to_another_host() -> None:
    headers = {"Authorization": "Bearer <key>"}
    wire = WireRequest(method="POST", url="https://elsewhere.example/v1", headers=headers, body={})
    async with OpenAIModel("m", _at("http://127.0.0.1:9", api_key="sk-secret")) as model:
        with pytest.raises(ConfigError, match="the key is for"):
            await model.send(ask(wire=wire))


async def test_an_error_does_not_show_the_key_of_the_request_itself() -> None:
    wire = WireRequest(method="POST", url="/x", headers={"Authorization": "Bearer sk-wire"}, body={})
    async with (
        serve_wire(Wire({"error": {"message": "bad key sk-wire"}}, status=401)) as server,
        OpenAIModel("m", _at(server.url)) as model,
    ):
        with pytest.raises(HTTPError) as refused:
            await model.send(ask(wire=wire))
    assert str(refused.value) == "bad key [redacted]"


async def test_redirects_are_not_followed() -> None:
    moved = Wire({}, status=307, headers={"location": "http://127.0.0.1:9/"})
    async with serve_wire(moved) as server, OpenAIModel("m", _at(server.url)) as model:
        with pytest.raises(Exception, match="redirects") as caught:
            await model.send(ask())
    assert vars(caught.value)["status"] == 307
    assert len(server.requests) == 1


async def test_passwords_in_addresses_go_into_a_header() -> None:
    answer = {"choices": [{"message": {"content": "hi"}}]}
    async with serve_wire(Wire(answer)) as server:
        url = server.url.replace("http://", "http://ann:pass-word@")
        async with OpenAIModel("m", _at(url)) as model:
            assert "pass-word" not in repr(model)
            await model.send(ask())
    assert server.requests[0].headers["authorization"].startswith("Basic ")


def _at(url: str, **fields: Any) -> Endpoint:
    return Endpoint(base_url=url, **fields)


def test_probabilities_of_many_tokens_are_put_together_in_linear_time() -> None:
    collected = Accumulator()
    with at_most(5):
        for number in range(10_000):
            probabilities = freeze_object({"content": [{"token": str(number)}], "refusal": None})
            collected.add(ReplyPiece(text="x", logprobs=probabilities))
        found = collected.reply().logprobs
    tokens = [{"token": str(number)} for number in range(10_000)]
    assert thaw(found) == {"content": tokens, "refusal": None}


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_reply_without_end_is_given_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_STREAM_BYTES", "MAX_RESPONSE_BYTES"):
        monkeypatch.setattr(f"tavernkit.models._http.{name}", 1000)
    endless = RawBytes([b": nothing\n\n"] * 500, kind)
    async with serve(ScriptedModel(endless)) as server, OpenAIModel("m", _at(server.url)) as model:
        with pytest.raises(DecodeError, match="larger than 1000 bytes"):
            await pieces_of(model)
