"""Examines a pattern before it meets a text.

That is: what every match contains (without it, the engine is not called), how far back a search looks, and whether the
pattern can distinguish a character from its two UTF-16 units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from tavernkit._text.js_regex.nodes import (
    INFINITE,
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

MOST = 16
"""The maximum number of alternatives."""

Needs = tuple[str, ...]
"""Texts of which at least one is needed; empty if nothing is known."""


def needs_of(pattern: Pattern) -> Needs:
    """Return texts of which every match contains one; in lower case if the pattern ignores case.

    Only ASCII characters are used: ignoring their case is the same in Python and JavaScript, except for ``s``, which
    with the ``u`` flag also matches ``ſ``.
    """
    fold = ignores_case(pattern)
    unsafe = frozenset("sS") if fold and pattern.unicode else frozenset[str]()
    needs = _needs(pattern.root, unsafe)
    if needs is None or len(needs) > MOST:
        return ()
    return tuple(dict.fromkeys(text.lower() for text in needs)) if fold else needs


def ignores_case(pattern: Pattern) -> bool:
    """Return True if part of a pattern may ignore case."""
    return "i" in pattern.flags or pattern.has_modifiers


def begins_with_characters(node: Node) -> bool:
    """Return True if every match begins with one of a few characters, which the engine itself finds quickly."""
    match node:
        case Char():
            return True
        case Group(body):
            return begins_with_characters(body)
        case Repeat(body, least):
            return least > 0 and begins_with_characters(body)
        case Sequence(items):
            return bool(items) and begins_with_characters(items[0])
        case Alternatives(branches):
            return all(map(begins_with_characters, branches))
        case _:
            return False


def lookback(node: Node) -> int:
    """Return how many characters before its start a pattern may look at; ``INFINITE`` if there is no limit."""
    match node:
        case Assertion(kind):
            return 0 if kind == "$" else 1
        case Look(body, behind, _):
            return min(lookback(body) + (longest(body) if behind else 0), INFINITE)
        case Group(body) | Repeat(body):
            return lookback(body)
        case Sequence(parts) | Alternatives(parts):
            return max((lookback(part) for part in parts if type(part) is not Char), default=0)
        case _:
            return 0


def longest(node: Node) -> int:
    """Return the maximum number of characters that a part can match."""
    match node:
        case Char() | Dot() | CharClass():
            return 1
        case Assertion() | Look():
            return 0
        case Group(body):
            return longest(body)
        case Repeat(body, _, most):
            return min(longest(body) * most, INFINITE)
        case Sequence(items):
            return min(sum(longest(item) for item in items), INFINITE)
        case Alternatives(branches):
            return max(longest(branch) for branch in branches)
        case BackReference() | SetClass():
            return INFINITE


def _needs(node: Node, unsafe: frozenset[str]) -> Needs | None:
    match node:
        case Char():
            return _best(_runs([node], unsafe))
        case Group(body):
            return _needs(body, unsafe)
        case Repeat(body, least) if least > 0:
            return _needs(body, unsafe)
        case Alternatives(branches) if len(branches) <= MOST:
            found = [_needs(branch, unsafe) for branch in branches]
            return None if None in found else tuple(dict.fromkeys(text for one in found if one for text in one))
        case Sequence(items):
            return _best([*_runs(items, unsafe), *[_needs(item, unsafe) for item in items if type(item) is not Char]])
        case _:
            return None


def _runs(items: Iterable[Node], unsafe: frozenset[str]) -> Iterator[Needs]:
    """Yield the runs of literal characters."""
    run: list[str] = []
    for item in items:
        character = chr(item.code) if isinstance(item, Char) else ""
        if " " <= character <= "~" and character not in unsafe:
            run.append(character)
        elif run:
            yield ("".join(run),)
            run = []
    if run:
        yield ("".join(run),)


def _best(choices: Iterable[Needs | None]) -> Needs | None:
    return max((choice for choice in choices if choice), key=_shortest, default=None)


def _shortest(needs: Needs) -> int:
    return min(map(len, needs))


_FIRST_UNIT, _LAST_UNIT = 0xD800, 0xDFFF
_HAVE_ALL_UNITS = frozenset("SDW")


class _Between(Enum):
    """What the rest of a pattern does between the two units of a character."""

    FAILS = auto()
    GOES_ON = auto()
    """It matches the second unit in a loop that would also have matched the first."""
    ENDS = auto()
    """It matches here, as anywhere."""
    OTHER = auto()


class _SeesUnitsError(Exception):
    """The pattern can see the units."""


def counts_characters(pattern: Pattern) -> bool:
    """Return True if a pattern counts characters, or gives the same matches as if it did."""
    if pattern.unicode or "y" in pattern.flags:
        return pattern.unicode
    try:
        start = _Walk().between(pattern.root, _Between.ENDS)
    except _SeesUnitsError:
        return False
    # After an empty match the next unit is tried, and a loop that could continue from there is not enough.
    return start is _Between.FAILS or (start is _Between.GOES_ON and not _may_be_empty(pattern.root))


class _Walk:
    """A walk over a pattern from its end to its start."""

    def __init__(self) -> None:
        # Cached results for loops, because nested loops are visited several times.
        self._known: dict[tuple[int, _Between], _Between] = {}

    def between(self, node: Node, after: _Between) -> _Between:
        """Return what a part and its continuation do between two units.

        Raises ``_SeesUnitsError`` if a match could begin or end there.
        """
        match node:
            case Char() | Dot() | CharClass():
                return _only_fails(node)
            case Sequence(items):
                for item in reversed(items):
                    if type(item) is Char and not _FIRST_UNIT <= item.code <= _LAST_UNIT:
                        after = _Between.FAILS
                    else:
                        after = self.between(item, after)
                return after
            case Alternatives(branches):
                together = _Between.FAILS
                for branch in branches:
                    together = _either(together, self.between(branch, after))
                return together
            case Group(body):
                return self.between(body, after)
            case Repeat():
                key = (id(node), after)
                if key not in self._known:
                    self._known[key] = self._repeat(node, after)
                return self._known[key]
            case Assertion(kind):
                return _through(after) if kind == "B" else _Between.FAILS
            case Look():
                return self._look(node, after)
            case _:
                raise _SeesUnitsError

    def _repeat(self, loop: Repeat, after: _Between) -> _Between:
        if not loop.most:
            return after
        if _takes_units(loop.body):
            # Between two units the loop ends only for a part that fails there, or after the second unit.
            left_well = after is _Between.FAILS or (after is _Between.ENDS and loop.greedy)
            if loop.least > 1 or loop.most != INFINITE or not left_well:
                raise _SeesUnitsError
            return _Between.GOES_ON
        entered = self.between(loop.body, after)
        if loop.most > 1 and type(loop.body) is not Char:
            # After an iteration comes another one, or what follows the loop; more iterations add nothing new.
            for _ in range(2):
                entered = self.between(loop.body, _either(entered, after))
        if loop.least > 1 and entered is not _Between.FAILS:
            raise _SeesUnitsError
        return entered if loop.least else _either(entered, after)

    def _look(self, look: Look, after: _Between) -> _Between:
        """Check a lookaround: as long as it consumes no units, both ways of counting are the same."""
        if not _takes_no_units(look.body):
            raise _SeesUnitsError
        if not look.negative and self.between(look.body, _Between.ENDS) is _Between.FAILS:
            return _Between.FAILS
        return _through(after)


def _either(first: _Between, second: _Between) -> _Between:
    """Combine the results of two alternatives."""
    if first is second or second is _Between.FAILS:
        return first
    return second if first is _Between.FAILS else _Between.OTHER


def _through(after: _Between) -> _Between:
    """Return what a check may do between two units if it may succeed there."""
    return _Between.FAILS if after is _Between.FAILS else _Between.OTHER


def _only_fails(node: Char | Dot | CharClass) -> _Between:
    if _takes_units(node):
        raise _SeesUnitsError
    return _Between.FAILS


def _takes_units(node: Node) -> bool:
    """Return True if a part is one character of a set with all surrogate units; raise if it has only some."""
    match node:
        case Char(code):
            if _FIRST_UNIT <= code <= _LAST_UNIT:
                raise _SeesUnitsError
            return False
        case Dot():
            return True
        case CharClass(items, negated):
            ranges = [item for item in items if not isinstance(item, str)]
            if any(first <= _LAST_UNIT and last >= _FIRST_UNIT for first, last in ranges):
                raise _SeesUnitsError
            return negated != any(item in _HAVE_ALL_UNITS for item in items if isinstance(item, str))
        case Group(Alternatives(branches), None) if all(isinstance(one, Char | Dot | CharClass) for one in branches):
            return any(_takes_units(branch) for branch in branches)
        case _:
            return False


def _takes_no_units(node: Node) -> bool:
    match node:
        case Char() | Dot() | CharClass():
            return not _takes_units(node)
        case Assertion():
            return True
        case Group(body) | Repeat(body) | Look(body):
            return _takes_no_units(body)
        case Sequence(parts) | Alternatives(parts):
            return all(map(_takes_no_units, parts))
        case _:
            return False


def _may_be_empty(node: Node) -> bool:
    match node:
        case Char() | Dot() | CharClass():
            return False
        case Group(body):
            return _may_be_empty(body)
        case Repeat(body, least):
            return not least or _may_be_empty(body)
        case Sequence(items):
            return all(map(_may_be_empty, items))
        case Alternatives(branches):
            return any(map(_may_be_empty, branches))
        case _:
            return True
