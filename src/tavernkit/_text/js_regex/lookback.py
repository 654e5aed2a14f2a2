"""Computes how far back a pattern looks, for searches that start in the middle of a text."""

from __future__ import annotations

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
    Repeat,
    Sequence,
    SetClass,
)


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
