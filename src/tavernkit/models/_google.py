"""Google's Gemini API."""

from __future__ import annotations

from typing import Final

from tavernkit.models._endpoint import Endpoint
from tavernkit.models._google_wire import GoogleReader
from tavernkit.models._http import HttpModel
from tavernkit.models._request import Request

API_VERSION: Final = "v1beta"


class GoogleModel(HttpModel):
    """A model from Google. The endpoint's ``api_prefix`` is the version of the API, ``v1beta``."""

    dialect = "google"
    default_endpoint = Endpoint(base_url="https://generativelanguage.googleapis.com", api_prefix=API_VERSION)

    def path(self, request: Request, *, stream: bool) -> str:
        """The model is part of the path."""
        name = request.model if "/" in request.model else f"models/{request.model}"
        return f"/{name}:streamGenerateContent?alt=sse" if stream else f"/{name}:generateContent"

    def headers(self, request: Request | None) -> dict[str, str]:
        """The key; never in the address, because addresses are logged."""
        del request
        key = self.endpoint.api_key
        return {"x-goog-api-key": key} if key else {}

    def reader(self) -> GoogleReader:
        """Reads one reply."""
        return GoogleReader()


class VertexModel(GoogleModel):
    """A Google model on Vertex AI, with an API key (express mode)."""

    default_endpoint = Endpoint(base_url="https://aiplatform.googleapis.com", api_prefix="v1")

    def path(self, request: Request, *, stream: bool) -> str:
        """Models belong to a publisher."""
        name = request.model if "/" in request.model else f"publishers/google/models/{request.model}"
        return super().path(request.replace(model=name), stream=stream)
