"""Anthropic's messages API."""

from __future__ import annotations

from typing import Final

from tavernkit._values import is_sequence
from tavernkit.models._anthropic_wire import AnthropicReader
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._http import HttpModel
from tavernkit.models._request import Request

API_VERSION: Final = "2023-06-01"


class AnthropicModel(HttpModel):
    """A model from Anthropic.

    >>> AnthropicModel("claude-sonnet-4-5", Endpoint(base_url=url, api_key=key))    # doctest: +SKIP
    """

    dialect = "anthropic"
    default_endpoint = Endpoint(base_url="https://api.anthropic.com")

    def path(self, request: Request, *, stream: bool) -> str:
        """The messages API."""
        del request, stream
        return "/messages"

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key, the version of the API, and the option ``betas``."""
        headers = {"anthropic-version": API_VERSION}
        if self.endpoint.api_key:
            headers["x-api-key"] = self.endpoint.api_key
        betas = request.options.get("betas") if request is not None else None
        if betas:
            headers["anthropic-beta"] = ",".join(map(str, betas)) if is_sequence(betas) else str(betas)
        return headers

    def reader(self) -> AnthropicReader:
        """Reads one reply."""
        return AnthropicReader()
