"""What an expansion has to say: structured diagnostics, and the strict mode that raises them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tavernkit.errors import MacroError, Warn
from tavernkit.silly_tavern.errors import (
    MacroBlockError,
    MacroRecursionError,
    MacroSyntaxError,
    UnconsumedMacroError,
    UnknownMacroError,
)

DiagnosticKind = Literal[
    "syntax",
    "runtime_warning",
    "internal_error",
    "v1_replace_failed",
    "unknown_macro",
    "unconsumed",
    "block",
    "ignored",
    "limit",
]
"""The first four are SillyTavern's own; the others are what it lets pass without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One thing that was wrong.

    ``about`` says what a runtime warning or limit is about (``arity``, ``type``, ``roll``, ``depth``); a syntax
    diagnostic has its ``phase`` (``lexing``, ``parsing``) and how many errors it stands for (``count``).
    ``position`` is an index into the text as it was given. ``unclosed`` marks a call that lacks its block.
    ``remaining`` are the macros that are left in a text.
    """

    kind: DiagnosticKind
    message: str
    about: str = ""
    macro: str = ""
    position: int | None = None
    phase: str = ""
    count: int = 1
    unclosed: bool = False
    remaining: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at character {self.position})"

    def to_error(self) -> MacroError:
        """The error that strict mode raises for it."""
        text = str(self)
        if self.kind == "block" or self.unclosed:
            closing = None if self.about == "closing" else f"{{{{/{self.macro}}}}}"
            return MacroBlockError(text, opening_tag=self.macro, expected_closing=closing, position=self.position)
        if self.about == "depth":
            return MacroRecursionError(
                text, depth=self.count, max_depth=self.count, macro_name=self.macro, position=self.position
            )
        if self.kind == "unconsumed":
            return UnconsumedMacroError(text, remaining_macros=self.remaining, position=self.position)
        error = _ERRORS.get(self.kind, MacroError)
        return error(text, macro_name=self.macro or None, position=self.position)


_ERRORS: dict[str, type[MacroError]] = {"syntax": MacroSyntaxError, "unknown_macro": UnknownMacroError}

Report = Callable[[Diagnostic], None]
"""Takes one diagnostic."""


def reporter(warn: Warn, *, strict: bool) -> Report:
    """Make a :data:`Report` that warns, or in strict mode raises."""

    def raise_it(diagnostic: Diagnostic) -> None:
        raise diagnostic.to_error()

    def warn_of_it(diagnostic: Diagnostic) -> None:
        warn(str(diagnostic))

    return raise_it if strict else warn_of_it
