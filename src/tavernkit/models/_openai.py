"""OpenAI-compatible servers: chat and text completions, backends for text completion, and other endpoints.

Some backends have a protocol of their own for completions and share the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import IO, Any, Final

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._http import HttpModel
from tavernkit.models._options import ServerFields
from tavernkit.models._readers import KoboldReader, LlamaCppReader, NovelAIReader, OllamaReader, OpenAIReader, Reader
from tavernkit.models._request import Request
from tavernkit.models.errors import HTTPError, ModelError

_OTHER_PROTOCOLS: Final = frozenset(("anthropic", "google", "cohere", "text"))


class OpenAIModel(HttpModel):
    """A model that speaks OpenAI's chat completions: OpenAI's own, OpenRouter's, vLLM's, llama.cpp's.

    >>> OpenAIModel("gpt-4o", Endpoint(base_url="https://api.openai.com", api_key="…key…"))    # doctest: +SKIP
    """

    dialect = "openai"
    default_endpoint = Endpoint(base_url="https://api.openai.com")

    def path(self, request: Request, *, stream: bool) -> str:
        """Chat completions."""
        del request, stream
        return "/chat/completions"

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key as a bearer token; servers without keys get none."""
        del request
        key = self.endpoint.api_key
        return {"authorization": f"Bearer {key}"} if key else {}

    def reader(self) -> Reader:
        """Reads one reply."""
        return OpenAIReader()

    def protocol_of(self, request: Request) -> str:
        """Dialects that only write messages differently (``mistral``, your own) are kept."""
        return self.dialect if request.dialect in _OTHER_PROTOCOLS else request.dialect


class AzureModel(OpenAIModel):
    """A deployment of OpenAI's models on Azure; the model's name is the deployment's."""

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key, in Azure's header."""
        del request
        key = self.endpoint.api_key
        return {"api-key": key} if key else {}


class TextModel(OpenAIModel):
    """A model behind an OpenAI-compatible text-completion endpoint (``/v1/completions``)."""

    dialect = "text"

    def path(self, request: Request, *, stream: bool) -> str:
        """Text completions."""
        del request, stream
        return "/completions"

    def protocol_of(self, request: Request) -> str:
        """Always text."""
        del request
        return self.dialect


_NOVELAI_HOST: Final = "https://text.novelai.net"
_NOVELAI_OLD_HOST: Final = "https://api.novelai.net"
_NOVELAI_NEW_MODELS: Final = ("kayra", "erato")
"""Model families that are served by the newer host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """How to talk to a server; ``models._bodies`` writes its bodies."""

    path: str = "/completions"
    stream_path: str = ""
    """Another path for streams."""
    reader: Callable[[], Reader] = OpenAIReader
    needs_name: bool = False
    """True if it runs more than one model."""
    two_key_headers: bool = False
    """The key is sent as a bearer token and as ``x-api-key``."""


BACKENDS: Final[Mapping[str, Backend]] = {
    "koboldcpp": Backend(),
    "ooba": Backend(),
    "tabby": Backend(two_key_headers=True),
    "aphrodite": Backend(two_key_headers=True),
    "vllm": Backend(needs_name=True),
    "huggingface": Backend(),
    "generic": Backend(),
    "mancer": Backend(needs_name=True, two_key_headers=True),
    "dreamgen": Backend(needs_name=True),
    "featherless": Backend(needs_name=True),
    "togetherai": Backend(needs_name=True),
    "infermaticai": Backend(needs_name=True),
    "llamacpp": Backend(path="/completion", reader=LlamaCppReader),
    "ollama": Backend(path="/api/generate", reader=OllamaReader, needs_name=True),
    "kobold": Backend(path="/v1/generate", stream_path="/extra/generate/stream", reader=KoboldReader),
    "novelai": Backend(
        path="/ai/generate", stream_path="/ai/generate-stream", reader=NovelAIReader, needs_name=True
    ),
}  # fmt: skip
"""Text-completion servers by SillyTavern's names."""


class BackendModel(TextModel):
    """A text-completion server such as KoboldCpp, llama.cpp, Ollama, vLLM or NovelAI.

    >>> BackendModel("", Endpoint(base_url="http://localhost:5001"), backend="koboldcpp").dialect
    'text'
    """

    def __init__(
        self,
        name: str = "",
        endpoint: Endpoint | None = None,
        *,
        backend: str,
        warn: Warn = log_warning,
        key_variable: str = "",
        fields: ServerFields | None = None,
        provider: str = "",
    ) -> None:
        """Make a model.

        Args:
            name: The model's name, for servers that run more than one.
            endpoint: Where the server is.
            backend: Which protocol it speaks: a name in ``BACKENDS``.
            warn: Called with options of a request that the server does not accept.
            key_variable: If there is no key, requests fail and name this environment variable.
            fields: The options that the server accepts; by default those of its protocol.
            provider: The server's name, which error messages begin with.

        Raises:
            ConfigError: The backend is unknown.
        """
        super().__init__(name, endpoint, warn=warn, key_variable=key_variable, fields=fields, provider=provider)
        if backend not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise ConfigError(f"unknown text backend {backend!r}; pass one of {known}", code="UNKNOWN_BACKEND")
        self.backend = backend
        self.needs_name = BACKENDS[backend].needs_name

    def protocol_of(self, request: Request) -> str:
        """The server's own protocol."""
        del request
        return self.backend

    def path(self, request: Request, *, stream: bool) -> str:
        """The path; some servers have another one for streams, and NovelAI's older models another host."""
        known = BACKENDS[self.backend]
        path = known.stream_path if stream and known.stream_path else known.path
        if self.endpoint.base_url == _NOVELAI_HOST and not any(each in request.model for each in _NOVELAI_NEW_MODELS):
            return f"{_NOVELAI_OLD_HOST}{path}"
        return path

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key, if there is one."""
        headers = super().headers(request)
        if self.endpoint.api_key and BACKENDS[self.backend].two_key_headers:
            headers["x-api-key"] = self.endpoint.api_key
        return headers

    def reader(self) -> Reader:
        """Reads one reply."""
        return BACKENDS[self.backend].reader()


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

    async def _call(self, method: str, path: str, **content: Any) -> EndpointResponse:  # Any: see HttpModel.call()
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
