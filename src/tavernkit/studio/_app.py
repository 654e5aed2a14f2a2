"""Studio as an application of its own, for one person on this machine.

It opens given files, a character of an installation, or the shipped example.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from tavernkit import __version__
from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.conversation import ToolInput
from tavernkit.errors import ConfigError
from tavernkit.examples import example_path
from tavernkit.models._factory import user_model
from tavernkit.silly_tavern import DataFolder
from tavernkit.studio._api import PREFIX, StudioResponse, page_router, router, talk_router
from tavernkit.studio._document import JSONL, Document, Kind, new_document, read_document
from tavernkit.studio._security import Guard, error_body, new_token
from tavernkit.studio._shelf import FolderShelf, OpenRequest
from tavernkit.studio._studio import Studio
from tavernkit.studio._talk_models import ModelChoice
from tavernkit.studio._turn import DEFAULT_TURN, SILLY_TAVERN
from tavernkit.studio._workspace import Workspace

EXAMPLE_MESSAGE = "Have you ever seen the lamp go dark before?"
"""The next message in the shipped example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The arguments for opening a Studio."""

    card: Path | None = None
    books: Sequence[Path] = ()
    preset: Path | None = None
    chat: Path | None = None
    context_template: Path | None = None
    instruct: Path | None = None
    system_prompt: Path | None = None
    regex_scripts: Sequence[Path] = ()
    user: str | None = None
    persona: str = ""
    message: str = ""
    platform: str = SILLY_TAVERN
    dialect: str = "openai"
    model_hint: str | None = None
    greeting: int = 0


def open_studio(given: Opened, *, models: Sequence[ModelChoice] = (), tools: Sequence[ToolInput] = ()) -> Studio:
    """Open files; without a card the shipped example.

    Args:
        given: The files and other arguments.
        models: Models to talk to, besides the scripted one.
        tools: Functions that these may call.

    Raises:
        FileFormatError: A file is something else, or cannot be read.
    """
    return Studio(open_workspace(given), models=models, tools=tools)


def open_folder(
    folder: Path, wanted: OpenRequest, *, models: Sequence[ModelChoice] = (), tools: Sequence[ToolInput] = ()
) -> Studio:
    """Open a character of SillyTavern's data folder; others of it can be opened on the page.

    Args:
        folder: ``data/default-user`` of an installation.
        wanted: Which character and chat; the first character if none is named.
        models: Models to talk to, besides the scripted one.
        tools: Functions that these may call.

    Raises:
        ConfigError: There is no such character, chat or preset, or none at all.
    """
    opened = DataFolder(folder)
    if wanted.character is None and wanted.group is None:
        characters = opened.characters()
        if not characters:
            raise ConfigError(f"there is no character in {folder}", code="NO_CHARACTER")
        wanted = replace(wanted, character=characters[0])
    shelf = FolderShelf(opened)
    found = shelf.open_now(wanted)
    return Studio(found.workspace, inputs=found.inputs, shelf=shelf, models=models, tools=tools)


def model_choice(name: str, base_url: str | None = None) -> ModelChoice:
    """Return a model choice; its key comes from the environment, that of another server from ``TAVERNKIT_API_KEY``.

    Args:
        name: ``openai:gpt-4o``, ``anthropic:…``, ``koboldcpp:http://…`` and so on, as for ``tavernkit.model()``.
        base_url: Another server that speaks the same protocol.

    Raises:
        ConfigError: The provider is unknown, or there is no address.
    """
    user_model(name, base_url=base_url)  # a mistake is found now, not at the first turn
    return ModelChoice(id=name, label=name, make=lambda: user_model(name, base_url=base_url))


def open_workspace(given: Opened) -> Workspace:
    """Read files into a workspace; without a card the shipped example."""
    documents = [*_files(given)] if given.card is not None else [*_example(given)]
    chat = next((each for each in documents if each.kind == "chat"), None)
    if chat is None:
        empty: JsonObject = {"header": {"chat_metadata": {}}, "messages": []}
        chat = new_document("", "chat", "New chat", empty, format_=JSONL)
        documents.append(chat)
    documents.append(_persona(given, chat))
    return Workspace(documents).with_turn(_turn(given))


def _files(given: Opened) -> list[Document]:
    wanted: list[tuple[Path | None, Kind]] = [
        (given.card, "card"),
        *((path, "book") for path in given.books),
        (given.preset, "preset"),
        (given.chat, "chat"),
        (given.context_template, "context_template"),
        (given.instruct, "instruct"),
        (given.system_prompt, "system_prompt"),
        *((path, "regex") for path in given.regex_scripts),
    ]
    return [read_document(path, name=path.name, kind=kind) for path, kind in wanted if path is not None]


def _example(given: Opened) -> list[Document]:
    """Return the shipped example. It has no file, because the package's own files must not be written."""
    wanted: list[tuple[str, Kind]] = [("aria.json", "card"), ("tidewatch.json", "book"), ("preset.json", "preset")]
    if given.chat is None:
        wanted.append(("chat.jsonl", "chat"))
    shipped = [read_document(example_path(name).read_bytes(), name=name, kind=kind) for name, kind in wanted]
    return [*shipped, *_files(given)]


def _persona(given: Opened, chat: Document) -> Document:
    name = given.user or _user_of(chat.data) or "User"
    data: JsonObject = {"name": name, "description": given.persona, "position": 0, "depth": 2, "role": 0}
    return new_document("", "persona", name, data)


def _turn(given: Opened) -> JsonObject:
    return {
        **DEFAULT_TURN,
        "platform": given.platform,
        "dialect": given.dialect,
        "model": given.model_hint,
        "greeting": given.greeting,
        "message": given.message or (EXAMPLE_MESSAGE if given.card is None else ""),
    }


def _user_of(chat: Json) -> str | None:
    """Return the user's name in a SillyTavern chat."""
    messages = chat.get("messages") if is_object(chat) else None
    for line in reversed(messages) if is_list(messages) else ():
        if is_object(line) and line.get("is_user") is True and isinstance(line.get("name"), str):
            return str(line["name"])
    return None


HOST = "127.0.0.1"


def create_app(studio: Studio, *, token: str) -> FastAPI:
    """Make the application.

    Args:
        studio: The Studio of the page.
        token: The secret that the page must send.
    """
    app = FastAPI(title="TavernKit Studio", version=__version__, openapi_url=None)

    async def find_studio(request: Request) -> Studio:
        del request
        return studio

    app.state.find_studio = find_studio
    for each in (router, talk_router, page_router):
        app.include_router(each)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RecursionError, _too_deep)
    app.add_middleware(Guard, token=token, prefix=PREFIX)
    return app


async def _invalid(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return StudioResponse(error_body(422, f"{where}: {first['msg']}", "invalid_request", where), status_code=422)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return StudioResponse(error_body(error.status_code, str(error.detail), "http_error"), status_code=error.status_code)


async def _too_deep(request: Request, error: Exception) -> Response:
    del request, error
    return StudioResponse(error_body(400, "the request nests too deeply", "nested_too_deeply"), status_code=400)


def run_studio(studio: Studio, *, port: int = 0, opened: Callable[[str], object] = print) -> None:
    """Serve the page until the process is stopped.

    Args:
        studio: The Studio of the page.
        port: The port; any free one by default.
        opened: Called with the page's address, which has the token in it.

    Raises:
        ConfigError: The port is taken.
    """
    import uvicorn

    token = new_token()
    threading.Thread(target=studio.warm_up, daemon=True).start()
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(128)  # a browser that connects before the server is ready waits for it
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {HOST}:{port}: {error.strerror}", code="CANNOT_LISTEN") from error
    # The part after # stays in the browser: it is in no log and in no request.
    opened(f"http://{HOST}:{listening.getsockname()[1]}/#token={token}")
    config = uvicorn.Config(
        create_app(studio, token=token), log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
