"""Errors of running prompts on models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tavernkit.errors import ConfigError, TavernKitError
from tavernkit.values import JsonObject


class PreflightError(ConfigError):
    """A request that the provider would refuse, or that this layer never sends; ``code`` says which rule."""


class TransportError(TavernKitError):
    """A request did not bring back a usable answer.

    ``attempts`` holds what a directives run had tried before, when there was one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.attempts: Sequence[JsonObject] = ()


class HTTPError(TransportError):
    """The provider answered with an error status. Headers and bodies are free of the keys that were sent."""

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


class RequestTimeoutError(TransportError, TimeoutError):
    """The provider did not answer in time."""


class ConnectionFailedError(TransportError, ConnectionError):
    """The provider could not be reached, or hung up."""


class DecodeError(TransportError):
    """The provider answered with something that is not the protocol (broken JSON, a broken stream)."""


class StreamError(TransportError):
    """The provider reported an error in the middle of a stream; ``body`` is what it said."""

    def __init__(self, message: str, *, body: object = None) -> None:
        super().__init__(message)
        self.body = body


class ToolArgumentError(TavernKitError, ValueError):
    """A tool raises this for arguments it cannot take: the model gets the message and may try again."""


class ToolUseError(TavernKitError):
    """Tools had to be used and were not, or failed (``tool_use_mode="enforced"``).

    ``code`` is ``NO_TOOL_CALLS`` or ``TOOL_ERROR``; ``details`` holds the trace, the history and the failed tools.
    """

    def __init__(self, message: str, *, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = dict(details or {})


class ToolLoopLimitError(TavernKitError):
    """A tool loop used up its turns or its tokens; ``code`` says which, ``limit`` how many there were."""

    def __init__(self, message: str, *, code: str, limit: int, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.limit = limit
        self.details = dict(details or {})


class LiquidError(TavernKitError):
    """A Liquid template failed (strict mode).

    ``kind`` is ``syntax_error``, ``undefined_variable``, ``undefined_drop_method`` (a chat variable that is not set),
    ``undefined_filter``, ``zero_division``, ``argument_error``, ``template_too_large``, ``memory_error`` or
    ``render_error``.
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
