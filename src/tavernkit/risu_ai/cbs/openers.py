"""What can be said of the opener of a block before its values are known."""

from __future__ import annotations

from typing import NamedTuple

from tavernkit.risu_ai.cbs.blocks import OPENER_NAMES, Block, open_block

_PURE_OPENERS = ("#each", "#func")


class Undecided(Exception):  # noqa: N818  # not an error: the scanner will decide
    """How the text goes on here is only known at run time."""


class Opening(NamedTuple):
    """A tag that opens a block for certain: which one, if that is known, and whether its body is evaluated."""

    block: Block | None
    pure: bool


def foresee(head: str, *, complete: bool) -> Opening | None:
    """Tell what a tag opens that starts like this (or is this, if it is complete); nothing if it opens no block."""
    if complete:
        try:
            block = open_block(head, _NO_VARIABLES)
        except _NeedsVariables:
            return Opening(None, pure=False)
        return None if block is None else Opening(block, block.pure)
    if head.startswith(("#when", "#if", "#each")) or (head.startswith("#func") and " " in head):
        return Opening(None, head.startswith(_PURE_OPENERS))
    if any(name.startswith(head) for name in OPENER_NAMES):
        raise Undecided
    return None


class _NeedsVariables(Exception):  # noqa: N818  # not an error
    """A condition asks for a variable."""


class _NoVariables:
    """For conditions that may be decided ahead: one that asks for a variable may not."""

    def chat_variable(self, name: str) -> str:
        """Refuse."""
        raise _NeedsVariables(name)

    global_variable = chat_variable


_NO_VARIABLES = _NoVariables()
