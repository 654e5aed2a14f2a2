"""The call that a function gets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tavernkit._text.js_values import to_number
from tavernkit._values import Json
from tavernkit.risu_ai._cbs.lists import parse_array
from tavernkit.risu_ai._cbs.signals import FunctionFailure

if TYPE_CHECKING:
    from tavernkit.risu_ai._cbs.context import CBSContext
    from tavernkit.risu_ai._cbs.run import Run


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
