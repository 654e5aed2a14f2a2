"""What a text must hold for a regular expression to have a chance: most need not be tried at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tavernkit.silly_tavern.world_info.limits import COMPILED_REGEX_NEEDS
from tavernkit.text.js_regex import JSRegex
from tavernkit.text.js_regex.nodes import Alternatives, Char, Group, Node, Repeat, Sequence
from tavernkit.text.js_regex.syntax import parse_pattern

SHORTEST = 3
"""Shorter texts stand in nearly every message: looking for them saves nothing."""

MOST = 16
"""Alternatives that are looked for at most."""

Needs = tuple[str, ...]


@lru_cache(COMPILED_REGEX_NEEDS)
def regex_needs(regex: JSRegex) -> Needs | None:
    """Give lower-case texts of which one stands in the lower-case form of any text that matches, if there are any.

    Only letters, digits and signs of ASCII count, for which lower case is the same in both worlds; with the ``u``
    flag ``s`` is none of them, because it also matches ``ſ``.
    """
    pattern = parse_pattern(regex.source, regex.flags)
    needs = _needs(pattern.root, frozenset("sS") if pattern.unicode else frozenset())
    return needs if needs is not None and len(needs) <= MOST and _shortest(needs) >= SHORTEST else None


def _needs(node: Node, unsafe: frozenset[str]) -> Needs | None:
    match node:
        case Char():
            return _best(_runs([node], unsafe))
        case Group(body):
            return _needs(body, unsafe)
        case Repeat(body, least) if least > 0:
            return _needs(body, unsafe)
        case Alternatives(branches):
            found = [_needs(branch, unsafe) for branch in branches]
            return None if None in found else tuple(dict.fromkeys(text for one in found if one for text in one))
        case Sequence(items):
            return _best([*_runs(items, unsafe), *(_needs(item, unsafe) for item in items)])
        case _:
            return None


def _runs(items: Iterable[Node], unsafe: frozenset[str]) -> Iterator[Needs]:
    """The runs of characters that stand for themselves."""
    run = ""
    for item in items:
        character = chr(item.code) if isinstance(item, Char) else ""
        if " " <= character <= "~" and character not in unsafe:
            run += character.lower()
        elif run:
            yield (run,)
            run = ""
    if run:
        yield (run,)


def _best(choices: Iterable[Needs | None]) -> Needs | None:
    return max((choice for choice in choices if choice), key=_shortest, default=None)


def _shortest(needs: Needs) -> int:
    return min(len(text) for text in needs)
