"""Servers for text completion, with OpenAI's protocol or their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tavernkit._dataclass import dataclass
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._openai import TextModel
from tavernkit.models._openai_wire import OpenAIReader
from tavernkit.models._parameters import ServerFields
from tavernkit.models._readers import Reader
from tavernkit.models._request import Request
from tavernkit.models._text_wire import KoboldReader, LlamaCppReader, NovelAIReader, OllamaReader

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
