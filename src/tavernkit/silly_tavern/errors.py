"""Errors of the SillyTavern platform. In normal mode most of them are only warnings."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.errors import FileFormatError, MacroError, StrictModeError
from tavernkit.errors import LoreParseError as CoreLoreParseError


class MacroSyntaxError(MacroError):
    """A ``{{macro}}`` is malformed."""


class UnknownMacroError(MacroError):
    """A ``{{macro}}`` has an unknown name."""


class MacroBlockError(MacroError):
    """A block is not closed, or a closing tag has no opening tag."""

    def __init__(
        self,
        message: str,
        *,
        opening_tag: str | None = None,
        expected_closing: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message, macro_name=opening_tag, position=position)
        self.opening_tag = opening_tag
        self.expected_closing = expected_closing


class MacroRecursionError(MacroError):
    """Macros are nested deeper than the limit."""

    def __init__(
        self,
        message: str,
        *,
        depth: int,
        max_depth: int,
        macro_name: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message, macro_name=macro_name, position=position)
        self.depth = depth
        self.max_depth = max_depth


class UnconsumedMacroError(MacroError):
    """Macros are left in a text that should have none."""

    def __init__(self, message: str, *, remaining_macros: Sequence[str] = (), position: int | None = None) -> None:
        super().__init__(message, macro_name=remaining_macros[0] if remaining_macros else None, position=position)
        self.remaining_macros = tuple(remaining_macros)


class InvalidInstructError(FileFormatError):
    """An instruct template could not be read."""


class InvalidContextTemplateError(FileFormatError):
    """A context template, or its story string, could not be read; ``line`` and ``column`` say where, from 1."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class LoreParseError(CoreLoreParseError):
    """A World Info file or entry could not be read."""


class StrictLoreParseError(LoreParseError, StrictModeError):
    """A World Info book or entry would be left out (strict mode)."""
