"""Errors of the service, in OpenAI's shape."""

from __future__ import annotations

from tavernkit._values import JsonObject
from tavernkit.errors import TavernKitError


class ServiceError(TavernKitError):
    """A request cannot be served; ``status`` is the HTTP status, ``code`` is stable for programs."""

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after

    def body(self) -> JsonObject:
        """Return the body of the answer."""
        return error_body(self.status, str(self), code=self.code, param=self.param)


def server_failure() -> ServiceError:
    """Return the error for a mistake of ours. The caller logs the cause."""
    return ServiceError(500, "the server failed; the log says why", code="internal_error")


def error_body(status: int, message: str, *, code: str, param: str | None = None) -> JsonObject:
    """Return an error in the format of OpenAI's API."""
    return {"error": {"message": message, "type": _TYPES.get(status, _kind(status)), "param": param, "code": code}}


def not_found(kind: str, name: str) -> ServiceError:
    """Return a 404 error."""
    code = "model_not_found" if kind == "model" else f"{kind}_not_found"
    return ServiceError(404, f"there is no {kind} {name!r}", code=code)


_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def _kind(status: int) -> str:
    return "invalid_request_error" if status < 500 else "api_error"
