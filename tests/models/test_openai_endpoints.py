"""The other endpoints of OpenAI-compatible servers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tavernkit.errors import ConfigError
from tavernkit.models import Endpoint, HTTPError, OpenAIEndpoints, OpenAIModel
from tavernkit.testing import HttpReply, HttpRequest, LoopbackServer
from tests.models.support import loose

ANSWERS: dict[str, Any] = {
    "/v1/embeddings": {"data": [{"embedding": [0.1, 0.2]}]},
    "/v1/rerank": {"results": [{"index": 1}]},
    "/v1/models": {"data": [{"id": "a"}, {"id": "b"}, {"no": "id"}]},
    "/health": {"status": "ok"},
    "/v1/audio/transcriptions": {"text": "hello"},
    "/v1/audio/translations": {"text": "hello"},
}


@asynccontextmanager
async def endpoints(answers: dict[str, Any], **options: Any) -> AsyncGenerator[tuple[OpenAIEndpoints, LoopbackServer]]:
    async def handle(request: HttpRequest) -> HttpReply:
        known = request.path in answers
        body = answers[request.path] if known else {"error": {"message": "no such path"}}
        return HttpReply(200 if known else 404, json.dumps(body).encode())

    async with LoopbackServer(handle).running() as server:
        model = OpenAIModel("", Endpoint(base_url=server.url, api_key="sk-123456"))
        yield OpenAIEndpoints(model, **options), server
        await model.aclose()


async def test_json_endpoints() -> None:
    async with endpoints(ANSWERS) as (client, server):
        assert loose((await client.embeddings(model="m", input=["a"])).body)["data"][0]["embedding"] == [0.1, 0.2]
        assert json.loads(server.requests[-1].body) == {"model": "m", "input": ["a"]}
        await client.rerank(model="m", query="q", documents=["a", "b"], top_n=1)
        assert json.loads(server.requests[-1].body)["documents"] == ["a", "b"]
        assert await client.models() == ["a", "b"]
        assert await client.healthy()
        assert server.requests[-1].path == "/health"


async def test_audio_is_uploaded_in_parts() -> None:
    async with endpoints(ANSWERS) as (client, server):
        said = await client.audio_transcriptions(file=("a.wav", b"RIFFxyz"), model="whisper", language="en")
        assert said.body == {"text": "hello"}
        request = server.requests[-1]
        assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
        for part in (b"RIFFxyz", b'name="model"', b"whisper", b'name="language"', b'filename="a.wav"'):
            assert part in request.body
        await client.audio_translations(file=b"RIFFxyz", model="whisper")
        with pytest.raises(ConfigError):
            await client.audio_transcriptions(file=b"x", model="")


async def test_errors_are_raised_or_returned() -> None:
    async with endpoints({}) as (client, _):
        with pytest.raises(HTTPError, match="no such path"):
            await client.list_models()
        assert not await client.healthy()
    async with endpoints({}, raise_on_error=False) as (client, _):
        response = await client.list_models()
        assert (response.status, response.body) == (404, {"error": {"message": "no such path"}})
        assert not await client.healthy()
        assert await client.models() == []


async def test_a_server_that_says_it_is_ill_is_not_healthy() -> None:
    async with endpoints({"/health": {"status": "degraded"}}) as (client, _):
        assert not await client.healthy()
