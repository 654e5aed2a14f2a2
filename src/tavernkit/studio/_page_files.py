"""The page's files."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from tavernkit.studio._api import StudioRoute
from tavernkit.studio._security import PAGE_POLICY
from tavernkit.studio.errors import StudioError

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

router = APIRouter(include_in_schema=False, route_class=StudioRoute)


@router.get("/")
async def page() -> Response:
    """The page. It contains nothing secret."""
    text = files("tavernkit.studio").joinpath("page", "index.html").read_bytes()
    return Response(text, media_type="text/html; charset=utf-8", headers=_headers("no-store"))


@router.get("/favicon.ico")
async def icon() -> Response:
    """The icon of the page."""
    return Response(status_code=204)


@router.get("/studio/{path:path}")
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
