"""Errors of Studio."""

from __future__ import annotations

from tavernkit.errors import TavernKitError


class StudioError(TavernKitError):
    """Studio cannot do what was requested; ``status`` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str, *, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
