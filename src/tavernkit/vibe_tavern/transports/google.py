"""Google's Gemini API, through the ``google-genai`` SDK (extra ``google``)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from tavernkit.arguments import checked
from tavernkit.errors import Warn, log_warning
from tavernkit.values import Json, JsonObject, is_list, is_object, thaw
from tavernkit.vibe_tavern.errors import ConnectionFailedError, DecodeError, TransportError
from tavernkit.vibe_tavern.transports import chat_body, sdk
from tavernkit.vibe_tavern.transports import google_shapes as shapes
from tavernkit.vibe_tavern.transports.base import ChatChunk, ChatResponse
from tavernkit.vibe_tavern.transports.endpoint import Endpoint

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse

T = TypeVar("T")

BASE_URL: Final = "https://generativelanguage.googleapis.com"
API_VERSION: Final = "v1beta"


class GoogleTransport:
    """Sends chat requests to Gemini: takes and gives OpenAI's shape, speaks Google's.

    The endpoint's ``api_prefix`` is the API version: ``Endpoint(base_url=BASE_URL, api_prefix="v1beta", api_key=key)``.
    """

    dialect = "google"

    @checked
    def __init__(self, endpoint: Endpoint, *, warn: Warn = log_warning) -> None:
        self.endpoint = endpoint
        self._redactor = endpoint.redactor
        self._warn = warn
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            try:
                from google.genai import Client
                from google.genai.types import HttpOptions, HttpRetryOptions
            except ModuleNotFoundError as error:
                sdk.extra_missing("google", error)
            limit = self.endpoint.read_timeout or self.endpoint.timeout
            self._client = Client(
                api_key=self.endpoint.api_key or "none",
                http_options=HttpOptions(
                    base_url=self.endpoint.base_url,
                    api_version=(self.endpoint.api_prefix or "").strip("/") or API_VERSION,
                    headers=dict(self.endpoint.headers) or None,
                    timeout=None if limit is None else round(limit * 1000),
                    retry_options=HttpRetryOptions(attempts=self.endpoint.max_retries + 1),
                ),
            )
        return self._client

    @checked
    async def complete(self, request: JsonObject) -> ChatResponse:
        """Send a request and wait for the whole answer."""
        native = shapes.native_request(request, self._warn)
        contents, config = _sdk_arguments(native)
        call = self.client.aio.models.generate_content(  # pyright: ignore[reportUnknownMemberType]  # the SDK's own types
            model=str(request.get("model")),
            contents=contents,  # pyright: ignore[reportArgumentType]  # what the SDK itself parsed
            config=config,  # pyright: ignore[reportArgumentType]  # what the SDK itself parsed
        )
        answer = await self._guarded(call)
        return ChatResponse(shapes.chat_completion(_plain(answer), str(request.get("model"))))

    @asynccontextmanager
    @checked
    async def stream(self, request: JsonObject) -> AsyncGenerator[AsyncIterator[ChatChunk]]:
        """Send a request and hand out the answer as it comes."""
        native = shapes.native_request(request, self._warn)
        contents, config = _sdk_arguments(native)
        opening = self.client.aio.models.generate_content_stream(  # pyright: ignore[reportUnknownMemberType]  # the SDK's own types
            model=str(request.get("model")),
            contents=contents,  # pyright: ignore[reportArgumentType]  # what the SDK itself parsed
            config=config,  # pyright: ignore[reportArgumentType]  # what the SDK itself parsed
        )
        answers = await self._guarded(opening)
        async with aclosing(self._chunks(answers)) as chunks:
            yield chunks

    async def aclose(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.aio.aclose()

    async def _chunks(self, answers: AsyncIterator[GenerateContentResponse]) -> AsyncGenerator[ChatChunk]:
        ended = False
        called = 0
        try:
            while True:
                try:
                    answer = await self._guarded(anext(answers))
                except StopAsyncIteration:
                    break
                chunk = shapes.chunk_of(_plain(answer), called)
                called += len(chunk.tool_calls)
                ended = ended or chunk.finish_reason is not None
                yield chunk
        finally:
            if isinstance(answers, AsyncGenerator):
                await answers.aclose()
        if not ended:
            raise ConnectionFailedError("the stream ended before the answer did")

    async def _guarded(self, work: Awaitable[T]) -> T:
        """Await something of the SDK; its own errors become ours, free of secrets."""
        from google.genai import errors

        try:
            return await sdk.guarded(work, self._redactor)
        except errors.APIError as error:
            problem: TransportError = self._status_error(error.code, vars(error).get("details"))
        except (errors.UnknownApiResponseError, json.JSONDecodeError) as error:
            problem = DecodeError(f"the answer cannot be read: {self._redactor.text(str(error))[:500]}")
        raise problem

    def _status_error(self, status: int, details: object) -> TransportError:
        body: Json = self._redactor.json(thaw(details))
        if not isinstance(status, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # an error inside a stream has no status
            return sdk.stream_error(body if is_object(body) else {}, self._redactor)
        return chat_body.http_error(status, body)


def _sdk_arguments(native: JsonObject) -> tuple[list[object], object]:
    """Read contents and config into the SDK's types; from JSON, so that its base64 fields are decoded."""
    from google.genai.types import Content, GenerateContentConfig

    contents = native["contents"]
    assert is_list(contents)
    config = {key: value for key, value in native.items() if key != "contents"}
    parsed = [Content.model_validate_json(json.dumps(content)) for content in contents]
    return [*parsed], GenerateContentConfig.model_validate_json(json.dumps(config))


def _plain(answer: GenerateContentResponse) -> JsonObject:
    plain: object = json.loads(answer.model_dump_json(exclude_none=True))
    assert is_object(plain)
    return plain
