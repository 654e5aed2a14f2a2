"""The other endpoints of OpenAI-compatible servers: embeddings, reranking, models, health, audio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from tavernkit.arguments import checked, require
from tavernkit.errors import ConfigError
from tavernkit.values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.vibe_tavern.errors import HTTPError, TransportError
from tavernkit.vibe_tavern.transports import sdk
from tavernkit.vibe_tavern.transports.openai import OpenAITransport

AudioFile = bytes | IO[bytes] | tuple[str, bytes]
"""The bytes of an audio file, an open file, or a name with bytes."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """An answer: its JSON (or text), and its status, which is an error's only if errors are not raised."""

    body: Json
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])


class OpenAIEndpoints:
    """Calls the endpoints of a server besides chat, over a transport's connections.

    With ``raise_on_error=False`` an error status is an answer like any other.
    """

    @checked
    def __init__(self, transport: OpenAITransport, *, raise_on_error: bool = True) -> None:
        self._transport = transport
        self._redactor = transport.endpoint.redactor
        self._raise_on_error = raise_on_error

    @checked
    async def embeddings(self, *, model: str, input: str | Sequence[str], **options: Json) -> EndpointResponse:  # noqa: A002  # the protocol's name
        """Embed texts."""
        return await self._post("/embeddings", {"model": model, "input": _texts(input), **options})

    @checked
    async def rerank(self, *, model: str, query: str, documents: Sequence[str], **options: Json) -> EndpointResponse:
        """Order documents by how well they answer a query."""
        return await self._post(
            "/rerank", {"model": model, "query": query, "documents": list[Json](documents), **options}
        )

    async def list_models(self) -> EndpointResponse:
        """List the models that the server offers."""
        return await self._get("/models")

    async def models(self) -> list[str]:
        """The ids of the models that the server offers."""
        body = (await self.list_models()).body
        listed = body.get("data") if is_object(body) else None
        found = [model.get("id") for model in listed if is_object(model)] if is_list(listed) else []
        return [name for name in found if isinstance(name, str)]

    async def health(self) -> EndpointResponse:
        """Ask the server how it is."""
        return await self._get(f"{self._transport.endpoint.base_url}/health")

    async def healthy(self) -> bool:
        """Tell whether the server answers that it is well."""
        try:
            response = await self.health()
        except TransportError:
            return False
        return response.status == 200 and (not is_object(response.body) or response.body.get("status", "ok") == "ok")

    @checked
    async def audio_transcriptions(self, *, file: AudioFile, model: str, **options: Json) -> EndpointResponse:
        """Write down what is said in a recording."""
        return await self._upload("/audio/transcriptions", file, {"model": model, **options})

    @checked
    async def audio_translations(self, *, file: AudioFile, model: str, **options: Json) -> EndpointResponse:
        """Write down in English what is said in a recording."""
        return await self._upload("/audio/translations", file, {"model": model, **options})

    async def _get(self, path: str) -> EndpointResponse:
        return await self._called(lambda: self._transport.client.get(path, cast_to=object))

    async def _post(self, path: str, body: JsonObject) -> EndpointResponse:
        return await self._called(lambda: self._transport.client.post(path, cast_to=object, body=body))

    async def _upload(self, path: str, file: AudioFile, fields: JsonObject) -> EndpointResponse:
        if not (isinstance(file, (bytes, tuple)) or hasattr(file, "read")):
            require("file", file, bytes, "bytes, an open file, or a tuple of a name and bytes")
        if not fields.get("model"):
            raise ConfigError("a model is needed", code="MODEL_REQUIRED")
        named: Any = file if isinstance(file, tuple) else ("audio", file)
        return await self._called(
            lambda: self._transport.client.post(
                path,
                cast_to=object,
                body=fields,
                files=[("file", named)],
                options={"headers": {"Content-Type": "multipart/form-data"}},
            )
        )

    async def _called(self, call: Callable[[], Awaitable[object]]) -> EndpointResponse:
        try:
            body = await sdk.guarded(call(), self._redactor)
        except HTTPError as error:
            if self._raise_on_error:
                raise
            return EndpointResponse(
                error.raw_body if error.body is None else thaw(error.body), error.status, error.headers
            )
        return EndpointResponse(thaw(body))


def _texts(value: str | Sequence[str]) -> Json:
    return value if isinstance(value, str) else list[Json](value)
