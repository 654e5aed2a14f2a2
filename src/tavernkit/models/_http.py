"""A model behind HTTP: one way to send a request and read the reply, whatever the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

from tavernkit._arguments import require
from tavernkit._text import strict_json
from tavernkit._values import Json, JsonObject, is_object, thaw
from tavernkit.errors import ConfigError, Warn, log_warning
from tavernkit.models._bodies import request_body
from tavernkit.models._endpoint import Endpoint
from tavernkit.models._limits import MAX_RESPONSE_BYTES, MAX_STREAM_BYTES
from tavernkit.models._options import ServerFields
from tavernkit.models._protocol import AsyncContext
from tavernkit.models._readers import Reader
from tavernkit.models._reply import Reply, ReplyPiece
from tavernkit.models._request import REQUEST, Request, WireRequest
from tavernkit.models._streams import DONE, SSEParser, collect, keep_partial
from tavernkit.models.errors import (
    ConnectionFailedError,
    DecodeError,
    HTTPError,
    ModelError,
    ProviderError,
    RequestTimeoutError,
)

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = "application/x-ndjson"


class HttpModel(AsyncContext):
    """Base of the models behind HTTP; a subclass says where requests go, and how replies are read.

    Redirects are not followed and nothing is retried: see ``tavernkit.models.with_retries()``.
    """

    dialect: str
    default_endpoint: ClassVar[Endpoint]
    needs_name: bool = True
    """False for servers that run one model, whatever it is called."""

    def __init__(
        self,
        name: str = "",
        endpoint: Endpoint | None = None,
        *,
        warn: Warn = log_warning,
        key_variable: str = "",
        fields: ServerFields | None = None,
        provider: str = "",
    ) -> None:
        """Make a model.

        Args:
            name: The model's name; without one, requests must name a model.
            endpoint: Where it is; by default the provider's own address.
            warn: Called with options of a request that the provider does not accept.
            key_variable: If there is no key, requests fail and name this environment variable.
            fields: The options that the server accepts; by default those of its protocol and model.
            provider: The provider's name, which error messages begin with.
        """
        self.name = name
        self.provider = provider
        self.endpoint = endpoint or self.default_endpoint
        self._redactor = self.endpoint.redactor
        self._warn = warn
        self._key_variable = key_variable
        self._fields = fields
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self._redactor.text(self.endpoint.base_url)!r})"

    async def send(self, request: Request, *, on_delta: Callable[[ReplyPiece], object] | None = None) -> Reply:
        """Send a request and return the whole reply; with ``on_delta`` it is streamed.

        Args:
            request: The request.
            on_delta: Called with each piece of the reply as it arrives.
        """
        if on_delta is not None:
            async with aclosing(self.stream(request)) as pieces:
                return await collect(pieces, on_delta)
        asked = self._address(request)
        async with aclosing(self._pieces(asked, stream=False)) as pieces:
            return await collect(pieces, model=asked.model)

    def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Send a request and iterate over the reply as it arrives."""
        asked = self._address(request)
        return keep_partial(self._pieces(asked, stream=True), asked.model)

    async def aclose(self) -> None:
        """Close connections."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request below the endpoint's address.

        Args:
            request: The request.
            stream: True if the reply is streamed.
        """
        raise NotImplementedError

    def headers(self, request: Request | None) -> dict[str, str]:
        """Return the headers of a request to the model, or to another endpoint: the key, above all."""
        raise NotImplementedError

    def reader(self) -> Reader:
        """Return a reader for one reply."""
        raise NotImplementedError

    async def call(self, method: str, path: str, **content: Any) -> Json:  # Any: the arguments are httpx's
        """Call another endpoint of the server and return its JSON, or its text if it sends something else.

        Args:
            method: ``GET`` or ``POST``.
            path: A path below the endpoint's address, or a whole address.
            content: The body, as arguments of ``httpx``: ``json``, ``data``, ``files``.

        Raises:
            ModelError: There is no usable answer.
        """
        client = self._connect()
        connect, read = self.endpoint.timeouts()
        url = _below(self.endpoint.url, path)
        headers = {**self.headers(None), **self.endpoint.headers}
        limits = {"connect": connect, "read": read, "write": read, "pool": connect}
        built = client.build_request(
            method, _without_password(url), headers=headers, extensions={"timeout": limits}, **content
        )
        response = await self._call(client.send(built, stream=True))
        try:
            if not 200 <= response.status_code < 300:
                raise self._with_name(await self._status_error(response))
            portions = [portion async for portion in self._portions(response, MAX_RESPONSE_BYTES)]
        finally:
            await response.aclose()
        text = b"".join(portions).decode("utf-8", "replace")
        try:
            return strict_json.loads(text)
        except ValueError:
            return text

    def protocol_of(self, request: Request) -> str:
        """Return the dialect that the messages of a request are written in."""
        del request
        return self.dialect

    def _address(self, request: Request) -> Request:
        """Set the model and the protocol of a request."""
        require("request", request, Request, REQUEST)
        if self._key_variable and self.endpoint.api_key is None:
            raise ConfigError(
                f"there is no API key: set {self._key_variable}, or pass api_key=…", code="API_KEY_REQUIRED"
            )
        name = request.model or self.name
        if not name and self.needs_name and request.wire is None:
            raise ConfigError("neither the request nor the model says which model to ask", code="MODEL_REQUIRED")
        return request.replace(model=name, dialect=self.protocol_of(request))

    def _with_name(self, error: ModelError) -> ModelError:
        error.provider = error.provider or self.provider
        return error

    async def _pieces(self, request: Request, *, stream: bool) -> AsyncGenerator[ReplyPiece]:
        try:
            async with aclosing(self._attempts(request, stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except ModelError as error:
            self._with_name(error)
            raise

    async def _attempts(self, request: Request, *, stream: bool) -> AsyncGenerator[ReplyPiece]:
        body = request_body(request, stream=stream, warn=self._warn, fields=self._fields)
        try:
            async with aclosing(self._exchange(request, body, stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except HTTPError as error:
            if not (stream and request.wire is None and _refuses_streaming(error)):
                raise
        else:
            return
        self._warn("the server does not stream: asked again without")
        body = request_body(request, stream=False, warn=_ignore, fields=self._fields)
        async with aclosing(self._exchange(request, body, stream=False)) as pieces:
            async for piece in pieces:
                yield piece

    async def _exchange(self, request: Request, body: JsonObject, *, stream: bool) -> AsyncGenerator[ReplyPiece]:
        """Send one HTTP request and read the answer, a stream or one body."""
        reader = self.reader()
        async with self._open(request, body, stream=stream) as response:
            kind = response.headers.get("content-type", "").lower()
            streamed = EVENT_STREAM in kind or JSON_LINES in kind
            if JSON_LINES in kind:
                events = self._lines(response)
            else:
                events = self._events(response) if streamed else self._whole(response)
            async with aclosing(events):
                async for event in events:
                    if event is None:
                        reader.done = True
                        break
                    piece = self._guard(lambda event=event: reader.read(event))
                    if reader.done:
                        break
                    yield piece
            self._guard(lambda: reader.finish(streamed=streamed))

    def _guard(self, read: Callable[[], T]) -> T:
        """Read the provider's data; error messages must not contain the key."""
        try:
            return read()
        except ProviderError as error:
            problem = ProviderError(self._redactor.text(str(error)), body=self._redactor.json(thaw(error.body)))
        raise problem

    @asynccontextmanager
    async def _open(self, request: Request, body: JsonObject, *, stream: bool) -> AsyncGenerator[httpx.Response]:
        client = self._connect()
        built = self._http_request(client, request, body, stream=stream)
        response = await self._call(client.send(built, stream=True))
        try:
            if not 200 <= response.status_code < 300:
                raise await self._status_error(response)
            yield response
        finally:
            await response.aclose()

    def _http_request(
        self, client: httpx.AsyncClient, request: Request, body: JsonObject, *, stream: bool
    ) -> httpx.Request:
        connect, read = self.endpoint.timeouts(stream=stream)
        limits = {"connect": connect, "read": read, "write": read, "pool": connect}
        if request.wire is None:
            method, url = "POST", _below(self.endpoint.url, self.path(request, stream=stream))
            headers: Mapping[str, str] = {**self.headers(request), **self.endpoint.headers}
        else:
            wire = self._add_key(request.wire)
            url, query_key = _without_query_key(_below(self.endpoint.base_url, wire.url))
            method, headers = wire.method, {**wire.headers, **query_key}
            self._redactor = self._redactor.with_headers(headers)
        return client.build_request(
            method,
            _without_password(url),
            content=_content(body, exact=request.wire is not None),
            headers={"content-type": "application/json", **headers},
            extensions={"timeout": limits},
        )

    def _add_key(self, wire: WireRequest) -> WireRequest:
        """Put the key into a request that needs one, if the address belongs to the provider."""
        if wire.needs_key and self.endpoint.api_key and urlsplit(wire.url).scheme:
            asked, own = urlsplit(wire.url).hostname or "", urlsplit(self.endpoint.base_url).hostname or ""
            # Subdomains of a provider's domain are the provider's: regions, older models.
            same = _domain(asked) == _domain(own) if self._key_variable else asked == own
            if not same:
                raise ConfigError(
                    f"the request goes to {asked} and the key is for {own}: pass api_key=… to plan.request()",
                    code="KEY_FOR_ANOTHER_HOST",
                )
        return wire.with_key(self.endpoint.api_key)

    def _connect(self) -> httpx.AsyncClient:
        """Return the client of the running event loop; connections cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            try:
                import httpx
            except ModuleNotFoundError as error:
                raise ConfigError(
                    "models need their extra: pip install 'tavernkit[models]'", code="EXTRA_MISSING"
                ) from error
            parts = urlsplit(self.endpoint.base_url)
            auth = (parts.username or "", parts.password or "") if parts.username or parts.password else None
            self._client = httpx.AsyncClient(follow_redirects=False, auth=auth)
            self._loop = loop
        return self._client

    async def _status_error(self, response: httpx.Response) -> HTTPError:
        portions: list[bytes] = []
        with suppress(ModelError):  # the status is enough
            portions.extend([portion async for portion in self._portions(response, MAX_RESPONSE_BYTES)])
        raw = self._redactor.text(b"".join(portions).decode("utf-8", "replace"))
        try:
            body: Json = self._redactor.json(strict_json.loads(raw))
        except ValueError:
            body = None
        headers = self._redactor.headers(dict(response.headers))
        if 300 <= response.status_code < 400:
            message = f"the server redirects (HTTP {response.status_code}); set base_url to its real address"
            return HTTPError(message, status=response.status_code, headers=headers, body=body, raw_body=raw)
        return HTTPError.from_body(response.status_code, body, raw_body=raw, headers=headers)

    async def _whole(self, response: httpx.Response) -> AsyncGenerator[JsonObject | None]:
        portions = [portion async for portion in self._portions(response, MAX_RESPONSE_BYTES)]
        text = b"".join(portions).decode("utf-8", "replace")
        if not text.strip():
            raise ProviderError("the provider sent an empty body")
        yield self._object(text, "the reply")

    async def _events(self, response: httpx.Response) -> AsyncGenerator[JsonObject | None]:
        """Read server-sent events; None is OpenAI's end marker."""
        parser = SSEParser()
        async with aclosing(self._portions(response, MAX_STREAM_BYTES)) as portions:
            async for portion in portions:
                for event in parser.feed(portion):
                    if event.data.strip():
                        yield self._event(event.data)
        for event in parser.finish():
            if event.data.strip() and not _is_cut(event.data):
                yield self._event(event.data)

    async def _lines(self, response: httpx.Response) -> AsyncGenerator[JsonObject | None]:
        """Read a stream that has one JSON object per line."""
        begun: list[bytes] = []
        async with aclosing(self._portions(response, MAX_STREAM_BYTES)) as portions:
            async for portion in portions:
                *ends, rest = portion.split(b"\n")
                for end in ends:
                    line, begun = b"".join([*begun, end]), []
                    if line.strip():
                        yield self._object(line.decode("utf-8", "replace"), "a line of the stream")
                begun.append(rest)
        last = b"".join(begun).decode("utf-8", "replace")
        if last.strip() and not _is_cut(last):
            yield self._object(last, "a line of the stream")

    def _event(self, data: str) -> JsonObject | None:
        return None if data.startswith(DONE) else self._object(data, "an event of the stream")

    async def _portions(self, response: httpx.Response, limit: int) -> AsyncGenerator[bytes]:
        portions, size = response.aiter_bytes(), 0
        while True:
            try:
                portion = await self._call(anext(portions), answering=True)
            except StopAsyncIteration:
                return
            size += len(portion)
            if size > limit:
                raise DecodeError(f"the reply is larger than {limit} bytes")
            yield portion

    def _object(self, text: str, what: str) -> JsonObject:
        try:
            value = strict_json.loads(text)
        except ValueError:
            value = None
        if not is_object(value):
            raise DecodeError(f"{what} is not a JSON object: {self._redactor.text(text[:200])!r}")
        return value

    async def _call(self, work: Awaitable[T], *, answering: bool = False) -> T:
        """Await a call of the HTTP client; its errors become ours, without secrets.

        The original error is not kept as the cause, because it contains the request with its key.
        """
        import httpx

        problem: ModelError
        try:
            return await work
        except httpx.TimeoutException as error:
            problem = RequestTimeoutError(f"no answer in time ({type(error).__name__})")
        except httpx.DecodingError as error:
            problem = DecodeError(f"the reply cannot be decoded: {self._redactor.text(str(error))}")
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            reason = self._redactor.text(str(error)) or type(error).__name__
            problem = ConnectionFailedError(f"the connection failed: {reason}", answering=answering)
        except httpx.InvalidURL as error:
            raise ConfigError(self._redactor.text(f"base_url: {error}"), code="INVALID_BASE_URL") from None
        raise problem


def _content(body: JsonObject, *, exact: bool) -> bytes:
    """Write a body. Half characters, which some servers refuse, become ``?``; an exact body has them, as JSON escapes.

    Raises:
        ConfigError: JSON cannot represent a value, such as NaN.
    """
    try:
        if exact:
            return strict_json.compact(body).encode()
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the request cannot be written as JSON: {error}", code="INVALID_REQUEST") from error
    return text.encode("utf-8", "replace")


def _is_cut(text: str) -> bool:
    """Return True for the beginning of a JSON object, with which a stream breaks off; its reader reports that."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        strict_json.loads(text)
    except ValueError:
        return True
    return False


def _below(base: str, path: str) -> str:
    """Add a path to an address; a full address is returned as is."""
    return path if urlsplit(path).scheme else f"{base.rstrip('/')}/{path.lstrip('/')}"


def _domain(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def _without_query_key(url: str) -> tuple[str, Mapping[str, str]]:
    """Remove Google's key from an address: it works as a header too, and addresses are logged."""
    parts = urlsplit(url)
    fields = [field.partition("=") for field in parts.query.split("&")]
    key = next((value for name, _, value in fields if name == "key"), "")
    rest = "&".join(f"{name}{sign}{value}" for name, sign, value in fields if name != "key")
    return (parts._replace(query=rest).geturl(), {"x-goog-api-key": key}) if key else (url, {})


def _without_password(url: str) -> str:
    """Remove user and password from an address: they go into a header, and addresses are logged."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _refuses_streaming(error: HTTPError) -> bool:
    said = str(error).lower()
    return error.status == 400 and "stream" in said and "not supported" in said


def _ignore(_: str) -> None:
    """Ignore a warning: the same request has already been warned about."""
