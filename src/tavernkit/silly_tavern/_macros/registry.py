"""The registry of macros: names, aliases, typed arguments and their documentation."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from tavernkit._dataclass import dataclass
from tavernkit._values import counted
from tavernkit.errors import ConfigError, Warn, log_warning

if TYPE_CHECKING:
    from tavernkit.silly_tavern._macros.call import MacroCall
    from tavernkit.silly_tavern._macros.nodes import ControlFlow

ArgumentType = Literal["string", "integer", "number", "boolean"]
"""The type of an argument. The handler always gets text."""

Handler: TypeAlias = Callable[["MacroCall"], object]
"""Computes the result of a macro: text, or a value that is converted as in JavaScript."""

MacroNames: TypeAlias = Sequence[str] | AbstractSet[str]
"""Names of macros, in any order."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z|//\Z")
_TYPES: frozenset[str] = frozenset(get_args(ArgumentType))


@dataclass(frozen=True, slots=True)
class MacroArgument:
    """One positional argument. With several ``types``, one of them must match."""

    name: str
    """What the argument is called in messages."""
    types: Sequence[ArgumentType] = ("string",)
    optional: bool = False
    """True if a call may leave it out."""
    description: str = ""
    """What it is for, for help texts."""

    def __str__(self) -> str:
        return f"{self.name}{'?' if self.optional else ''}: {' or '.join(self.types)}"


@dataclass(frozen=True, slots=True)
class MacroListArgument:
    """Any number of arguments after the positional ones."""

    min: int = 0
    """The minimum number of arguments."""
    max: int | None = None
    """The maximum number of arguments; None for no limit."""
    name: str = "items"
    """What they are called in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroDefinition:
    """A macro: how it is called and what computes it.

    ``delayed`` arguments are passed to the handler unexpanded; it expands them itself with ``call.resolve``. With
    ``strict_args`` a call with wrong arguments stays in the text; otherwise it only warns. ``hidden_aliases`` work
    but are not listed. Macros that control evaluation, such as ``if``, have a ``control`` instead of a handler.
    """

    name: str
    """The name by which texts call it, in any case."""
    handler: Handler | None = None
    """Gets the call and returns the value."""
    args: Sequence[MacroArgument] = ()
    """The positional arguments in order."""
    list: MacroListArgument | None = None
    """The arguments after the positional ones; None if there are none."""
    aliases: Sequence[str] = ()
    """Other names."""
    hidden_aliases: Sequence[str] = ()
    category: str = "misc"
    """The heading under which help texts list it."""
    description: str = ""
    """What it returns, for help texts."""
    returns: str = "string"
    """The type of its value, for help texts."""
    example: str = ""
    """A call, for help texts."""
    strict_args: bool = True
    delayed: bool = False
    control: ControlFlow | None = None
    only_names: bool = False
    """True if its value is one of the names of the user and the character: texts with no other macros are kept."""
    required: int = field(init=False)
    """How many positional arguments a call must have."""
    typed: bool = field(init=False)
    """True if any argument can be of a wrong type."""

    def __post_init__(self) -> None:
        self._check_names()
        self._check_arguments()
        object.__setattr__(self, "required", sum(not each.optional for each in self.args))
        object.__setattr__(self, "typed", any("string" not in each.types for each in self.args))

    def _check_names(self) -> None:
        for name in (self.name, *self.all_aliases):
            if not _NAME.match(name):
                raise ConfigError(
                    f"{name!r} cannot be a macro's name: use a letter, then letters, digits, '_' or '-'",
                    code="INVALID_MACRO",
                )
        if self.name.lower() in (alias.lower() for alias in self.all_aliases):
            raise ConfigError(f"macro {self.name!r} has its own name as an alias", code="INVALID_MACRO")

    def _check_arguments(self) -> None:
        if self.handler is None and self.control is None:
            raise ConfigError(f"macro {self.name!r} needs a handler", code="INVALID_MACRO")
        seen_optional = False
        for each in self.args:
            if not each.types or not _TYPES.issuperset(each.types):
                raise ConfigError(
                    f"argument {each.name!r} of macro {self.name!r} must have types from {', '.join(sorted(_TYPES))}",
                    code="INVALID_MACRO",
                )
            if seen_optional and not each.optional:
                raise ConfigError(
                    f"macro {self.name!r} has the required argument {each.name!r} after an optional one",
                    code="INVALID_MACRO",
                )
            seen_optional = each.optional
        if self.list is not None and (
            self.list.min < 0 or (self.list.max is not None and self.list.max < self.list.min)
        ):
            raise ConfigError(f"macro {self.name!r} has a list with impossible bounds", code="INVALID_MACRO")

    @property
    def all_aliases(self) -> tuple[str, ...]:
        """Its other names, listed or not."""
        return (*self.aliases, *self.hidden_aliases)

    def accepts(self, count: int) -> bool:
        """Return True if a call may have this many arguments."""
        if self.list is None:
            return self.required <= count <= len(self.args)
        beyond = count - len(self.args)
        return count >= self.required + self.list.min and (self.list.max is None or beyond <= self.list.max)

    def takes_scope(self, inline: int) -> bool:
        """Return True if a call with this many inline arguments can have a block as its last one."""
        return self.list is None and self.required <= inline + 1 <= len(self.args)

    @property
    def arity(self) -> str:
        """The number of arguments, in words."""
        least = self.required + (self.list.min if self.list else 0)
        if self.list is None:
            most: int | None = len(self.args)
        else:
            most = None if self.list.max is None else len(self.args) + self.list.max
        if most is None:
            return f"at least {least} arguments" if least else "any number of arguments"
        if least == most:
            return counted(least, "argument") if least else "no arguments"
        return f"{least} to {most} arguments"

    @property
    def usage(self) -> str:
        """How it is written: ``{{setvar::name::value}}``."""
        parts = [self.name, *(f"[{each.name}]" if each.optional else each.name for each in self.args)]
        if self.list is not None:
            parts.append(f"{self.list.name}...")
        return "{{" + "::".join(parts) + "}}"


class MacroRegistry:
    """Macros by name and alias, ignoring case. Thread-safe; a later registration wins, with a warning.

    >>> registry = MacroRegistry()
    >>> @registry.macro("shout", args=[MacroArgument("text")], description="The text in capitals.")
    ... def shout(call):
    ...     return call.args[0].upper()
    >>> registry.describe()[0].usage
    '{{shout::text}}'

    Args:
        definitions: Macros to start with.
        warn: Called with each warning; by default they are logged.
    """

    def __init__(self, definitions: Iterable[MacroDefinition] = (), *, warn: Warn = log_warning) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, MacroDefinition]] = {}
        self._warn = warn
        self._version = 0
        for definition in definitions:
            self.add(definition)

    @property
    def version(self) -> int:
        """Grows with every change, so that engines know when to compile again."""
        return self._version

    def add(self, definition: MacroDefinition) -> None:
        """Register a macro under its name and aliases."""
        with self._lock:
            for name in (definition.name, *definition.all_aliases):
                if name.lower() in self._names:
                    self._warn(f"macro {name!r} is registered again; the later registration is used")
                self._names[name.lower()] = (name, definition)
            self._version += 1

    def register(self, name: str, handler: Handler | None = None, **metadata: object) -> MacroDefinition:
        """Register a handler; the keywords are the fields of ``MacroDefinition``.

        Args:
            name: The name in texts.
            handler: Gets the call and returns the value.
            metadata: Other fields of ``MacroDefinition``.
        """
        definition = MacroDefinition(name=name, handler=handler, **metadata)  # pyright: ignore[reportArgumentType]  # field types
        self.add(definition)
        return definition

    def macro(self, name: str, **metadata: object) -> Callable[[Handler], Handler]:
        """Register the decorated function; without ``description`` the first line of its docstring describes it.

        Args:
            name: The name in texts.
            metadata: Other fields of ``MacroDefinition``.
        """

        def register(handler: Handler) -> Handler:
            described = dict(metadata)
            doc = getattr(handler, "__doc__", None)
            if "description" not in described and isinstance(doc, str):
                described["description"] = doc.strip().partition("\n")[0]
            self.register(name, handler, **described)
            return handler

        return register

    def get(self, name: str) -> MacroDefinition | None:
        """Return the macro with that name or alias, or None."""
        found = self._names.get(name.lower())
        return None if found is None else found[1]

    def lookup(self, key: str) -> tuple[str, MacroDefinition] | None:
        """Return the registered spelling and the macro of a lower-case name, or None."""
        return self._names.get(key)

    def has(self, name: str) -> bool:
        """Return True if a name or alias is registered."""
        return name.lower() in self._names

    def remove(self, name: str) -> None:
        """Remove a macro with all its names, if it exists."""
        with self._lock:
            found = self._names.get(name.lower())
            if found is not None:
                self._names = {key: each for key, each in self._names.items() if each[1] is not found[1]}
                self._version += 1

    def copy(self) -> MacroRegistry:
        """An independent registry with the same macros."""
        twin = MacroRegistry(warn=self._warn)
        with self._lock:
            twin._names = dict(self._names)
        return twin

    def describe(self) -> list[MacroDefinition]:
        """Return all macros by category and name, for reference pages and the command line."""
        return sorted(self, key=lambda each: (each.category, each.name.lower()))

    def __iter__(self) -> Iterator[MacroDefinition]:
        with self._lock:
            unique = {id(definition): definition for _, definition in self._names.values()}
        return iter(unique.values())

    def __len__(self) -> int:
        return sum(1 for _ in self)
