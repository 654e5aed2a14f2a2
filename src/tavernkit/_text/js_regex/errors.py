"""Errors of regular expressions."""

from __future__ import annotations

from tavernkit.errors import TavernKitError


class JSRegexSyntaxError(TavernKitError, ValueError):
    """A pattern or its flags are not a JavaScript regular expression; the message says what and where."""
