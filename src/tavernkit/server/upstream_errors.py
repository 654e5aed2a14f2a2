"""What a model server's failure means: for the client, for the next server of a route, for counting."""

from __future__ import annotations

from tavernkit.models import ConnectionFailedError, HTTPError, ModelError, RequestTimeoutError
from tavernkit.models._wrappers import retry_after
from tavernkit.server.errors import ServiceError


def as_service_error(error: Exception) -> ServiceError:
    """The error a client gets when its upstream failed."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, HTTPError):
        if error.status == 429:
            return ServiceError(
                429, f"the model's server: {error}", code="upstream_rate_limited", retry_after=retry_after(error)
            )
        status = 400 if error.status in (400, 413, 422) else 502
        return ServiceError(status, f"the model's server: {error}", code="upstream_error")
    if isinstance(error, RequestTimeoutError):
        return ServiceError(504, str(error), code="upstream_timeout")
    return ServiceError(502, f"the model's server failed: {error}", code="upstream_error")


def kind_of_failure(error: Exception) -> str | None:
    """Which condition of a route an error fulfils; None if another upstream would fail the same way."""
    if isinstance(error, ServiceError):
        return "error" if error.code == "upstream_unavailable" else None
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if not isinstance(error, HTTPError):
        return "error" if isinstance(error, ModelError) else None
    if error.status == 429:
        return "rate_limit"
    said = str(error).lower()
    if error.status in (400, 413, 422):
        too_long = "context" in said or "too long" in said or ("maximum" in said and "token" in said)
        return "context_length" if too_long else None
    return "error"


def failure_reason(error: ModelError) -> str:
    """A word for what went wrong, for counting."""
    if isinstance(error, HTTPError):
        return str(error.status)
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    return "connection" if isinstance(error, ConnectionFailedError) else "no_reply"


def is_outage(error: ModelError) -> bool:
    """Return True if an error is the upstream's fault, not that of the request."""
    return not isinstance(error, HTTPError) or error.status >= 500
