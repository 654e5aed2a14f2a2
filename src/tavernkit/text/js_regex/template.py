"""Replacement templates: ``$1``, ``$&``, ``$<name>``, ``$$``, ``$` `` and ``$'`` as JavaScript reads them."""

from __future__ import annotations

import re
from collections.abc import Callable

from tavernkit.text.js_regex.match import JSMatch
from tavernkit.values import LRUCache

Expand = Callable[[JSMatch], str]

_CACHE_SIZE = 256
_TOKEN = re.compile(r"\$(?:([$&`'])|([0-9]{1,2})|<([^>]*)>)")
_cache: LRUCache[tuple[str, int, bool], list[str | Expand]] = LRUCache(_CACHE_SIZE)


def expand(template: str, match: JSMatch, *, named: bool) -> str:
    """Fill a template from a match; ``named`` tells whether the pattern has named groups (else ``$<`` is text)."""
    key = (template, match.group_count, named)
    parts = _cache.get_or_make(key, lambda: _parse(*key))
    return "".join([part if isinstance(part, str) else part(match) for part in parts])


def _whole(match: JSMatch) -> str:
    return match.text


def _before(match: JSMatch) -> str:
    return match.subject.cut(0, match.engine_span[0])


def _after(match: JSMatch) -> str:
    return match.subject.cut(match.engine_span[1], match.subject.size)


_SYMBOLS: dict[str, str | Expand] = {"$": "$", "&": _whole, "`": _before, "'": _after}


def _group(number: int) -> Expand:
    return lambda match: match.group(number) or ""


def _name(name: str) -> Expand:
    return lambda match: match.named_group(name) or ""


def _parse(template: str, group_count: int, named: bool) -> list[str | Expand]:
    parts: list[str | Expand] = []
    at = 0
    for token in _TOKEN.finditer(template):
        if token.start() < at:
            continue
        found = _reference(token, group_count, named=named)
        if found is None:
            continue
        value, end = found
        parts += [template[at : token.start()], value]
        at = end
    parts.append(template[at:])
    return parts


def _reference(token: re.Match[str], group_count: int, *, named: bool) -> tuple[str | Expand, int] | None:
    """Return what a token stands for and where it ends; two digits count as one if there are not that many groups."""
    symbol, digits, name = token.groups()
    if symbol is not None:
        return _SYMBOLS[symbol], token.end()
    if digits is not None:
        for length in (2, 1):
            if len(digits) >= length and 1 <= int(digits[:length]) <= group_count:
                return _group(int(digits[:length])), token.start() + 1 + length
        return None
    return (_name(name), token.end()) if named else None
