"""Studio in the service: one workspace for each key, opened from the library and saved there."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from fastapi import Request as HttpRequest
from sqlalchemy.ext.asyncio import AsyncConnection

from tavernkit._values import Json, JsonObject
from tavernkit.cards import DEFAULT_LIMITS, Limits
from tavernkit.models import Accumulator, Model, ModelWrapper, Reply, ReplyPiece, Request
from tavernkit.server.accounts import UpstreamExchange, uses_of
from tavernkit.server.api.dependencies import bearer, client_of
from tavernkit.server.config import STUDIO_FOLDER
from tavernkit.server.errors import ServiceError
from tavernkit.server.keys import Client, Scope
from tavernkit.server.service import Service
from tavernkit.server.storage.database import advisory_lock
from tavernkit.server.storage.items import Kind, all_items, item_file, item_info, list_items, save_item
from tavernkit.server.upstreams.upstream import Upstream
from tavernkit.studio import Studio, Workspace
from tavernkit.studio._api import PREFIX
from tavernkit.studio._build_inputs import Inputs
from tavernkit.studio._document import JSONL, Document, digest_of, empty_data, new_document, read_document
from tavernkit.studio._document import Kind as DocumentKind
from tavernkit.studio._shelf import MAX_LISTED, OpenedShelf, OpenRequest
from tavernkit.studio._talk_models import ModelChoice
from tavernkit.studio._turn import DEFAULT_TURN
from tavernkit.studio.errors import StudioError

MAX_STUDIOS: Final = 50
"""The maximum number of workspaces; the least recently used one is dropped, with unsaved work."""

_PLURALS: Final[dict[Kind, str]] = {"character": "characters", "book": "books", "preset": "presets"}
_KINDS: Final[dict[Kind, DocumentKind]] = {"character": "card", "book": "book", "preset": "preset", "regex": "regex"}


class Studios:
    """The workspaces of all clients. They are in this process; ``studio_forwarding`` forwards their requests to it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._studios: OrderedDict[str, Studio] = OrderedDict()
        self._clients: dict[str, Client] = {}
        self._opening = asyncio.Lock()

    async def find(self, request: HttpRequest) -> Studio:
        """Return the workspace of a client.

        Raises:
            ServiceError: The key lacks a scope, or there are several processes that cannot reach each other.
        """
        client = await self._client(request)
        if self._service.config.workers > 1 and STUDIO_FOLDER not in os.environ:
            message = (
                "Studio keeps its documents in one process, and the workers of this service cannot find each other: "
                "start them with `tavernkit serve --workers`, or start a service with one worker for Studio"
            )
            raise ServiceError(501, message, code="studio_not_available")
        async with self._opening:
            self._clients[client.owner] = client  # its budget may have changed
            studio = self._studios.get(client.owner)
            if studio is None:
                studio = self._studios[client.owner] = await self._open(client)
            self._studios.move_to_end(client.owner)
            while len(self._studios) > MAX_STUDIOS:
                owner, oldest = self._studios.popitem(last=False)
                await oldest.talk.aclose()
                del self._clients[owner]
        return studio

    async def stop(self) -> None:
        """Stop replies that are still streaming."""
        for studio in self._studios.values():
            await studio.talk.aclose()
        self._studios.clear()
        self._clients.clear()

    async def _client(self, request: HttpRequest) -> Client:
        needed = _scope(request)
        credentials = await bearer(request)
        if needed == "read":  # every keystroke is a request, so they do not count towards the rate limit
            token = credentials.credentials if credentials is not None else request.headers.get("x-api-key")
            client = await self._service.keys.client(token)
        else:
            client = await client_of(request, credentials)
        for scope in dict.fromkeys(("read", needed)):
            if not client.may(scope):
                raise ServiceError(403, f"the API key does not have the scope {scope!r}", code="missing_scope")
        return client

    async def _open(self, client: Client) -> Studio:
        shelf = LibraryShelf(self._service, client.limits)
        models = [
            ModelChoice(id=f"upstream:{name}", label=name, make=lambda name=name: self._model(name, client.owner))
            for name in self._service.upstreams.names()
        ]
        opened = await shelf.open(OpenRequest())
        return Studio(opened.workspace, inputs=opened.inputs, shelf=shelf, models=models)

    def _model(self, name: str, owner: str) -> Model:
        return AccountedModel(self._service, self._service.upstreams.get(name), lambda: self._clients[owner])


def _scope(request: HttpRequest) -> Scope:
    path = request.url.path.removeprefix(PREFIX)
    if request.method == "POST" and path.startswith("/talk/turn"):
        return "chat"
    return "write" if request.method == "POST" and (path.endswith("/save") or path == "/lore/case") else "read"


class LibraryShelf:
    """The library of the service."""

    def __init__(self, service: Service, limits: Limits = DEFAULT_LIMITS) -> None:
        self._service = service
        self._limits = limits

    async def choices(self) -> JsonObject:
        """Return the ids and names of the library's items."""
        index: JsonObject = {"groups": [], "chats": {}}
        names: JsonObject = {}
        async with self._service.database.read() as connection:
            for kind, plural in _PLURALS.items():
                items = (await all_items(connection, kind))[:MAX_LISTED]
                index[plural] = [item.id for item in items]
                names[plural] = {item.id: item.name for item in items}
        return {**index, "names": names}

    async def open(self, wanted: OpenRequest) -> OpenedShelf:
        """Open a character of the library with its books, and a new chat."""
        async with self._service.database.read() as connection:
            characters = await list_items(connection, "character", limit=1)
            presets = await list_items(connection, "preset", limit=1)
            books = {item.name: item.id for item in await all_items(connection, "book")}
        character = wanted.character or (characters[0].id if characters else None)
        if character is None:
            data, format_ = empty_data("card")
            card = new_document("", "card", "New character", data, format_=format_)
        else:
            card = await self._document("character", character)
        world = _world(card)
        linked = [books[world]] if world in books else []
        documents = [card, *[await self._document("book", each) for each in (*wanted.books, *linked)]]
        preset = wanted.preset or (presets[0].id if presets else None)
        if preset is not None:
            documents.append(await self._document("preset", preset))
        chat, _ = empty_data("chat")
        user: JsonObject = {"name": "User", "description": "", "position": 0, "depth": 2, "role": 0}
        documents.append(new_document("", "chat", "New chat", chat, format_=JSONL))
        documents.append(new_document("", "persona", "User", user))
        turn: JsonObject = {**DEFAULT_TURN, "platform": wanted.platform or "silly_tavern", "allow_scripts": False}
        return OpenedShelf(Workspace(documents).with_turn(turn), Inputs(limits=self._limits))

    async def is_changed(self, document: Document) -> bool:
        """Return True if the item has a newer version."""
        async with self._service.database.read() as connection:
            return await self._is_changed(connection, document)

    async def read(self, document: Document) -> Document:
        """Read the item again."""
        return await self._document(*_item(document))

    async def _is_changed(self, connection: AsyncConnection, document: Document) -> bool:
        return digest_of(await item_file(connection, *_item(document))) != document.digest

    async def write(self, document: Document, content: bytes, *, overwrite: bool = False) -> str | None:
        """Store a new version of the item, unless there is one; the library keeps no old ones."""
        kind, item_id = _item(document)
        async with self._service.database.write() as connection:
            await advisory_lock(connection, f"items/{kind}")
            if not overwrite and await self._is_changed(connection, document):
                raise StudioError(409, f"{document.title} has been changed by somebody else", code="changed_on_disk")
            info = await item_info(connection, kind, item_id)
            await save_item(
                connection,
                kind,
                name=document.title if kind == "character" else info.name,
                platform=info.platform,
                file=content,
                filename=info.filename,
                item_id=item_id,
            )
        return None

    async def _document(self, kind: Kind, item_id: str) -> Document:
        async with self._service.database.read() as connection:
            info = await item_info(connection, kind, item_id)
            content = await item_file(connection, kind, item_id)
        read = await asyncio.to_thread(read_document, content, name=info.filename or info.name, kind=_KINDS[kind])
        return replace(read, name=info.name, item=f"{kind}/{info.id}")


class AccountedModel(ModelWrapper):
    """An upstream's model whose usage counts for a key, and is refused when the key has used up its budget."""

    def __init__(self, service: Service, upstream: Upstream, client: Callable[[], Client]) -> None:
        """Wrap the model of an upstream.

        Args:
            service: The service.
            upstream: The upstream of the model.
            client: Returns the client whose budget is used, as it is now.
        """
        super().__init__(upstream.model)
        self._service = service
        self._upstream = upstream
        self._client = client

    async def send_whole(self, request: Request) -> Reply:
        """Send a request, and count it."""
        await self._check()
        addressed = self._upstream.with_model(request)
        async with self._upstream.borrow() as model:
            reply = await model.send(addressed)
        await self._count(addressed, reply)
        return reply

    async def stream(self, request: Request) -> AsyncGenerator[ReplyPiece]:
        """Stream a request, and count its tokens however it ends, unless the model has said nothing."""
        await self._check()
        addressed = self._upstream.with_model(request)
        collected = Accumulator(addressed.model)
        try:
            async with self._upstream.borrow() as model, aclosing(model.stream(addressed)) as pieces:
                async for piece in pieces:
                    collected.add(piece)
                    yield piece
        finally:
            reply = collected.reply()
            if collected.started or reply.usage.reported:
                await asyncio.shield(self._count(addressed, reply))

    async def aclose(self) -> None:
        """Do nothing: the model belongs to the service."""

    async def _check(self) -> None:
        async with self._service.database.read() as connection:
            await self._service.accounts.check(connection, self._client())

    async def _count(self, request: Request, reply: Reply) -> None:
        exchanged = UpstreamExchange(
            upstream=self._upstream.name, config=self._upstream.config, request=request, reply=reply
        )
        async with self._service.database.write() as connection:
            await self._service.accounts.add(connection, self._client().owner, uses_of([exchanged], "studio", None))


def _item(document: Document) -> tuple[Kind, str]:
    kind, _, item_id = document.item.partition("/")
    found: Kind | None = next((each for each in _KINDS if each == kind), None)
    if found is None:
        raise StudioError(409, f"{document.title} is not in the library", code="not_writable")
    return found, item_id


def _world(card: Document) -> str:
    """Return the name of the book that a card is linked to."""
    from tavernkit.cards import Character
    from tavernkit.errors import WarningLog

    world: Json = Character.from_card(card.data, warn=WarningLog()).world_name
    return world if isinstance(world, str) else ""
