"""How RisuAI's import fails."""

from __future__ import annotations

from tavernkit.errors import InvalidCardError


class ImportRefusedError(InvalidCardError):
    """RisuAI refuses the file with a message."""


class ImportThrewError(InvalidCardError):
    """RisuAI's import throws an error.

    ``error`` is the JavaScript error's class; ``in_progress`` is True if its progress dialog stays open.
    """

    def __init__(self, message: str, *, error: str, in_progress: bool = False) -> None:
        super().__init__(message)
        self.error = error
        self.in_progress = in_progress
