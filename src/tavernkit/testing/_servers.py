"""HTTP servers on the loopback interface, for tests that need a real connection: your own, or a scripted model's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from http import HTTPStatus
from typing import TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models._scripted import Answer, Body, Disconnect, Failure, Hang, RawBytes, ScriptedModel, ScriptedReply

HOST = "127.0.0.1"
_MAX_BODY = 64_000_000


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What a client sent."""

    method: str
    """The HTTP method."""
    path: str
    """The path, with its query."""
    headers: Mapping[str, str]
    """The headers, with names in lower case."""
    body: bytes
    """The body as it was sent."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What a client gets. A body in portions is streamed; ``drop`` then breaks the connection."""

    status: int = 200
    """The HTTP status."""
    body: bytes | AsyncIterable[bytes] = b""
    """The body, whole or in portions."""
    content_type: str = "application/json"
    """The ``Content-Type`` header."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """More headers."""
    drop: bool = False


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpReply]]


class LoopbackServer:
    """Serves one handler; records every request, and counts clients that disconnect early."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[asyncio.Task[None]] = set()
        self.requests: list[HttpRequest] = []
        self.received = asyncio.Event()
        self.hang_ups = 0
        self.hung_up = asyncio.Event()
        self.url = ""

    @property
    def open_connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[LoopbackServer]:
        """Listen on a free port; leaving ends every connection."""
        server = await asyncio.start_server(self._on_connection, HOST, 0)
        self.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._connections):
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await server.wait_closed()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self.received.set()
                if not await self._answered(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answered(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer while watching for a disconnect; return True if the connection can be reused."""
        answering = asyncio.ensure_future(self._answer(request, writer))
        watching = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.hang_ups += 1
                self.hung_up.set()
                return False
            return await answering and not watching.done()
        finally:
            for task in (answering, watching):
                task.cancel()
            await asyncio.gather(answering, watching, return_exceptions=True)

    async def _answer(self, request: HttpRequest, writer: asyncio.StreamWriter) -> bool:
        reply = await self._handler(request)
        whole = reply.body if isinstance(reply.body, bytes) else None
        head = {"content-type": reply.content_type, **reply.headers}
        head |= {"transfer-encoding": "chunked"} if whole is None else {"content-length": str(len(whole))}
        lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        if not (reply.drop and whole is not None):
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if isinstance(reply.body, bytes):
            writer.write(b"" if reply.drop else reply.body)
        else:
            async for portion in reply.body:
                if portion:
                    writer.write(f"{len(portion):x}\r\n".encode() + portion + b"\r\n")
                    await writer.drain()
            if not reply.drop:
                writer.write(b"0\r\n\r\n")
        await writer.drain()
        return not reply.drop


async def _read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    start = await reader.readline()
    if not start.strip():
        return None
    method, path, _ = start.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    size = int(headers.get("content-length", "0"))
    if size > _MAX_BODY:
        return None
    return HttpRequest(
        method, path, headers, await reader.readexactly(size) if size else await _read_chunked(reader, headers)
    )


async def _read_chunked(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return b""
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
        if len(body) > _MAX_BODY:
            raise ConnectionError("request body too large")
    await reader.readline()
    return bytes(body)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


CHAT_PATH = "/chat/completions"
TEXT_PATH = "/completions"
MODELS_PATH = "/models"


@asynccontextmanager
async def serve(model: ScriptedModel) -> AsyncGenerator[LoopbackServer]:
    """Serve a scripted model; the server's ``url`` is the base URL for clients, with ``/v1`` or without.

    >>> async with serve(ScriptedModel("Hello.")) as server:                         # doctest: +SKIP
    ...     model = tk.model("openai:any", base_url=server.url)
    """

    async def handle(request: HttpRequest) -> HttpReply:
        return await _handle(model, request)

    async with LoopbackServer(handle).running() as server:
        yield server


@contextmanager
def serve_in_thread(model: ScriptedModel) -> Generator[str]:
    """Serve a scripted model from its own thread, for tests without an event loop; yields the base URL."""
    ready = threading.Event()
    address: list[str] = []
    stopping: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        stopping.append((asyncio.get_running_loop(), stop))
        async with serve(model) as server:
            address.append(server.url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="tavernkit-scripted-server", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield address[0]
    finally:
        loop, stop = stopping[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _handle(model: ScriptedModel, request: HttpRequest) -> HttpReply:
    if request.method == "GET" and request.path.endswith(MODELS_PATH):
        return _json({"object": "list", "data": [{"id": model.name, "object": "model"}]})
    if request.method != "POST" or not request.path.endswith(TEXT_PATH):
        return _json({"error": {"message": f"no such path: {request.path}"}}, status=404)
    try:
        body: object = json.loads(request.body)
    except ValueError:
        body = None
    if not is_object(body):
        return _json({"error": {"message": "the body is not a JSON object"}}, status=400)
    try:
        reply = model.next_reply(body)
    except Exception as error:  # noqa: BLE001  # a script may raise anything: over HTTP that is a server error
        return _json({"error": {"message": f"{type(error).__name__}: {error}"}}, status=500)
    return await _reply(reply, body, model.name, chat=request.path.endswith(CHAT_PATH))


async def _reply(reply: ScriptedReply, request: JsonObject, name: str, *, chat: bool) -> HttpReply:
    streaming = request.get("stream") is True
    options = request.get("stream_options")
    include_usage = is_object(options) and options.get("include_usage") is True
    if isinstance(reply, Failure):
        return _json(reply.body, status=reply.status, headers=dict(reply.headers))
    if isinstance(reply, RawBytes):
        return HttpReply(reply.status, _portions(reply.chunks), reply.content_type)
    if isinstance(reply, Hang) and not (streaming and reply.after):
        await asyncio.Event().wait()
    if isinstance(reply, (Hang, Disconnect)):
        pieces = Answer(deltas=reply.after).events(name)[:-1]
        portions = _events(pieces, hang=isinstance(reply, Hang), done=False)
        return HttpReply(body=portions if streaming else b"", content_type="text/event-stream", drop=True)
    if isinstance(reply, Body):
        return _json(reply.body)
    if streaming:
        events = reply.events(name, include_usage=include_usage)
        return HttpReply(body=_events(events if chat else _text_events(events)), content_type="text/event-stream")
    whole = reply.body(str(request.get("model") or name))
    return _json(whole if chat else _text_events([whole])[0])


def _text_events(events: Sequence[JsonObject]) -> list[JsonObject]:
    """Convert the events of a chat completion to those of a text completion."""
    written: list[JsonObject] = []
    for event in events:
        choices: list[Json] = []
        for choice in event["choices"] if is_list(event["choices"]) else ():
            said = (choice.get("delta") or choice.get("message")) if is_object(choice) else None
            text = said.get("content") if is_object(said) else ""
            reason = choice.get("finish_reason") if is_object(choice) else None
            choices.append({"index": 0, "text": text or "", "finish_reason": reason})
        written.append({**event, "object": "text_completion", "choices": choices})
    return written


async def _events(events: Sequence[JsonObject], *, hang: bool = False, done: bool = True) -> AsyncGenerator[bytes]:
    for event in events:
        yield f"data: {json.dumps(event)}\n\n".encode()
    if hang:
        await asyncio.Event().wait()
    if done:
        yield b"data: [DONE]\n\n"


async def _portions(chunks: Sequence[bytes]) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


def _json(body: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> HttpReply:
    return HttpReply(status, json.dumps(body).encode(), headers=headers or {})
