"""A pattern for the cost model: each part with its possible first characters and its minimum length."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from itertools import combinations, groupby, pairwise
from typing import ClassVar, TypeAlias

from tavernkit._dataclass import dataclass
from tavernkit._text.js_regex.alphabet import END, Alphabet
from tavernkit._text.js_regex.nodes import (
    Alternatives,
    Assertion,
    BackReference,
    Char,
    CharClass,
    Dot,
    Group,
    Look,
    Node,
    Pattern,
    Repeat,
    Sequence,
    SetClass,
)

EVERYTHING = -1
"""Every character and the end of the text."""

PEEK_STEPS = 5
"""The cost of starting and ending a lookahead or lookbehind."""

_PREFIX_LENGTH = 64
_MAX_PAIRED = 40
_LONGEST_STRING = 64


@dataclass(frozen=True, slots=True)
class Word:
    """A sequence of characters from sets.

    Every part has ``shortest``, the fewest characters it takes, and ``head``, the steps to see that the next
    character cannot begin it.
    """

    masks: tuple[int, ...]
    shortest: int
    text: str = ""
    """The characters themselves, if each set has only one."""
    head: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Check:
    """A test that costs one step and consumes no text; it fails if the next character is not in ``mask``."""

    mask: int
    shortest: ClassVar[int] = 0
    head: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A backreference: text of these characters."""

    alphabet: int
    shortest: ClassVar[int] = 0
    head: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts one after the other."""

    parts: tuple[Part, ...]
    shortest: int
    head: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives; ``exclusive`` if no two of them can match at the same position."""

    branches: tuple[Part, ...]
    exclusive: bool
    shortest: int
    head: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeated part; ``first`` and ``alphabet`` are the characters that an iteration begins with and consists of.

    ``empty_rounds`` is True if an iteration, or one of a nested loop, may match nothing. A loop around such a loop is
    ``endless``: the engine is known to loop forever in some of these cases.
    """

    body: Part
    least: int
    most: int
    first: int
    alphabet: int
    shortest: int
    head: int
    empty_rounds: bool
    endless: bool


@dataclass(frozen=True, slots=True)
class Peek:
    """A lookahead or lookbehind; ``mask`` is what must be next for it to continue after its first step."""

    body: Part
    mask: int
    head: int
    shortest: ClassVar[int] = 0


Part: TypeAlias = Word | Check | Reference | Chain | Choice | Loop | Peek


class PartBuilder:
    """Turns the nodes of a pattern into parts."""

    def __init__(self, pattern: Pattern) -> None:
        self.alphabet = Alphabet(pattern)
        self._exact = "i" not in pattern.flags and not pattern.has_modifiers
        self._group_alphabets: dict[int, int] = {}
        self.line_starts = self.alphabet.line_ends if "m" in pattern.flags else 0
        """The characters after which ``^`` holds."""
        if pattern.has_modifiers:
            # Modifiers may change what ^ and $ mean inside the pattern.
            self.line_starts = EVERYTHING
        self._line_end = END | self.line_starts

    def build(self, node: Node, *, backward: bool = False) -> Part:
        """Build a part; inside a look-behind the engine goes ``backward``."""
        match node:
            case Char(code):
                text = chr(code) if self._exact and not 0xD800 <= code <= 0xDFFF else ""
                return Word((self.alphabet.mask(node),), 1, text)
            case Dot() | CharClass():
                return Word((self.alphabet.mask(node),), 1)
            case SetClass(strings=strings):
                one = Word((EVERYTHING,), 1)
                return _loop(one, 0, _LONGEST_STRING) if strings else one
            case Assertion(kind):
                return Check(self._line_end if kind == "$" and not backward else EVERYTHING)
            case BackReference(groups):
                return Reference(union(self._group_alphabets.get(group, EVERYTHING) for group in groups))
            case Group(body, number):
                part = self.build(body, backward=backward)
                if number is not None:
                    self._group_alphabets[number] = alphabet_of(part)
                return _chain([Check(EVERYTHING), part])
            case Look(body, behind, negative):
                part = self.build(body, backward=behind)
                known = part.shortest and not (behind or negative or backward)
                return Peek(part, follow_of(part, EVERYTHING) if known else EVERYTHING, part.head + PEEK_STEPS)
            case Repeat(body, least, most):
                return _loop(self.build(body, backward=backward), least, most)
            case Sequence(items):
                parts = [self.build(item, backward=backward) for item in items]
                return _chain(parts[::-1] if backward else parts)
            case Alternatives(branches):
                return _choice(tuple([self.build(branch, backward=backward) for branch in branches]))


def _loop(body: Part, least: int, most: int) -> Loop:
    inside = _has_empty_rounds(body)
    return Loop(
        body,
        least,
        most,
        first=follow_of(body, EVERYTHING),
        alphabet=alphabet_of(body),
        shortest=least * body.shortest,
        head=body.head + 1,
        empty_rounds=inside or not body.shortest,
        endless=inside,
    )


def _has_empty_rounds(part: Part) -> bool:
    match part:
        case Loop(empty_rounds=empty):
            return empty
        case Chain(parts) | Choice(parts):
            return any(map(_has_empty_rounds, parts))
        case Peek(body):
            return _has_empty_rounds(body)
        case _:
            return False


def _chain(parts: list[Part]) -> Part:
    merged: list[Part] = []
    for is_word, group in groupby(parts, key=lambda part: isinstance(part, Word)):
        members = list(group)
        merged += [_word([part for part in members if isinstance(part, Word)])] if is_word else members
    if len(merged) < 2:
        return merged[0] if merged else Check(EVERYTHING)
    head = 0
    for part in merged:
        head += part.head
        if part.shortest:
            break
    return Chain(tuple(merged), sum(part.shortest for part in merged), head)


def _word(words: list[Word]) -> Word:
    masks = tuple([mask for word in words for mask in word.masks])
    text = "".join([word.text for word in words])
    return Word(masks, len(masks), text if len(text) == len(masks) else "")


def _choice(branches: tuple[Part, ...]) -> Choice:
    shortest = min(branch.shortest for branch in branches)
    return Choice(branches, _exclusive(branches), shortest, 1 + sum(branch.head for branch in branches))


def union(masks: Iterable[int]) -> int:
    """Return the union of several sets."""
    everything = 0
    for mask in masks:
        everything |= mask
    return everything


def follow_of(part: Part, after: int) -> int:
    """Return which next characters let a part continue; ``after`` is that set for what follows it."""
    match part:
        case Word(masks):
            return masks[0]
        case Check(mask):
            return mask & after
        case Peek(mask=mask):
            return mask
        case Reference():
            return EVERYTHING
        case Loop(first=first, shortest=shortest):
            return first if shortest else first | after
        case Choice(branches):
            return union([follow_of(branch, after) for branch in branches])
        case Chain(parts):
            return chain_follow(parts, after)


def chain_follow(parts: Items[Part], after: int) -> int:
    """Do the same as ``follow_of()`` for a sequence of parts."""
    for part in reversed(parts):
        after = follow_of(part, after)
    return after


def alphabet_of(part: Part) -> int:
    """Return all characters a part may match."""
    match part:
        case Word(masks):
            return union(masks)
        case Loop(alphabet=mask) | Reference(mask):
            return mask
        case Chain(parts) | Choice(parts):
            return union(map(alphabet_of, parts))
        case Check() | Peek():
            return 0


def _exclusive(branches: tuple[Part, ...]) -> bool:
    """Return True if at most one branch can match at any position: their prefixes differ."""
    seen = 0
    for branch in branches:
        first = follow_of(branch, EVERYTHING)
        if seen & first:
            break
        seen |= first
    else:
        return True
    prefixes = [_prefix(branch)[0] for branch in branches]
    masks = {mask for prefix in prefixes for mask in prefix}
    if union(masks) == sum(masks):
        # No two sets overlap, so prefixes are like words: exclusive if none is a prefix of another.
        prefixes.sort()
        return all(right[: len(left)] != left for left, right in pairwise(prefixes))
    return len(prefixes) <= _MAX_PAIRED and all(
        any(not left & right for left, right in zip(*pair, strict=False)) for pair in combinations(prefixes, 2)
    )


def _prefix(part: Part) -> tuple[tuple[int, ...], bool]:
    """Return the sets of the first characters of a part, as far as they are fixed, and whether that is all of it."""
    match part:
        case Word(masks):
            return masks[:_PREFIX_LENGTH], len(masks) <= _PREFIX_LENGTH
        case Check() | Peek():
            return (), True
        case Loop(body=body, least=least):
            return (_prefix(body)[0], False) if least else ((), False)
        case Choice() | Reference():
            return (), False
        case Chain(parts):
            prefix: tuple[int, ...] = ()
            for inner in parts:
                own, whole = _prefix(inner)
                prefix += own
                if not whole:
                    return prefix, False
            return prefix, True
