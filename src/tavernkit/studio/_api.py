"""The page's API, and its files."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import TavernKitError
from tavernkit.studio._api_types import (
    ActivateIn,
    BuildIn,
    CacheIn,
    CaseIn,
    ChangeIn,
    CompareIn,
    DocumentIn,
    EditsIn,
    EmptyIn,
    MacrosIn,
    ModelIn,
    OpenIn,
    PlanIn,
    RegexIn,
    RequestIn,
    SaveIn,
    ScanIn,
    StepIn,
    TurnIn,
)
from tavernkit.studio._security import PAGE_POLICY, error_body
from tavernkit.studio.errors import StudioError

if TYPE_CHECKING:
    from tavernkit.studio._studio import Studio
    from tavernkit.studio._talk import Event
    from tavernkit.studio._workspace import Changed

PREFIX = "/api/studio"
TYPES: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
    "md": "text/plain; charset=utf-8",
}
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*\.([a-z0-9]+)")


class StudioResponse(JSONResponse):
    """JSON of untrusted documents, including lone surrogates and odd numbers."""

    def render(self, content: Any) -> bytes:
        """Write the body."""
        try:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except ValueError:
            return json.dumps(_finite(content), ensure_ascii=True, separators=(",", ":")).encode()


def _finite(value: Json) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if is_object(value):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if is_list(value) else value


class StudioRoute(APIRoute):
    """A route that turns errors of documents and builds into answers for the page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except StudioError as error:
                return StudioResponse(error_body(error.status, str(error), error.code), status_code=error.status)
            except TavernKitError as error:
                if hasattr(error, "status"):  # the service's own errors, which it handles itself
                    raise
                code = str(getattr(error, "code", None) or "cannot_do_this").lower()
                return StudioResponse(error_body(422, str(error), code), status_code=422)

        return handle_errors


async def studio_of(request: Request) -> Studio:
    """Return the Studio of a client; the application decides which."""
    find = cast("Callable[[Request], Awaitable[Studio]]", request.app.state.find_studio)
    return await find(request)


# Studio's modules are loaded with the first client: a service without visitors starts sooner.
if TYPE_CHECKING:
    TheStudio = Annotated[Studio, Depends(studio_of)]
else:
    TheStudio = Annotated[object, Depends(studio_of)]

router = APIRouter(prefix=PREFIX, tags=["studio"], default_response_class=StudioResponse, route_class=StudioRoute)
talk_router = APIRouter(
    prefix=f"{PREFIX}/talk", tags=["studio"], default_response_class=StudioResponse, route_class=StudioRoute
)
page_router = APIRouter(include_in_schema=False, route_class=StudioRoute)


async def _answer(studio: Studio, changed: Changed, *, build: bool, since: str | None = None) -> StudioResponse:
    built = await studio.prompts.build(since) if build else None
    return StudioResponse(studio.changes_json(changed, built))


@router.get("/workspace")
async def workspace(studio: TheStudio, data: bool = True) -> Response:
    """All documents, which of them are active, and the available choices."""
    return StudioResponse(studio.describe(data=data))


@router.get("/documents/{document_id}")
async def document(studio: TheStudio, document_id: str) -> Response:
    """One document with its data."""
    return StudioResponse(studio.workspace.document(document_id).to_dict())


@router.post("/edit")
async def edit(studio: TheStudio, body: EditsIn) -> Response:
    """Make edits as one step, and build the prompt."""
    changed = studio.edit(body.edits, group=body.group, label=body.label)
    return await _answer(studio, changed, build=body.build, since=body.since)


@router.post("/undo")
async def undo(studio: TheStudio, body: StepIn) -> Response:
    """Take back the last step."""
    return await _answer(studio, studio.undo(), build=body.build, since=body.since)


@router.post("/redo")
async def redo(studio: TheStudio, body: StepIn) -> Response:
    """Redo the last undone step."""
    return await _answer(studio, studio.redo(), build=body.build, since=body.since)


@router.post("/documents")
async def add(studio: TheStudio, body: DocumentIn) -> Response:
    """Add a new document, or a file that was chosen in the browser."""
    if body.content is not None:
        return await _answer(studio, studio.open_upload(body.name, body.content, body.kind), build=body.build)
    return await _answer(studio, studio.make(body.kind, body.name), build=body.build)


@router.delete("/documents/{document_id}")
async def remove(studio: TheStudio, document_id: str) -> Response:
    """Close a document; its file stays."""
    return await _answer(studio, studio.remove(document_id), build=True)


@router.post("/activate")
async def activate(studio: TheStudio, body: ActivateIn) -> Response:
    """Switch a document on or off."""
    return await _answer(studio, studio.workspace.activate(body.document, active=body.active), build=body.build)


@router.get("/documents/{document_id}/difference")
async def difference(studio: TheStudio, document_id: str) -> Response:
    """What saving would change."""
    return StudioResponse(await studio.difference(document_id))


@router.post("/documents/{document_id}/save")
async def save(studio: TheStudio, document_id: str, body: SaveIn) -> Response:
    """Write a document to its file; the old file is kept next to it."""
    saved, backup = await studio.save(document_id, overwrite=body.overwrite)
    answer: JsonObject = {
        "document": saved.to_dict(data=False),
        "file": saved.path.name if saved.path is not None else None,
        "backup": backup,
        "revision": studio.workspace.revision,
    }
    return StudioResponse(answer)


@router.post("/documents/{document_id}/reload")
async def reload(studio: TheStudio, document_id: str) -> Response:
    """Read a document from its file again."""
    return await _answer(studio, await studio.reload(document_id), build=True)


@router.get("/documents/{document_id}/download")
async def download(studio: TheStudio, document_id: str) -> Response:
    """The file as Save would write it."""
    name, content = await asyncio.to_thread(studio.file, document_id)
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.post("/build")
async def build(studio: TheStudio, body: BuildIn) -> Response:
    """Build the prompt of the current documents."""
    return StudioResponse(await studio.prompts.build(body.since))


@router.get("/plans/{plan}")
async def plan(studio: TheStudio, plan: str) -> Response:
    """A prompt that was built before: what the model saw."""
    return StudioResponse(studio.prompts.seen(plan))


@router.post("/sources")
async def sources(studio: TheStudio, body: PlanIn) -> Response:
    """Where every character of a prompt comes from."""
    return StudioResponse(await studio.prompts.sources(body.plan))


@router.post("/request")
async def request(studio: TheStudio, body: RequestIn) -> Response:
    """What would be sent to a provider, without keys."""
    return StudioResponse(await studio.prompts.request(body.plan, body.dialect, reference=body.reference))


@router.post("/cache")
async def cache(studio: TheStudio, body: CacheIn) -> Response:
    """What a provider's cache has of a prompt after the previous turns."""
    return StudioResponse(await studio.prompts.cache(body.plan, body.profile))


@router.post("/lore/scan")
async def lore_scan(studio: TheStudio, body: ScanIn) -> Response:
    """Which lore entries fire for a text, and why others do not."""
    return StudioResponse(await studio.scan_lore(body.text, with_chat=body.with_chat))


@router.post("/lore/chart")
async def lore_chart(studio: TheStudio, body: EmptyIn) -> Response:
    """Which lore entries were in the prompt of each reply of the chat."""
    del body
    return StudioResponse(await studio.chart_lore())


@router.post("/lore/case")
async def lore_case(studio: TheStudio, body: CaseIn) -> Response:
    """A finding as a test of ``tavernkit test``."""
    return StudioResponse(studio.keep_finding(body))


@router.post("/compare")
async def compare_sides(studio: TheStudio, body: CompareIn) -> Response:
    """Two prompts side by side, with their differences."""
    return StudioResponse(await studio.compare(body.left, body.right))


@router.post("/play/macros")
async def play_macros(studio: TheStudio, body: MacrosIn) -> Response:
    """The expansion of a text with macros or CBS: tree, values, warnings, variables."""
    return StudioResponse(await studio.try_macros(body.text, body.engine))


@router.post("/play/regex")
async def play_regex(studio: TheStudio, body: RegexIn) -> Response:
    """The result of a regex script on a text, and its matches."""
    return StudioResponse(await studio.try_script(body.script, body.text, body.engine))


@router.get("/lint")
async def lint(studio: TheStudio) -> Response:
    """Lint findings in the current documents."""
    return StudioResponse(await studio.lint())


@router.get("/folder")
async def folder(studio: TheStudio) -> Response:
    """The characters, chats and presets that can be opened."""
    return StudioResponse(await studio.choices())


@router.post("/open")
async def open_character(studio: TheStudio, body: OpenIn) -> Response:
    """Open another character instead of all documents."""
    await studio.open(body, discard=body.discard)
    return StudioResponse(studio.describe())


@talk_router.get("")
async def talk(studio: TheStudio) -> Response:
    """The lines of the chat, and which model answers."""
    return StudioResponse(studio.talk.describe())


@talk_router.post("/turn")
async def turn(studio: TheStudio, body: TurnIn) -> Response:
    """Run a turn; the reply is streamed as server-sent events."""
    studio.talk.check_free()
    events = _encode_events(studio.talk.turn(body.kind, body.text))
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@talk_router.post("/change")
async def change(studio: TheStudio, body: ChangeIn) -> Response:
    """Change the chat without a model."""
    view, changed = await studio.talk.change(body.op, body.index, body.text)
    return StudioResponse({"talk": view, "edit": studio.changes_json(changed)})


@talk_router.post("/stop")
async def stop(studio: TheStudio, body: EmptyIn) -> Response:
    """Stop the current reply; the text so far is kept."""
    del body
    return StudioResponse({"stopped": await studio.talk.stop()})


@talk_router.post("/model")
async def choose_model(studio: TheStudio, body: ModelIn) -> Response:
    """Choose the model that answers."""
    await studio.talk.choose(body.model, body.script)
    return StudioResponse(studio.talk.describe())


async def _encode_events(events: AsyncGenerator[Event]) -> AsyncGenerator[bytes]:
    async with aclosing(events) as open_events:
        try:
            async for name, data in open_events:
                yield _encode_event(name, data)
        except StudioError as error:  # another turn has begun since the answer has
            yield _encode_event("error", {"error": {"message": str(error), "code": error.code}})


def _encode_event(name: str, data: JsonObject) -> bytes:
    # ASCII, so that lone surrogates cannot break the stream.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


@page_router.get("/")
async def page() -> Response:
    """The page. It contains nothing secret."""
    text = files("tavernkit.studio").joinpath("page", "index.html").read_bytes()
    return Response(text, media_type="text/html; charset=utf-8", headers=_headers("no-store"))


@page_router.get("/favicon.ico")
async def icon() -> Response:
    """The icon of the page."""
    return Response(status_code=204)


@page_router.get("/studio/{path:path}")
async def page_file(path: str) -> Response:
    """A file of the page."""
    named = _NAME.fullmatch(path)
    if named is None or named[1] not in TYPES or ".." in path:
        raise StudioError(404, "there is no such file", code="not_found")
    found = files("tavernkit.studio").joinpath("page", *path.split("/"))
    if not found.is_file():
        raise StudioError(404, "there is no such file", code="not_found")
    return Response(found.read_bytes(), media_type=TYPES[named[1]], headers=_headers("no-cache"))


def _headers(cache: str) -> dict[str, str]:
    return {"cache-control": cache, "content-security-policy": PAGE_POLICY}
