"""Decides whether a pattern can distinguish a character from its two UTF-16 units.

Without the ``u`` or ``v`` flag a pattern sees the units. Most patterns could see the character instead: the first unit
is matched by a loop that also matches the second, and nothing that may come next matches between the two. For those,
the text need not be split into units.
"""

from __future__ import annotations

from enum import Enum, auto

from tavernkit._text.js_regex.nodes import (
    INFINITE,
    Alternatives,
    Assertion,
    Char,
    CharClass,
    Dot,
    Group,
    Look,
    Node,
    Pattern,
    Repeat,
    Sequence,
)

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
