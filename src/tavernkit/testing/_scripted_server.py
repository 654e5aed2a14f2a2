"""A scripted model behind OpenAI's protocol, on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.models._script import Answer, Body, Disconnect, Failure, Hang, RawBytes, ScriptedReply
from tavernkit.models._scripted import ScriptedModel
from tavernkit.testing._loopback import HttpReply, HttpRequest, LoopbackServer

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
        yield f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
    if hang:
        await asyncio.Event().wait()
    if done:
        yield b"data: [DONE]\n\n"


async def _portions(chunks: Sequence[bytes]) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


def _json(body: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> HttpReply:
    return HttpReply(status, json.dumps(body, ensure_ascii=False).encode(), headers=headers or {})
