"""A call and what its handler gets: checked arguments, variables within their limits, a way to report problems."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Literal

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import UNDEFINED, json_stringify, to_number, to_string, trim, trim_start
from tavernkit._text.traced import join
from tavernkit._values import Json, is_mapping, is_sequence
from tavernkit.errors import MacroError, Warn
from tavernkit.silly_tavern._macros.limits import FREE_VARIABLE_CHARS, MAX_VARIABLE_CHARS
from tavernkit.silly_tavern.errors import (
    MacroBlockError,
    MacroRecursionError,
    MacroSyntaxError,
    UnconsumedMacroError,
    UnknownMacroError,
)
from tavernkit.stores._variables import LOCAL, VariablesStore

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.environment import MacroEnvironment
    from tavernkit.silly_tavern._macros.nodes import MacroNode
    from tavernkit.silly_tavern._macros.registry import MacroDefinition
    from tavernkit.silly_tavern._macros.run import Expansion


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
"""The first four are SillyTavern's own; the others are problems that it ignores silently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem in a text.

    ``about`` says what a runtime warning or limit is about (``arity``, ``type``, ``roll``, ``depth``); a syntax
    diagnostic has its ``phase`` (``lexing``, ``parsing``) and how many errors it stands for (``count``).
    ``position`` is an index into the original text. ``unclosed`` marks a call without its block.
    ``remaining`` are the macros left in a text.
    """

    kind: DiagnosticKind
    """What kind of problem it is: ``syntax``, ``runtime_warning``, …"""
    message: str
    """What is wrong, in words."""
    about: str = ""
    macro: str = ""
    """The name of the macro, if it is about one."""
    position: int | None = None
    phase: str = ""
    count: int = 1
    unclosed: bool = False
    remaining: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message if self.position is None else f"{self.message} (at character {self.position})"

    def to_error(self) -> MacroError:
        """Return the error that strict mode raises for it."""
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
"""Receives one diagnostic."""


def reporter(warn: Warn, *, strict: bool) -> Report:
    """Make a ``Report`` that warns, or in strict mode raises."""

    def raise_it(diagnostic: Diagnostic) -> None:
        raise diagnostic.to_error()

    def warn_of_it(diagnostic: Diagnostic) -> None:
        warn(str(diagnostic))

    return raise_it if strict else warn_of_it


class MacroFailure(Exception):  # noqa: N818 - it is not an error of the program: the macro stays in the text
    """Raised by a handler that fails: the macro stays in the text and the reason is reported."""


class OutOfRoomError(MacroFailure):
    """Raised if an expansion has hit a limit, which is already reported: the macro stays in the text."""


class MacroCall:
    """One call of a macro: its arguments, how it is written, and the environment.

    ``args`` are the expanded arguments, with a block's content as the last one; ``name`` is the name it was called by.

    Args:
        run: The expansion it is part of.
        node: The parsed macro.
        name: The name it was called by.
        definition: The macro's definition.
        args: The expanded arguments.
    """

    __slots__ = ("_node", "args", "definition", "name", "run")

    def __init__(
        self, run: Expansion, node: MacroNode, name: str, definition: MacroDefinition, args: Sequence[str]
    ) -> None:
        self.run = run
        self._node = node
        self.name = name
        self.definition = definition
        self.args = args

    @property
    def environment(self) -> MacroEnvironment:
        """The environment of the expansion."""
        return self.run.environment

    @property
    def positional(self) -> Sequence[str]:
        """The declared arguments."""
        return self.args[: len(self.definition.args)]

    @property
    def items(self) -> Sequence[str]:
        """The list arguments after the declared ones."""
        return self.args[len(self.definition.args) :] if self.definition.list is not None else ()

    @property
    def flags(self) -> str:
        """The flags before the name, as written."""
        return self._node.flags

    @property
    def scoped(self) -> bool:
        """True if the last argument is a block."""
        return self._node.scoped

    @property
    def raw(self) -> str:
        """The call as written, without its braces, with expanded arguments."""
        return self._node.inner_text(self.args)

    @property
    def offset(self) -> int:
        """The start of the call, in UTF-16 code units of the original text."""
        return self.run.base + self._node.offset

    def argument(self, index: int, default: str = "") -> str:
        """Return the argument at an index, or the default.

        Args:
            index: Which argument, from 0.
            default: What to return if there are fewer.
        """
        return self.args[index] if index < len(self.args) else default

    def resolve(self, text: str) -> str:
        """Expand a text in the same environment."""
        return self.run.resolve(text, self.offset)

    def dedent(self, text: str) -> str:
        """Trim a block and move it to the left margin, unless the call has the flag ``#``."""
        return text if "#" in self.flags else dedent(text)

    def warn(self, about: str, message: str) -> None:
        """Report a problem with the call; the handler's result is still used.

        Args:
            about: A short name of the problem, such as ``arity`` or ``type``.
            message: What is wrong.
        """
        self._report("runtime_warning", about, message)

    def note_ignored(self, about: str, message: str) -> None:
        """Report something that SillyTavern silently ignores.

        Args:
            about: A short name of the problem, such as ``arity`` or ``type``.
            message: What is ignored.
        """
        self._report("ignored", about, message)

    def _report(self, kind: DiagnosticKind, about: str, message: str) -> None:
        self.run.report(
            Diagnostic(
                kind=kind,
                message=f"{{{{{self.name}}}}}: {message}",
                about=about,
                macro=self.name,
                position=self._node.position,
            )
        )


class MeteredVariables:
    """A store that limits how much of long values one expansion may read.

    Every macro that uses a variable reads, parses or copies its whole value, and a text may have very many.
    """

    __slots__ = ("_run", "_store")

    def __init__(self, store: VariablesStore, run: Expansion) -> None:
        self._store = store
        self._run = run

    @property
    def cache_version(self) -> int | None:
        """The version of the store."""
        return self._store.cache_version

    def get(self, name: str, scope: str = LOCAL) -> Json:
        """Read a variable, or raise ``OutOfRoomError``."""
        value = self._store.get(name, scope)
        if (isinstance(value, str) and len(value) <= FREE_VARIABLE_CHARS) or value is None:
            return value
        budget = self._run.budget
        budget.variables += _size(value)
        if budget.variables <= MAX_VARIABLE_CHARS:
            return value
        message = f"the macros of one expansion read more than {MAX_VARIABLE_CHARS} characters of variables"
        self._run.report_limit("variables", f"{message}; the rest stays as text")
        raise OutOfRoomError(message)

    def set(self, name: str, value: Json, scope: str = LOCAL) -> None:
        """Write a variable."""
        self._store.set(name, value, scope)

    def has(self, name: str, scope: str = LOCAL) -> bool:
        """Return True if a variable is set."""
        return self._store.has(name, scope)

    def delete(self, name: str, scope: str = LOCAL) -> None:
        """Remove a variable."""
        self._store.delete(name, scope)

    def add(self, name: str, value: Json, scope: str = LOCAL) -> Json:
        """Add to a variable."""
        return self._store.add(name, value, scope)


def _size(value: object) -> int:
    """Return the approximate length of a value as text."""
    size, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        size += len(each) if isinstance(each, str) else 4
        if is_mapping(each):
            waiting += each.values()
        elif is_sequence(each):
            waiting += each
    return size


_INTEGER = re.compile(r"-?[0-9]+\Z")  # no plus sign, as in SillyTavern
_BOOLEANS = frozenset(("true", "false", "on", "off", "1", "0"))

_CHECKS: dict[str, Callable[[str], bool]] = {
    "string": lambda _text: True,
    "integer": lambda text: _INTEGER.match(text) is not None,
    # Empty text is the number 0, and 0x10 is 16.
    "number": lambda text: math.isfinite(to_number(text)),
    "boolean": lambda text: text.lower() in _BOOLEANS,
}


def arity_problem(definition: MacroDefinition, count: int) -> str | None:
    """Return what is wrong with the number of arguments, if anything."""
    return None if definition.accepts(count) else f"takes {definition.arity}, {count or 'none'} given"


def type_problem(definition: MacroDefinition, args: Sequence[str]) -> str | None:
    """Return what is wrong with the types of the positional arguments, if anything; lists have no types."""
    for spec, text in zip(definition.args, args, strict=False):
        if not any(_CHECKS[kind](trim(text)) for kind in spec.types):
            return f"argument {spec.name!r} must be {' or '.join(spec.types)}, not {trim(text)!r:.80}"
    return None


def to_text(value: object) -> str:
    """Convert a handler's result to text: None is empty, dates are ISO 8601 in UTC, objects and lists compact JSON."""
    if isinstance(value, str):
        return value
    if value is None or value is UNDEFINED:
        return ""
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time(), UTC)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_mapping(value) or is_sequence(value):
        return json_stringify(value)
    return to_string(value) if isinstance(value, (bool, int, float)) else str(value)


_FALSE = frozenset(("false", "off", "0"))


def dedent(text: str) -> str:
    """Remove the indentation of the first non-blank line from all lines, and trim the result.

    A tab counts as one space; a line with less indentation loses all of it.
    """
    if "\n" not in text:
        return trim(text)
    lines = text.split("\n")
    margin = next((_indentation(line) for line in lines if trim(line)), 0)
    if not margin:
        return trim(text)
    moved = [line[margin:] if _indentation(line) >= margin else trim_start(line) for line in lines]
    return trim(join("\n", moved))


def is_falsy(text: str) -> bool:
    """Return True if a condition's text is falsy; a space, ``no``, ``null`` and ``0.0`` are not."""
    return not text or trim(text).lower() in _FALSE


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
