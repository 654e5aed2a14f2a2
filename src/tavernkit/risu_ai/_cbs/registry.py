"""The functions that a CBS text can call (their names, arguments and documentation), and the call that each gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import cleandoc
from typing import TYPE_CHECKING, TypeVar

from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import WHITESPACE, to_number
from tavernkit._values import Json
from tavernkit.errors import ConfigError
from tavernkit.risu_ai._cbs.limits import FunctionFailure
from tavernkit.risu_ai._cbs.lists import parse_array

if TYPE_CHECKING:
    from tavernkit.risu_ai._cbs.context import CBSContext
    from tavernkit.risu_ai._cbs.run import Run


Handler = Callable[["CBSCall"], Json]
"""The handler of a function: text is printed, ``None`` keeps the tag (as does raising ``FunctionFailure``)."""

H = TypeVar("H", bound=Handler)

_IGNORED = str.maketrans("", "", WHITESPACE + "_-")


def normalize(name: str) -> str:
    """Normalise a name: lower case, without white space, ``_`` and ``-``."""
    return name.lower().translate(_IGNORED)


@dataclass(frozen=True, slots=True)
class CBSFunction:
    """A function and its documentation.

    A ``pure`` function depends only on its arguments, so its result may be cached. A function that ``edits`` changes
    the text before its tag (``call.buffer``).
    """

    name: str
    handler: Handler
    subject: str
    aliases: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    doc: str = ""
    pure: bool = False
    edits: bool = False


class FunctionGroup:
    """Functions of one subject; calling it returns the decorator that adds one.

    >>> text = FunctionGroup("text")
    >>> @text("shout", "yell", args=("text",), pure=True)
    ... def shout(call):
    ...     "The text with an exclamation mark."
    ...     return call.text(0) + "!"
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._functions: list[CBSFunction] = []

    def __call__(
        self, name: str, *aliases: str, args: tuple[str, ...] = (), pure: bool = False, edits: bool = False
    ) -> Callable[[H], H]:
        """Register the decorated function; its docstring is its documentation."""

        def register(handler: H) -> H:
            doc = cleandoc(handler.__doc__ or "")
            self._functions.append(CBSFunction(name, handler, self.subject, aliases, args, doc, pure, edits))
            return handler

        return register

    def __iter__(self) -> Iterator[CBSFunction]:
        return iter(self._functions)


class CBSRegistry:
    """All functions an engine knows, by every name they have."""

    def __init__(self, functions: Iterable[CBSFunction] = ()) -> None:
        self._by_name: dict[str, CBSFunction] = {}
        self.version = 0
        for function in functions:
            self.add(function)

    def add(self, function: CBSFunction) -> None:
        """Add a function; it takes over names that it shares with an older one.

        Raises:
            ConfigError: A name is empty after normalisation.
        """
        for name in (function.name, *function.aliases):
            key = normalize(name)
            if not key:
                raise ConfigError(f"{name!r} cannot be called from a text; pass a name with letters in it")
            self._by_name[key] = function
        self.version += 1

    def register(
        self,
        name: str,
        handler: Handler,
        *,
        aliases: tuple[str, ...] = (),
        args: tuple[str, ...] = (),
        subject: str = "custom",
    ) -> None:
        """Add a handler under a name; its docstring is its documentation.

        Args:
            name: The name in texts.
            handler: Gets the call and returns the value.
            aliases: Other names.
            args: Names of the arguments, for documentation.
            subject: The heading under which it is listed.
        """
        self.add(CBSFunction(name, handler, subject, aliases, args, cleandoc(handler.__doc__ or "")))

    def get(self, name: str) -> CBSFunction | None:
        """Find a function by any of its names, in any spelling that RisuAI accepts."""
        return self._by_name.get(name) or self._by_name.get(normalize(name))

    def has(self, name: str) -> bool:
        """Return True if a name is known."""
        return self.get(name) is not None

    def copy(self) -> CBSRegistry:
        """An independent registry with the same functions."""
        return CBSRegistry(self)

    def describe(self) -> Mapping[str, tuple[CBSFunction, ...]]:
        """Return all functions, grouped by subject, for documentation."""
        subjects: dict[str, list[CBSFunction]] = {}
        for function in self:
            subjects.setdefault(function.subject, []).append(function)
        return {subject: tuple(functions) for subject, functions in subjects.items()}

    def __iter__(self) -> Iterator[CBSFunction]:
        return iter(dict.fromkeys(self._by_name.values()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


_NOT_PURE = "a function registered as pure used its context"
_WALKED = 64
"""How many visited items count as one step."""


class CBSCall:
    """One evaluation of a tag: its text without the braces, its arguments, and where it is.

    Arguments are never trimmed. A missing one is JavaScript's ``undefined``: the accessors differ in how they treat
    that.

    Args:
        tag: The tag's text without the braces.
        args: Its arguments.
        run: The evaluation it is part of.
        buffer: The text written so far.
        position: Where the tag is.
    """

    __slots__ = ("_run", "args", "buffer", "position", "tag")

    def __init__(self, tag: str, args: list[str], run: Run | None, buffer: list[str], position: int) -> None:
        self.tag = tag
        self.args = args
        self.buffer = buffer
        self.position = position
        self._run = run

    @property
    def run(self) -> Run:
        """The expansion of this call; pure functions have none."""
        assert self._run is not None, _NOT_PURE
        return self._run

    @property
    def context(self) -> CBSContext:
        """The context of the text."""
        assert self._run is not None, _NOT_PURE
        return self._run.context

    def get(self, index: int) -> str | None:
        """Return an argument, or None."""
        return self.args[index] if index < len(self.args) else None

    def text(self, index: int) -> str:
        """Return a required argument."""
        if index < len(self.args):
            return self.args[index]
        raise FunctionFailure(f"argument {index + 1} is missing")

    def shown(self, index: int) -> str:
        """Return an argument as printed: ``undefined`` if it is missing."""
        return self.args[index] if index < len(self.args) else "undefined"

    def number(self, index: int) -> float:
        """Return an argument as a number; NaN if it is missing or not a number."""
        return to_number(self.args[index]) if index < len(self.args) else math.nan

    def array(self, index: int) -> list[Json]:
        """Return an argument as a list; a missing one fails."""
        return parse_array(self.text(index))

    def items(self) -> list[Json]:
        """Return the arguments as a list, or the list in a single argument."""
        return [*self.args] if len(self.args) > 1 else self.array(0)

    def walk(self, count: int) -> None:
        """Count visited items (messages, modules) as work."""
        if count >= _WALKED:
            self.run.session.step(count // _WALKED)

    def expand(self, text: str | None, what: str) -> str:
        """Expand a stored text inside this call; a missing one fails.

        Args:
            text: The text.
            what: What the text is, for the error message.
        """
        if text is None:
            raise FunctionFailure(f"{what} is missing")
        return self.run.expand_nested(text, self.position)
