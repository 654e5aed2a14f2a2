"""The other endpoints of OpenAI-compatible servers: embeddings, reranking, models, health, audio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import IO, Any

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.errors import ConfigError
from tavernkit.models._openai import OpenAIModel
from tavernkit.models.errors import HTTPError, ModelError

AudioFile = bytes | IO[bytes] | tuple[str, bytes]
"""The bytes of an audio file, an open file, or a name with bytes."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """An answer: its JSON (or text) and its status. Error statuses occur only if errors are not raised."""

    body: Json
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])


class OpenAIEndpoints:
    """Calls a server's endpoints other than chat, over a model's connections.

    With ``raise_on_error=False`` an error status is an answer like any other.
    """

    def __init__(self, model: OpenAIModel, *, raise_on_error: bool = True) -> None:
        """Use a model's server.

        Args:
            model: The model.
            raise_on_error: Raise for error statuses.
        """
        self._model = model
        self._raise_on_error = raise_on_error

    async def embeddings(self, *, model: str, input: str | Sequence[str], **options: Json) -> EndpointResponse:  # noqa: A002  # the protocol's name
        """Embed texts.

        Args:
            model: The model's name.
            input: One text or several.
            options: Other fields of the request.
        """
        return await self._post("/embeddings", {"model": model, "input": _texts(input), **options})

    async def rerank(self, *, model: str, query: str, documents: Sequence[str], **options: Json) -> EndpointResponse:
        """Order documents by how well they answer a query.

        Args:
            model: The model's name.
            query: What the documents should answer.
            documents: The texts to order.
            options: Other fields of the request.
        """
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
        """Query the server's health endpoint."""
        return await self._get(f"{self._model.endpoint.base_url}/health")

    async def healthy(self) -> bool:
        """Return True if the server reports that it is healthy."""
        try:
            response = await self.health()
        except ModelError:
            return False
        return response.status == 200 and (not is_object(response.body) or response.body.get("status", "ok") == "ok")

    async def audio_transcriptions(self, *, file: AudioFile, model: str, **options: Json) -> EndpointResponse:
        """Transcribe a recording.

        Args:
            file: The recording.
            model: The model's name.
            options: Other fields of the request.
        """
        return await self._upload("/audio/transcriptions", file, {"model": model, **options})

    async def audio_translations(self, *, file: AudioFile, model: str, **options: Json) -> EndpointResponse:
        """Translate a recording into English text.

        Args:
            file: The recording.
            model: The model's name.
            options: Other fields of the request.
        """
        return await self._upload("/audio/translations", file, {"model": model, **options})

    async def _get(self, path: str) -> EndpointResponse:
        return await self._call("GET", path)

    async def _post(self, path: str, body: JsonObject) -> EndpointResponse:
        return await self._call("POST", path, json=body)

    async def _upload(self, path: str, file: AudioFile, fields: JsonObject) -> EndpointResponse:
        if not fields.get("model"):
            raise ConfigError("a model is needed", code="MODEL_REQUIRED")
        named = file if isinstance(file, tuple) else ("audio", file)
        return await self._call("POST", path, data=fields, files={"file": named})

    async def _call(self, method: str, path: str, **content: Any) -> EndpointResponse:
        try:
            body = await self._model.call(method, path, **content)
        except HTTPError as error:
            if self._raise_on_error:
                raise
            return EndpointResponse(
                error.raw_body if error.body is None else thaw(error.body), error.status, error.headers
            )
        return EndpointResponse(body)


def _texts(value: str | Sequence[str]) -> Json:
    return value if isinstance(value, str) else list[Json](value)
