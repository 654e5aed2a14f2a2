"""The API description and its pages, served locally and protected by the same keys as the API."""

from __future__ import annotations

import base64
import binascii
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from tavernkit.server.api.dependencies import TheService
from tavernkit.server.api.descriptions import describe
from tavernkit.server.api.json_response import SafeJSONResponse
from tavernkit.server.errors import ServiceError
from tavernkit.server.service import Service

router = APIRouter(include_in_schema=False)

CHALLENGE: Final = 'Basic realm="TavernKit: any name, and an API key as the password"'
"""The header that makes a browser ask for a key."""

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><title>TavernKit</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body><div id="swagger-ui"></div><script src="docs/swagger-ui.js"></script><script src="docs/start.js"></script></body>
</html>
"""
START: Final = "SwaggerUIBundle({url: 'openapi.json', dom_id: '#swagger-ui', deepLinking: true});\n"
TYPES: Final = {"swagger-ui.js": "text/javascript", "swagger-ui.css": "text/css"}


@router.get("/docs")
async def docs(request: Request, service: TheService) -> Response:
    """The API documentation page."""
    return await _refusal(request, service) or HTMLResponse(PAGE)


@router.get("/openapi.json")
async def openapi(request: Request, service: TheService) -> Response:
    """The OpenAPI description."""
    return await _refusal(request, service) or SafeJSONResponse(describe(request.app.openapi()))


@router.get("/docs/start.js")
async def start() -> Response:
    """The script that starts the documentation page."""
    return Response(START, media_type="text/javascript")


@router.get("/docs/{name}")
async def swagger_ui(name: str) -> Response:
    """Files of Swagger UI, compressed."""
    if name not in TYPES:
        raise ServiceError(404, f"there is no {name!r}", code="not_found")
    packed = files("tavernkit.server").joinpath("swagger_ui", f"{name}.gz").read_bytes()
    headers = {"content-encoding": "gzip", "cache-control": "max-age=86400"}
    return Response(packed, media_type=TYPES[name], headers=headers)


async def _refusal(request: Request, service: Service) -> Response | None:
    """Return the answer for clients without a required key. Browsers send keys as passwords."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    token = _password(value) if scheme.lower() == "basic" else value if scheme.lower() == "bearer" else None
    try:
        await service.keys.count(await service.keys.client(token))
    except ServiceError as error:
        headers = {"www-authenticate": CHALLENGE} if error.status == 401 else None
        return SafeJSONResponse(error.body(), status_code=error.status, headers=headers)
    return None


def _password(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None
