"""What is known before a text is run: what a tag comes to, what opens a block, and where that block closes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tavernkit.risu_ai._cbs.blocks import NO_VARIABLES, OPENER_NAMES, Block, NeedsVariables, expand_each, open_block
from tavernkit.risu_ai._cbs.calculator import constant
from tavernkit.risu_ai._cbs.limits import (
    CACHED_LISTS,
    CACHED_RESULTS,
    LEVEL_SLOTS,
    MAX_FOLDED,
    MAX_FOLDED_TOTAL,
    FunctionFailure,
)
from tavernkit.risu_ai._cbs.registry import CBSCall, CBSFunction, CBSRegistry
from tavernkit.risu_ai._cbs.scanner import CALCULATOR, LevelKind, is_for_other_stages, split_tag
from tavernkit.risu_ai._cbs.source import CLOSE, OPENERS, joined
from tavernkit.risu_ai.errors import CBSLimitError

_CACHED_LENGTH = 120
_BLOCK, _RAW, _TAG = range(3)
_PURE_OPENERS = ("#each", "#func")


class Folded(NamedTuple):
    """A resolved tag: its result if already known, else the function to call; ``cost`` is the work it took."""

    text: str | None = None
    function: CBSFunction | None = None
    args: tuple[str, ...] = ()
    cost: int = 0


class FoldBudget:
    """How many characters were computed at compile time, and the results of inserted texts."""

    __slots__ = ("inserts", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.inserts: dict[tuple[str, LevelKind, int, str], str | None] = {}

    @property
    def left(self) -> bool:
        """True if more may be computed at compile time."""
        return self.spent <= MAX_FOLDED_TOTAL


class Folder:
    """Looks up tags in a registry and computes constant results. Results of short tags are cached."""

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
        """Return what an ``each`` inserts, unless it is too large to keep."""
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
        result = None
        if function.pure and not function.edits:
            try:
                result = function.handler(CBSCall(tag, args, None, [], 0))
            except (FunctionFailure, CBSLimitError):
                result = None  # at run time it fails again, and is reported
        if not isinstance(result, str):
            return Folded(None, function, tuple(args))
        text = joined([result]) if len(result) <= MAX_FOLDED else None
        return Folded(text, function, tuple(args), len(result))


def _fold_each(block: Block, body: str) -> str | None:
    try:
        return expand_each(block, body, limit=MAX_FOLDED)
    except (CBSLimitError, FunctionFailure):
        return None


def _fold_expression(expression: str) -> Folded:
    try:
        return Folded(constant(expression))
    except (FunctionFailure, NeedsVariables):
        return Folded()


class Undecided(Exception):  # noqa: N818  # not an error: the scanner will decide
    """The rest of the text is only known at run time."""


class Opening(NamedTuple):
    """A tag that certainly opens a block: which one, if known, and whether its body is evaluated."""

    block: Block | None
    pure: bool


def foresee(head: str, *, complete: bool) -> Opening | None:
    """Return what a tag with this start (or this complete tag) opens; None if it opens no block."""
    if complete:
        try:
            block = open_block(head, NO_VARIABLES)
        except NeedsVariables:
            return Opening(None, pure=False)
        return None if block is None else Opening(block, block.pure)
    if head.startswith(("#when", "#if", "#each")) or (head.startswith("#func") and " " in head):
        return Opening(None, head.startswith(_PURE_OPENERS))
    if any(name.startswith(head) for name in OPENER_NAMES):
        raise Undecided
    return None


def closes_alike(tokens: list[str], start: int, end: int) -> bool:
    """Return True if a block closes at the same token even if its body is not evaluated, and has no side effects.

    ``tokens`` alternate between plain text and what opens or closes; ``start`` is the first of the body, ``end`` the
    one that closes the block when the body is evaluated.
    """
    levels = [_BLOCK]
    heads: list[str] = []
    for index in range(start + 1, end + 1, 2):
        token = tokens[index]
        if token in OPENERS:
            levels.append(_TAG)
            heads.append(tokens[index + 1])
            if len(levels) >= LEVEL_SLOTS // 2:
                return False
        elif levels[-1] == _TAG:
            head = heads.pop()
            if token != CLOSE or head.startswith("call::"):
                return False  # legacy blocks and calls are executed even here
            levels.pop()
            if head[:1] == "#" or head[:1] == ":":
                levels.append(_RAW)
            elif head[:1] == "/" and head[:2] != "//" and levels[-1] != _TAG:
                levels.pop()
                if not levels:
                    return index == end
    return False
