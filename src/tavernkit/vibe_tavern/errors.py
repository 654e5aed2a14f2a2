"""Errors of running prompts on models."""

from __future__ import annotations

from collections.abc import Mapping

from tavernkit.errors import ConfigError, TavernKitError


class PreflightError(ConfigError):
    """A request that the provider would refuse, or that this layer never sends; ``code`` says which rule."""


class ToolArgumentError(TavernKitError, ValueError):
    """Raised by a tool for invalid arguments: the model gets the message and may try again."""


class ToolUseError(TavernKitError):
    """Tools were required but not used, or failed (``tool_use_mode="enforced"``).

    ``code`` is ``NO_TOOL_CALLS`` or ``TOOL_ERROR``; ``details`` contains the trace, the history and the failed tools.
    """

    def __init__(self, message: str, *, code: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = dict(details or {})


class ToolLoopLimitError(TavernKitError):
    """A tool loop used up its turns or tokens; ``code`` says which, ``limit`` how many it had."""

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
