"""How SillyTavern's import fails."""

from __future__ import annotations

from tavernkit.errors import InvalidCardError


class ImportRefusedError(InvalidCardError):
    """SillyTavern's importer refuses the file and answers HTTP 400."""


class ImportFailedError(InvalidCardError):
    """SillyTavern's importer throws; it answers HTTP 200 with ``{error: true}``."""
