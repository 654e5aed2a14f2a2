"""The meaning of a model server's failure: for the client, for routing, for metrics."""

from __future__ import annotations

from tavernkit.models import ConnectionFailedError, HTTPError, ModelError, ProviderError, RequestTimeoutError
from tavernkit.models._wrappers import retry_after
from tavernkit.server.errors import ServiceError


def as_service_error(error: Exception) -> ServiceError:
    """Return the client's error for an upstream failure."""
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
    """Return the route condition of an error; None if another upstream would fail the same way."""
    if isinstance(error, ServiceError):
        return "error" if error.code == "upstream_unavailable" else None
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if not isinstance(error, ModelError):
        return None
    status = _status(error)
    if status == 429:
        return "rate_limit"
    said = str(error).lower()
    if status in (400, 413, 422):
        too_long = "context" in said or "too long" in said or ("maximum" in said and "token" in said)
        return "context_length" if too_long else None
    return "error"


def failure_reason(error: ModelError) -> str:
    """Return a short reason for metrics."""
    if isinstance(error, HTTPError):
        return str(error.status)
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    return "connection" if isinstance(error, ConnectionFailedError) else "no_reply"


def is_outage(error: ModelError) -> bool:
    """Return True if an error is the upstream's fault, not that of the request."""
    status = _status(error)
    return status is None or status >= 500


def _status(error: ModelError) -> int | None:
    """Return the HTTP status of an error, also of one inside a 200 answer, as routers report those behind them."""
    return error.status if isinstance(error, (HTTPError, ProviderError)) else None
