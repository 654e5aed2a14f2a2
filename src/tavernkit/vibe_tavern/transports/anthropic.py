"""Anthropic's messages API, through the ``anthropic`` SDK (extra ``anthropic``)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

from tavernkit.arguments import checked
from tavernkit.errors import Warn, log_warning
from tavernkit.values import JsonObject
from tavernkit.vibe_tavern.errors import ConnectionFailedError
from tavernkit.vibe_tavern.transports import anthropic_shapes as shapes
from tavernkit.vibe_tavern.transports import sdk
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse
from tavernkit.vibe_tavern.transports.endpoint import Endpoint

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL: Final = "https://api.anthropic.com"


class AnthropicTransport:
    """Sends chat requests to Anthropic: takes and gives OpenAI's shape, speaks Anthropic's.

    >>> AnthropicTransport(Endpoint(base_url=BASE_URL, api_key=key, api_prefix=None))    # doctest: +SKIP
    """

    dialect = "anthropic"

    @checked
    def __init__(self, endpoint: Endpoint, *, warn: Warn = log_warning) -> None:
        self.endpoint = endpoint
        self._redactor = endpoint.redactor
        self._warn = warn
        self._client: AsyncAnthropic | None = None

    @property
    def client(self) -> AsyncAnthropic:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            try:
                from anthropic import NOT_GIVEN, AsyncAnthropic, Timeout
            except ModuleNotFoundError as error:
                sdk.extra_missing("anthropic", error)
            limits = self.endpoint.timeouts()
            self._client = AsyncAnthropic(
                api_key=self.endpoint.api_key or "none",
                base_url=self.endpoint.base_url,  # the SDK adds /v1 itself
                max_retries=self.endpoint.max_retries,
                default_headers=dict(self.endpoint.headers),
                timeout=Timeout(**limits) if limits else NOT_GIVEN,
            )
        return self._client

    @checked
    async def complete(self, request: JsonObject) -> ChatResponse:
        """Send a request and wait for the whole answer."""
        async with self._open(shapes.native_request(request, self._warn)) as response:
            body = await sdk.read_json(response, self._redactor)
            headers = self._redactor.headers(dict(response.headers))
            return ChatResponse(shapes.chat_completion(body), response.status_code, headers)

    @asynccontextmanager
    @checked
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Send a request and hand out the answer as it comes."""
        native = {**shapes.native_request(request, self._warn), "stream": True}
        async with self._open(native) as response, aclosing(self._chunks(response)) as chunks:
            yield chunks

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()

    async def _chunks(self, response: sdk.StreamingResponse) -> AsyncGenerator[ChatChunk]:
        state = shapes.StreamState()
        async with aclosing(sdk.read_events(response, self._redactor)) as events:
            async for event in events:
                if not event.data.strip():
                    continue
                data = sdk.parse_object(event.data, "an event of the stream", self._redactor)
                if data.get("type") == "error":
                    raise sdk.stream_error(data, self._redactor)
                if data.get("type") == "message_stop":
                    return
                yield shapes.chunk_of(data, state)
        raise ConnectionFailedError("the stream ended before the answer did")

    @asynccontextmanager
    async def _open(self, native: JsonObject) -> AsyncGenerator[sdk.StreamingResponse]:
        client = self.client
        from anthropic import Timeout

        required = ("model", "messages", "max_tokens")
        limits = self.endpoint.timeouts(stream=bool(native.get("stream"))) or {"timeout": shapes.DEFAULT_TIMEOUT}
        opening = client.messages.with_streaming_response.create(
            model=native["model"],  # pyright: ignore[reportArgumentType]  # checked by the server
            messages=native["messages"],  # pyright: ignore[reportArgumentType]  # checked by the server
            max_tokens=native["max_tokens"],  # pyright: ignore[reportArgumentType]  # checked by the server
            extra_body={key: value for key, value in native.items() if key not in required},
            timeout=Timeout(**limits),
        )
        response = await sdk.guarded(opening.__aenter__(), self._redactor)
        try:
            yield response
        finally:
            await response.close()
