"""Servers that speak OpenAI's chat completions, through the ``openai`` SDK (extra ``openai``)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from tavernkit.arguments import checked
from tavernkit.errors import Warn, log_warning
from tavernkit.values import JsonObject
from tavernkit.vibe_tavern.errors import ConnectionFailedError, HTTPError
from tavernkit.vibe_tavern.request_policy import wire_body
from tavernkit.vibe_tavern.transports import chat_body, sdk
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse
from tavernkit.vibe_tavern.transports.endpoint import Endpoint
from tavernkit.vibe_tavern.transports.sse import DONE

if TYPE_CHECKING:
    from openai import AsyncOpenAI

EVENT_STREAM = "text/event-stream"
NO_KEY = "none"
"""Sent to servers that want no key: the SDK insists on one."""


class OpenAITransport:
    """Sends chat requests to any OpenAI-compatible server.

    >>> OpenAITransport(Endpoint(base_url="https://openrouter.ai/api", api_key=key))    # doctest: +SKIP
    """

    dialect = "openai"

    @checked
    def __init__(self, endpoint: Endpoint | None = None, *, warn: Warn = log_warning) -> None:
        self.endpoint = endpoint or Endpoint.from_env()
        self._redactor = self.endpoint.redactor
        self._warn = warn
        self._client: AsyncOpenAI | None = None

    @property
    def client(self) -> AsyncOpenAI:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            try:
                from openai import NOT_GIVEN, AsyncOpenAI, Timeout
            except ModuleNotFoundError as error:
                sdk.extra_missing("openai", error)
            limits = self.endpoint.timeouts()
            self._client = AsyncOpenAI(
                api_key=self.endpoint.api_key or NO_KEY,
                base_url=self.endpoint.url,
                max_retries=self.endpoint.max_retries,
                default_headers=dict(self.endpoint.headers),
                timeout=Timeout(**limits) if limits else NOT_GIVEN,
            )
        return self._client

    @checked
    async def complete(self, request: JsonObject) -> ChatResponse:
        """Send a request and wait for the whole answer."""
        async with self._open(wire_body(request)) as response:
            body = await sdk.read_json(response, self._redactor)
            return ChatResponse(body, response.status_code, self._redactor.headers(dict(response.headers)))

    @asynccontextmanager
    @checked
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Send a request and hand out the answer as it comes.

        A server that answers with JSON all the same gives one chunk; one that says it cannot stream is asked again
        without.
        """
        body = {**wire_body(request), "stream": True}
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._open(body))
            except HTTPError as error:
                if not _refuses_streaming(error):
                    raise
                response = None
            if response is None:
                self._warn("the server does not stream: asked again without")
                plain = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
                chunks = _single((await self.complete(plain)).body)
            elif EVENT_STREAM in response.headers.get("content-type", "").lower():
                chunks = self._chunks(response)
            else:
                chunks = _single(await sdk.read_json(response, self._redactor))
            yield await stack.enter_async_context(aclosing(chunks))

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.close()

    async def _chunks(self, response: sdk.StreamingResponse) -> AsyncGenerator[ChatChunk]:
        ended = False
        async with aclosing(sdk.read_events(response, self._redactor)) as events:
            async for event in events:
                if event.data.startswith(DONE):
                    return
                if not event.data.strip():
                    continue
                data = sdk.parse_object(event.data, "a chunk of the stream", self._redactor)
                if data.get("error"):
                    raise sdk.stream_error(data, self._redactor)
                chunk = chat_body.chunk_of(data)
                ended = ended or chunk.finish_reason is not None
                yield chunk
        if not ended:
            raise ConnectionFailedError("the stream ended before the answer did")

    @asynccontextmanager
    async def _open(self, body: JsonObject) -> AsyncGenerator[sdk.StreamingResponse]:
        client = self.client
        from openai import NOT_GIVEN, Timeout

        rest = {key: value for key, value in body.items() if key not in ("model", "messages")}
        limits = self.endpoint.timeouts(stream=bool(body.get("stream")))
        opening = client.chat.completions.with_streaming_response.create(
            model=body["model"],  # pyright: ignore[reportArgumentType]  # checked by the server
            messages=body["messages"],  # pyright: ignore[reportArgumentType]  # checked by the server
            extra_body=rest,
            timeout=Timeout(**limits) if limits else NOT_GIVEN,
        )
        response = await sdk.guarded(opening.__aenter__(), self._redactor)
        try:
            yield response
        finally:
            await response.close()


async def _single(body: JsonObject) -> AsyncGenerator[ChatChunk]:
    yield chat_body.chunk_of(body)


def _refuses_streaming(error: HTTPError) -> bool:
    said = str(error).lower()
    return error.status == 400 and "stream" in said and "not supported" in said
