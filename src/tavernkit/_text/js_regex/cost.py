"""An upper bound for the steps that a backtracking engine takes on a text.

For each part, given what may follow it, we compute how many ways to match it are worth following from one position (the
others end at once, because the next character does not fit), and how many steps all ways take together. A chain
multiplies ways; a loop whose iteration has more than one way explodes. The bound is never too low; it may be far too
high, and then the call is guarded unnecessarily.
"""

from __future__ import annotations

import math
from typing import Protocol

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.alphabet import END, Alphabet
from tavernkit._text.js_regex.nodes import Alternatives, Assertion, Char, Group, Node, Pattern, Sequence
from tavernkit._text.js_regex.parts import (
    EVERYTHING,
    PEEK_STEPS,
    Chain,
    Check,
    Choice,
    Loop,
    Part,
    PartBuilder,
    Peek,
    Reference,
    Word,
    follow_of,
)


class Measures(Protocol):
    """Measures of a text: its length and, for a set of characters, how many occur and how many in a row."""

    @property
    def length(self) -> int:
        """The number of characters."""
        ...

    def run(self, mask: int) -> int:
        """Return an upper bound for the longest run of characters of a set."""
        ...

    def count(self, mask: int) -> int:
        """Return an upper bound for the number of characters of a set."""
        ...

    def count_text(self, text: str) -> int:
        """Return an upper bound for the number of occurrences of a text."""
        ...


@dataclass(frozen=True, slots=True)
class AnyText:
    """The worst text of a given length."""

    length: int

    def run(self, mask: int) -> int:
        """Return the length."""
        return self.length if mask else 0

    def count(self, mask: int) -> int:
        """Return the length."""
        return self.length if mask else 0

    def count_text(self, text: str) -> int:
        """Return the length."""
        return self.length if text else 0


@dataclass(frozen=True, slots=True)
class Follow:
    """What comes after a part: the next characters that let the match continue, and the steps to see that it fails.

    If ``text`` is given, all of it must come next.
    """

    mask: int
    head: int
    text: str = ""


class CostModel:
    """The cost of one pattern on any text."""

    def __init__(self, pattern: Pattern) -> None:
        builder = PartBuilder(pattern)
        self.alphabet = builder.alphabet
        """The sets of characters that the pattern distinguishes."""
        self._root = builder.build(pattern.root)
        self._first = follow_of(self._root, EVERYTHING)
        self._prefix = _literal_prefix(pattern)
        self._line_starts = builder.line_starts if _is_anchored(pattern.root) else None
        self.head = self._root.head + 1
        """The steps at a position where no match can begin."""
        self.first_characters = _few_characters(self._first, builder.alphabet)
        """The only characters a match can begin with; None if there are many."""

    def steps(self, text: Measures) -> float:
        """Return an upper bound for the steps to find all matches in a text."""
        total = (text.length + 1) * self.head
        starts = min(text.count(self._first) + bool(self._first & END), text.length + 1)
        if self._line_starts is not None:
            starts = min(starts, text.count(self._line_starts) + 1)
        if len(self._prefix) > 1:
            total += starts * len(self._prefix)
            starts = min(starts, text.count_text(self._prefix))
        return total + starts * self.steps_from_one_place(text) if starts else total

    def steps_from_one_place(self, text: Measures) -> float:
        """Return an upper bound for the steps to check for a match at one position."""
        return _cost(self._root, None, text)[1]


def _few_characters(mask: int, alphabet: Alphabet) -> str:
    if mask < 0 or mask & END or mask.bit_count() > _FEW:
        return ""
    ranges = alphabet.ranges(mask)
    if any(first != last or 0xD800 <= first <= 0xDFFF for first, last in ranges):
        return ""
    return "".join([chr(first) for first, _ in ranges])


_FEW = 4
_MOST_BITS = 1000

Bound = tuple[float, float]
"""Ways and steps."""


def _cost(part: Part, follow: Follow | None, text: Measures) -> Bound:
    """Return ways and steps from one position; without ``follow`` the first way is final, so there is only one."""
    head = follow.head if follow else 0
    match part:
        case Word(masks):
            return 1, len(masks) + head
        case Check():
            return 1, 1 + head
        case Reference(alphabet):
            return 1, 1 + head + text.run(alphabet)
        case Peek(body):
            return 1, PEEK_STEPS + head + _cost(body, None, text)[1]
        case Chain(parts):
            return _chain(parts, follow, text)
        case Choice(branches, exclusive):
            bounds = [_cost(branch, follow, text) for branch in branches]
            ways = max if exclusive else sum
            return ways([bound[0] for bound in bounds]), len(bounds) + sum([bound[1] for bound in bounds])
        case Loop(endless=True):
            return math.inf, math.inf
        case Loop(body=Word((mask,))):
            return _run(part, mask, follow, text)
        case Loop():
            return _loop(part, follow, text)


def _chain(parts: tuple[Part, ...], follow: Follow | None, text: Measures) -> Bound:
    follows = _follows(parts, follow)
    ways, steps = 1.0, 0.0
    for part, after in zip(parts, follows, strict=True):
        own_ways, own_steps = _cost(part, after, text)
        steps += ways * own_steps
        if not own_ways:
            return 0, steps
        ways *= own_ways
    return (ways if follow else min(ways, 1.0)), steps


def _follows(parts: tuple[Part, ...], follow: Follow | None) -> list[Follow | None]:
    """Return for each part of a chain what comes after it."""
    follows: list[Follow | None] = [follow]
    after = follow or Follow(EVERYTHING, 0)
    for part in reversed(parts[1:]):
        if isinstance(part, Word) and part.text:
            after = Follow(part.masks[0], len(part.text), part.text)
        else:
            after = Follow(follow_of(part, after.mask), part.head if part.shortest else part.head + after.head)
        follows.append(after)
    return follows[::-1]


def _run(loop: Loop, mask: int, follow: Follow | None, text: Measures) -> Bound:
    """Bound a loop over single characters: it cannot be longer than the longest run of them in the text."""
    longest = min(loop.most, text.run(mask))
    if longest < loop.least:
        return 0, longest + 1
    exits = longest - loop.least + 1
    steps = longest + 1 + exits * (follow.head if follow else 0)
    return _alive(exits, mask, follow, text), steps


def _alive(exits: float, first: int, follow: Follow | None, text: Measures) -> float:
    """Return how many exits of a loop are worth following.

    If nothing that continues the loop can follow it, only the last is; otherwise each needs a fitting next character.
    """
    if follow is None or not first & follow.mask:
        return 1
    if len(follow.text) > 1:
        return min(exits, text.count_text(follow.text))
    return min(exits, text.count(follow.mask) + bool(follow.mask & END))


def _loop(loop: Loop, follow: Follow | None, text: Measures) -> Bound:
    longest = text.run(loop.alphabet)
    rounds = min(loop.most, longest // loop.body.shortest if loop.body.shortest else longest + loop.least)
    if follow is None and loop.least <= 1 and loop.body.shortest:
        # The loop may end after any iteration, and that is final: no iteration is tried in a second way.
        return 1, (rounds + 1) * (_cost(loop.body, None, text)[1] + 2)
    if rounds < loop.least:
        # A shorter text cannot contain the loop, but all iterations that fit are tried.
        return 0, _rounds(loop, follow, rounds, text)[1]
    return _rounds(loop, follow, rounds, text)


def _rounds(loop: Loop, follow: Follow | None, rounds: int, text: Measures) -> Bound:
    mask, head = (follow.mask, follow.head) if follow else (EVERYTHING, 0)
    inner = Follow(mask | loop.first if loop.body.shortest else EVERYTHING, loop.head + head + 1)
    ways, steps = _cost(loop.body, inner, text)
    if ways <= 1:
        exits = rounds + 1
        total = exits * (steps + 2 + head)
        return _alive(exits, loop.first, follow, text), total
    paths = _power_sum(ways, rounds)
    return (paths if follow else 1), paths * (steps + 2 + head)


def _power_sum(ways: float, rounds: int) -> float:
    """Return ``1 + ways + ways**2 + …`` up to this many iterations."""
    if rounds == 0:
        return 1
    if (rounds + 1) * math.log2(ways) > _MOST_BITS:
        return math.inf
    return (ways ** (rounds + 1) - 1) / (ways - 1)


def _is_anchored(node: Node) -> bool:
    """Return True if every match begins at a ``^``."""
    match node:
        case Assertion(kind):
            return kind == "^"
        case Group(body):
            return _is_anchored(body)
        case Sequence(items):
            return bool(items) and _is_anchored(items[0])
        case Alternatives(branches):
            return all(map(_is_anchored, branches))
        case _:
            return False


def _literal_prefix(pattern: Pattern) -> str:
    """Return the literal text that every match begins with."""
    root = pattern.root
    items = root.items if isinstance(root, Sequence) else (root,)
    if "i" in pattern.flags or pattern.has_modifiers:
        return ""
    prefix = ""
    for item in items:
        if not isinstance(item, Char) or 0xD800 <= item.code <= 0xDFFF:
            break
        prefix += chr(item.code)
    return prefix
