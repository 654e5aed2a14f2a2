"""What a function sees of the tag that called it."""

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


_WALKED = 64
"""Things gone through that count as one step."""


class CBSCall:
    """One evaluation of a tag: its text without the braces, its arguments, and where it is.

    Arguments are never trimmed. One that is not there is JavaScript's ``undefined``: the accessors differ in what they
    make of that.

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
        """The expansion this call belongs to; functions registered as pure have none."""
        assert self._run is not None, "a function registered as pure used its context"
        return self._run

    @property
    def context(self) -> CBSContext:
        """What the text may ask about."""
        return self.run.context

    def get(self, index: int) -> str | None:
        """Return an argument, or nothing."""
        return self.args[index] if index < len(self.args) else None

    def text(self, index: int) -> str:
        """Return an argument the function cannot do without."""
        if index < len(self.args):
            return self.args[index]
        raise FunctionFailure(f"argument {index + 1} is missing")

    def shown(self, index: int) -> str:
        """Return an argument as it is printed: ``undefined`` when it is missing."""
        return self.args[index] if index < len(self.args) else "undefined"

    def number(self, index: int) -> float:
        """Return an argument as a number, NaN when it is missing or none."""
        return to_number(self.args[index]) if index < len(self.args) else math.nan

    def array(self, index: int) -> list[Json]:
        """Return an argument as a list; a missing one fails."""
        return parse_array(self.text(index))

    def items(self) -> list[Json]:
        """Return the arguments as a list, or the list that a single argument holds."""
        return [*self.args] if len(self.args) > 1 else self.array(0)

    def walk(self, count: int) -> None:
        """Count going through so many things (messages, modules) as work."""
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
