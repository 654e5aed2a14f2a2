"""The errors that JavaScript throws."""

from __future__ import annotations

from tavernkit.errors import TavernKitError


class JSError(TavernKitError, ValueError):
    """Base of the errors that JavaScript itself would throw."""


class JSRangeError(JSError):
    """An argument is out of the range JavaScript allows (``RangeError``)."""


class JSSyntaxError(JSError):
    """A text could not be parsed (``SyntaxError``)."""


class JSURIError(JSError):
    """A text could not be encoded to or decoded from percent form (``URIError``)."""
