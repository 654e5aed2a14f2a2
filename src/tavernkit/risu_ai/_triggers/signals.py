"""How a run ends early."""

from __future__ import annotations


class RunAbortedError(Exception):
    """The run ends at once and has no result."""


class TriggerFailedError(Exception):
    """RisuAI would throw here; ``kind`` is the JavaScript error class it would be."""

    def __init__(self, message: str, *, kind: str = "TypeError") -> None:
        super().__init__(message)
        self.kind = kind


class TriggerLimitError(TriggerFailedError):
    """A safety limit was hit; ``limit`` names it."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message, kind="RangeError")
        self.limit = limit
