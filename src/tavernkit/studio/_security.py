"""Access control: only the page itself, on this machine, with the session's token."""

from __future__ import annotations

import hmac
import json
import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Only the page's own files, no inline scripts."""

HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": PAGE_POLICY,
}


def new_token() -> str:
    """Make a session's token."""
    return secrets.token_urlsafe(32)


class Guard:
    """The outermost layer of Studio on loopback: names, origins, the token, the size of bodies, headers.

    Host names are checked because another page can point its own name to this machine. The token is sent in a header,
    which other pages cannot do, and never in a cookie, which browsers would send for every page.
    """

    def __init__(self, app: ASGIApp, *, token: str, prefix: str) -> None:
        self._app = app
        self._token = token.encode()
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                written = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    written.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope["path"], headers)
        if refused is not None:
            await _answer(sending, *refused)
            return
        received = 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > MAX_BODY_BYTES:
                    return {"type": "http.disconnect"}
            return message

        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            await _answer(sending, 413, "the request is too large", "request_too_large")
            return
        await self._app(scope, receiving, sending)

    def _refusal(self, path: str, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        if _name(f"//{host}") not in LOOPBACK:
            return 403, "this page answers to loopback names only", "host_not_allowed"
        origin = headers.get("origin")
        if origin is not None and not _same(origin, host):
            return 403, "requests from other pages are not allowed", "origin_not_allowed"
        # Links from elsewhere may open the page itself, which contains nothing secret.
        linked = headers.get("sec-fetch-mode") == "navigate" and not path.startswith(self._prefix)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not linked:
            return 403, "requests from other pages are not allowed", "origin_not_allowed"
        if path.startswith(self._prefix):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token):
                return 401, "open the address that was printed when Studio was started", "invalid_token"
        return None


def _name(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower() and urlsplit(origin).scheme in ("http", "https")
    except ValueError:
        return False


async def _answer(send: Send, status: int, message: str, code: str) -> None:
    body = json.dumps(error_body(status, message, code)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(status: int, message: str, code: str, param: str | None = None) -> dict[str, object]:
    """Return an error in the service's format.

    Args:
        status: The HTTP status.
        message: For people.
        code: For programs.
        param: Which part of the request is wrong.
    """
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
