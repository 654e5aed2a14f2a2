"""Categories of failures in an evaluation run."""

from __future__ import annotations

from typing import Final

from tavernkit.models import ConnectionFailedError, DecodeError, HTTPError, ProviderError, RequestTimeoutError
from tavernkit.vibe_tavern.errors import ToolLoopLimitError, ToolUseError

ASSERTION_FAILED: Final = "ASSERTION_FAILED"
EMPTY_ASSISTANT_TEXT: Final = "EMPTY_ASSISTANT_TEXT"
LANGUAGE_DRIFT: Final = "LANGUAGE_DRIFT"

RETRYABLE: Final = frozenset((EMPTY_ASSISTANT_TEXT, "CONNECTION_ERROR", "TIMEOUT_ERROR", "DECODE_ERROR"))
"""Failures that are worth a retry: network errors and empty answers."""

UNANSWERED: Final = frozenset(
    (
        "CONNECTION_ERROR",
        "TIMEOUT_ERROR",
        "AUTH",
        "PAYMENT_REQUIRED",
        "FORBIDDEN",
        "NOT_FOUND",
        "TIMEOUT",
        "RATE_LIMIT",
        "UPSTREAM_5XX",
    )
)
"""Runs that say nothing about the model, because it did not get the request; they are repeated when resuming."""

_STATUSES: Final = {
    401: "AUTH",
    402: "PAYMENT_REQUIRED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    408: "TIMEOUT",
    409: "CONFLICT",
    413: "REQUEST_TOO_LARGE",
    422: "UNPROCESSABLE",
    429: "RATE_LIMIT",
}


def error_category(error: BaseException) -> str:
    """Name the category of an error."""
    if isinstance(error, HTTPError):
        return http_category(error.status, str(error))
    if isinstance(error, (ToolUseError, ToolLoopLimitError)):
        return error.code
    if isinstance(error, (RequestTimeoutError, TimeoutError)):
        return "TIMEOUT_ERROR"
    if isinstance(error, (ConnectionFailedError, ConnectionError)):
        return "CONNECTION_ERROR"
    return "DECODE_ERROR" if isinstance(error, (DecodeError, ProviderError)) else "EXCEPTION"


def http_category(status: int, message: str) -> str:
    """Name the category of an error status."""
    if status == 404 and "tool use" in message.lower():
        return "NO_TOOL_USE_ENDPOINT"
    if status in _STATUSES:
        return _STATUSES[status]
    return "UPSTREAM_5XX" if status >= 500 else f"HTTP_{status}"
