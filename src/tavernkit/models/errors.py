"""Errors of models, the same for every provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.errors import TavernKitError

if TYPE_CHECKING:
    from tavernkit.models._reply import Reply


class ModelError(TavernKitError):
    """A request got no usable reply.

    ``partial`` is the text before a stream broke, marked as interrupted; None if there was none.
    ``attempts`` lists the earlier attempts of a directives run. ``provider`` is the name of the
    provider, with which the message begins; empty for models that were not made by name.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.provider = ""
        self.partial: Reply | None = None
        self.attempts: Sequence[JsonObject] = ()

    def __str__(self) -> str:
        return f"{self.provider}: {super().__str__()}" if self.provider else super().__str__()


class BudgetReachedError(TavernKitError):
    """A run has reached its limit of requests or tokens; this request was not sent."""


class HTTPError(ModelError):
    """The provider answered with an error status. Headers and bodies do not contain the keys that were sent."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        raw_body: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = body
        self.raw_body = raw_body

    @classmethod
    def from_body(
        cls, status: int, body: Json, *, raw_body: str = "", headers: Mapping[str, str] | None = None
    ) -> HTTPError:
        """Make the error for a status; its message is the provider's own.

        Args:
            status: The HTTP status.
            body: The parsed body of the response.
            raw_body: The body as text.
            headers: The headers of the response.
        """
        message = error_text(body) or f"HTTP {status}"
        return cls(message, status=status, headers=headers, body=body, raw_body=raw_body)


class RequestTimeoutError(ModelError, TimeoutError):
    """The provider did not answer in time."""


class ConnectionFailedError(ModelError, ConnectionError):
    """The provider could not be reached, or the connection broke; ``answering`` is True if its answer had begun."""

    def __init__(self, message: str, *, answering: bool = False) -> None:
        super().__init__(message)
        self.answering = answering


class DecodeError(ModelError):
    """The provider's answer does not follow the protocol (broken JSON, a broken stream)."""


class ProviderError(ModelError):
    """The provider answered 200 OK, but with an error or an empty reply; ``body`` is what it sent."""

    def __init__(self, message: str, *, body: object = None) -> None:
        super().__init__(message)
        self.body = body

    @property
    def status(self) -> int | None:
        """The HTTP status that the error object names, as routers do for errors of the providers behind them.

        Anthropic reports errors that come after a stream's headers by their types.
        """
        error = self.body.get("error") if is_object(self.body) else None
        if not is_object(error):
            return None
        code = error.get("code")
        if isinstance(code, int) and 400 <= code < 600:
            return code
        return _STATUSES.get(str(error.get("type")))


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def error_text(body: Json) -> str:
    """Return the message of an error body: its ``error``, ``message``, ``detail`` or ``errors``.

    Each may be a text, an object with a ``message`` or ``msg``, or a list of these, whose first item counts.
    """
    if is_list(body) and body:
        body = body[0]
    if not is_object(body):
        return ""
    fields = (body.get(key) for key in ("error", "message", "detail", "errors"))
    return next((text for field in fields if (text := _message(field))), "")


def _message(value: Json) -> str:
    if is_list(value) and value:
        value = value[0]
    if is_object(value):
        value = value.get("message") or value.get("msg")
    return value if isinstance(value, str) else ""
