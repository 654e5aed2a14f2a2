"""What a pattern needs of a text: what it must contain for a match, and how far back a search looks.

Without a text that it must contain, the engine is not called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
