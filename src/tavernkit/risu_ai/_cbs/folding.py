"""What a tag comes to when nothing but its text decides it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tavernkit.risu_ai._cbs.blocks import Block, expand_each
from tavernkit.risu_ai._cbs.calculator import constant
from tavernkit.risu_ai._cbs.call import CBSCall
from tavernkit.risu_ai._cbs.evaluate import CALCULATOR, is_for_other_stages, split_tag
from tavernkit.risu_ai._cbs.limits import CACHED_LISTS, CACHED_RESULTS, MAX_FOLDED, MAX_FOLDED_TOTAL
from tavernkit.risu_ai._cbs.registry import CBSFunction, CBSRegistry
from tavernkit.risu_ai._cbs.scanner import LevelKind
from tavernkit.risu_ai._cbs.signals import FunctionFailure
from tavernkit.risu_ai._cbs.source import joined
from tavernkit.risu_ai.errors import CBSLimitError

_CACHED_LENGTH = 120


class Folded(NamedTuple):
    """A tag looked up: its result if it has one already, else what to call; ``cost`` is what finding out took."""

    text: str | None = None
    function: CBSFunction | None = None
    args: tuple[str, ...] = ()
    cost: int = 0


class FoldBudget:
    """How many characters a text and all that it inserts have computed ahead, and what came of inserted ones."""

    __slots__ = ("inserts", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.inserts: dict[tuple[str, LevelKind, int], str | None] = {}

    @property
    def left(self) -> bool:
        """True if more may be computed ahead."""
        return self.spent <= MAX_FOLDED_TOTAL


class Folder:
    """Looks tags up in a registry and computes what can be computed ahead. Results of short tags are kept."""

    def __init__(self, registry: CBSRegistry) -> None:
        self._registry = registry
        self._cached = lru_cache(maxsize=CACHED_RESULTS)(self._fold)
        self._cached_each = lru_cache(maxsize=CACHED_LISTS)(_fold_each)

    def fold(self, tag: str) -> Folded:
        """Look a tag up."""
        return self._cached(tag) if len(tag) <= _CACHED_LENGTH else self._fold(tag)

    def look_up(self, tag: str) -> Folded:
        """Look a tag up without computing anything."""
        if tag.startswith(CALCULATOR):
            return Folded()
        name, args = split_tag(tag)
        return Folded(None, self._registry.get(name), tuple(args))

    def fold_each(self, block: Block, body: str) -> str | None:
        """Return what an ``each`` inserts, unless that is too much to keep."""
        short = len(block.detail) <= _CACHED_LENGTH and len(body) <= _CACHED_LENGTH
        return self._cached_each(block, body) if short else _fold_each(block, body)

    def function(self, name: str) -> CBSFunction | None:
        """Find a function."""
        return self._registry.get(name)

    def _fold(self, tag: str) -> Folded:
        if tag.startswith(CALCULATOR):
            return _fold_expression(tag[len(CALCULATOR) :])
        name, args = split_tag(tag)
        function = self._registry.get(name)
        if function is None:
            return Folded(f"{{{{{tag}}}}}") if is_for_other_stages(tag, name) else Folded()
        looked_up = Folded(None, function, tuple(args))
        if not function.pure or function.edits:
            return looked_up
        try:
            result = function.handler(CBSCall(tag, args, None, [], 0))
        except (FunctionFailure, CBSLimitError):
            return looked_up  # at run time it fails again, and is reported
        if not isinstance(result, str):
            return looked_up
        text = joined([result]) if len(result) <= MAX_FOLDED else None
        return Folded(text, function, tuple(args), len(result))


def _fold_each(block: Block, body: str) -> str | None:
    try:
        return expand_each(block, body, limit=MAX_FOLDED)
    except (CBSLimitError, FunctionFailure):
        return None


def _fold_expression(expression: str) -> Folded:
    if "$" in expression or "@" in expression:
        return Folded()
    try:
        return Folded(constant(expression))
    except FunctionFailure:
        return Folded()
