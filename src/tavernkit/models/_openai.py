"""OpenAI-compatible servers: chat completions and text completions."""

from __future__ import annotations

from typing import Final

from tavernkit.models._endpoint import Endpoint
from tavernkit.models._http import HttpModel
from tavernkit.models._openai_wire import OpenAIReader
from tavernkit.models._readers import Reader
from tavernkit.models._request import Request

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
