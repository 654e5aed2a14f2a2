"""Replacement templates: ``$1``, ``$&``, ``$<name>``, ``$$``, ``$` `` and ``$'`` as JavaScript reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from tavernkit.text.js_regex.match import Found, Names
from tavernkit.values import LRUCache

Part: TypeAlias = "str | int | tuple[int, ...]"
"""Text, the number of a group, or the groups of a name (the one that took part counts)."""

Cut: TypeAlias = "Callable[[slice], str]"
"""Returns a part of the text."""

_BEFORE, _AFTER = -1, -2
_SYMBOLS: dict[str, Part] = {"$": "$", "&": 0, "`": _BEFORE, "'": _AFTER}
_TOKEN = re.compile(r"\$(?:([$&`'])|([0-9]{1,2})|<([^>]*)>)")
_CACHE_SIZE = 512
_cache: LRUCache[tuple[str, int, tuple[tuple[str, tuple[int, ...]], ...]], list[Part]] = LRUCache(_CACHE_SIZE)


def compile_template(template: str, group_count: int, names: Names) -> list[Part]:
    """Read a template for a pattern with these groups; without named groups ``$<`` is text."""
    if "$" not in template:
        return [template]
    key = (template, group_count, tuple(names.items()))
    return _cache.get_or_make(key, lambda: _parse(template, group_count, names))


def fill(parts: list[Part], found: Found, size: int, cut: Cut, pieces: list[str]) -> None:
    """Add what a template gives for a match to the pieces of a text, which ends at ``size`` and is cut by ``cut``."""
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        span = found.group(part) if isinstance(part, int) and part >= 0 else _span(part, found, size)
        if span is not None:
            pieces.append(cut(span))


def _span(part: int | tuple[int, ...], found: Found, size: int) -> slice | None:
    if isinstance(part, tuple):
        spans = [found.group(number) for number in part]
        return next((span for span in spans if span is not None), None)
    whole = found.range()
    return slice(0, whole.start) if part == _BEFORE else slice(whole.stop, size)


def _parse(template: str, group_count: int, names: Names) -> list[Part]:
    parts: list[Part] = []
    at = 0
    for token in _TOKEN.finditer(template):
        reference = _reference(token, group_count, names)
        if reference is not None:
            part, end = reference
            parts += [template[at : token.start()], part]
            at = end
    parts.append(template[at:])
    return [part for part in parts if part != ""]


def _reference(token: re.Match[str], group_count: int, names: Names) -> tuple[Part, int] | None:
    """Return what a token stands for and where it ends; two digits count as one if there are not that many groups."""
    symbol, digits, name = token.groups()
    if symbol is not None:
        return _SYMBOLS[symbol], token.end()
    if digits is None:
        return (names.get(name, ()), token.end()) if names else None
    for length in (2, 1):
        if len(digits) >= length and 1 <= int(digits[:length]) <= group_count:
            return int(digits[:length]), token.start() + 1 + length
    return None
