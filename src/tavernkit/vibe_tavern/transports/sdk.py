"""What the SDKs have in common: how their requests fail, and how answers are read within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from typing import NoReturn, Protocol, TypeVar, runtime_checkable

from tavernkit.errors import ConfigError
from tavernkit.text import strict_json
from tavernkit.values import Json, JsonObject, is_object
from tavernkit.vibe_tavern.errors import (
    ConnectionFailedError,
    DecodeError,
    HTTPError,
    RequestTimeoutError,
    StreamError,
    TransportError,
)
from tavernkit.vibe_tavern.limits import MAX_RESPONSE_BYTES, MAX_STREAM_BYTES
from tavernkit.vibe_tavern.transports import chat_body
from tavernkit.vibe_tavern.transports.redaction import Redactor
from tavernkit.vibe_tavern.transports.sse import ServerEvent, SSEParser

T = TypeVar("T")


class StreamingResponse(Protocol):
    """The response object that the SDKs hand out before the body is read."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers."""
        ...

    @property
    def status_code(self) -> int:
        """HTTP status."""
        ...

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """The body in portions."""
        ...


@runtime_checkable
class _HasResponse(Protocol):
    status_code: int
    response: object


async def guarded(work: Awaitable[T], redactor: Redactor) -> T:
    """Await something of an SDK; what it raises becomes one of our errors, free of secrets.

    The SDK's own error is not kept as the cause: it holds the request with its key.
    """
    try:
        return await work
    except (asyncio.CancelledError, StopAsyncIteration, TransportError):
        raise
    except Exception as error:  # told apart below
        problem = translated(error, redactor)
        if problem is None:
            raise
    raise problem


def translated(error: Exception, redactor: Redactor) -> TransportError | None:
    """Name an SDK's or HTTP client's error in our terms; nothing if it is neither."""
    names = {base.__name__ for base in type(error).__mro__}
    message = redactor.text(str(error)) or type(error).__name__
    if isinstance(error, _HasResponse) and "APIStatusError" in names:
        return _status_error(error, redactor)
    if isinstance(error, TimeoutError) or names & {"APITimeoutError", "TimeoutException", "ServerTimeoutError"}:
        return RequestTimeoutError(f"no answer in time ({type(error).__name__})")
    if isinstance(error, OSError) or names & {"APIConnectionError", "TransportError", "ClientConnectionError"}:
        cause = error.__cause__
        reason = redactor.text(str(cause)) if cause is not None and str(cause) else message
        return ConnectionFailedError(f"the connection failed: {reason}")
    if names & {"DecodingError", "ClientPayloadError"}:
        return DecodeError(f"the answer cannot be decoded: {message}")
    return None


def _status_error(error: _HasResponse, redactor: Redactor) -> HTTPError:
    raw = redactor.text(str(getattr(error.response, "text", "")))
    headers: object = getattr(error.response, "headers", {})
    try:
        body: Json = redactor.json(strict_json.loads(raw))
    except ValueError:
        body = None
    kept = redactor.headers(dict(headers)) if isinstance(headers, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType]  # text to text
    return chat_body.http_error(error.status_code, body, raw_body=raw, headers=kept)


async def read_json(response: StreamingResponse, redactor: Redactor) -> JsonObject:
    """Read a whole body as a JSON object."""
    portions: list[bytes] = []
    size = 0
    async for portion in read_bytes(response, redactor):
        portions.append(portion)
        size += len(portion)
        if size > MAX_RESPONSE_BYTES:
            raise DecodeError(f"the answer is larger than {MAX_RESPONSE_BYTES} bytes")
    text = b"".join(portions).decode("utf-8", "replace")
    return parse_object(text, "the answer", redactor)


async def read_events(response: StreamingResponse, redactor: Redactor) -> AsyncGenerator[ServerEvent]:
    """Read a body as server-sent events."""
    parser = SSEParser()
    size = 0
    async with aclosing(read_bytes(response, redactor)) as portions:
        async for portion in portions:
            size += len(portion)
            if size > MAX_STREAM_BYTES:
                raise DecodeError(f"the stream is larger than {MAX_STREAM_BYTES} bytes")
            for event in parser.feed(portion):
                yield event
    for event in parser.finish():
        yield event


async def read_bytes(response: StreamingResponse, redactor: Redactor) -> AsyncGenerator[bytes]:
    """Read a body portion by portion."""
    portions = response.iter_bytes()
    while True:
        try:
            portion = await guarded(anext(portions), redactor)
        except StopAsyncIteration:
            return
        yield portion


def parse_object(text: str, what: str, redactor: Redactor) -> JsonObject:
    """Parse JSON that must be an object."""
    try:
        value = strict_json.loads(text)
    except ValueError:
        value = None
    if not is_object(value):
        raise DecodeError(f"{what} is no JSON object: {redactor.text(text[:200])!r}")
    return value


def stream_error(body: JsonObject, redactor: Redactor) -> StreamError:
    """Make the error that a provider reported inside a stream."""
    clean = redactor.json(body)
    return StreamError(chat_body.error_text(clean) or "the provider reported an error in the stream", body=clean)


def extra_missing(extra: str, error: ModuleNotFoundError) -> NoReturn:
    """Say which extra to install."""
    raise ConfigError(
        f"this transport needs the extra: pip install 'tavernkit[{extra}]'", code="EXTRA_MISSING"
    ) from error
