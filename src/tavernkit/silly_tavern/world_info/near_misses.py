"""Hints about keys that were almost found."""

from __future__ import annotations

from collections.abc import Iterator

from tavernkit.silly_tavern.world_info.entry import Entry
from tavernkit.silly_tavern.world_info.haystack import Origin, Piece, View
from tavernkit.silly_tavern.world_info.keys import find_plain, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern.world_info.limits import MAX_SCAN_DEPTH
from tavernkit.silly_tavern.world_info.scan import Scan
from tavernkit.text.js_values import js_lower, trim


def near_miss(scan: Scan, entry: Entry) -> str | None:
    """Say why a plain key of an entry that stands somewhere in the texts did not count, if one does."""
    case_sensitive, _ = scan.table.modes(entry)
    view = scan.widest_view(entry)
    pieces = list(_pieces(scan))
    for key in map(trim, entry.keys):
        if not key or may_hold_macro(key) or parse_regex_key(key) is not None:
            continue
        for piece in pieces:
            if js_lower(key) in js_lower(piece.text):
                return _hint(key, piece, view, entry, case_sensitive=case_sensitive)
    return None


def _pieces(scan: Scan) -> Iterator[Piece]:
    for index, text in enumerate(scan.input.messages[:MAX_SCAN_DEPTH]):
        yield Piece(Origin.MESSAGE, index, text)
    yield from scan.haystack.sources
    yield from scan.haystack.injects
    yield from scan.haystack.recursion


def _hint(key: str, piece: Piece, view: View | None, entry: Entry, *, case_sensitive: bool) -> str:
    stands = f"{key!r} stands in {piece}"
    if view is None:
        return f"{stands}, but its scan depth is 0"
    if not view.sees(piece):
        if piece.origin is Origin.MESSAGE:
            return f"{stands}, beyond its scan depth of {view.messages}"
        return f"{stands}, which it does not look at"
    if case_sensitive and key not in piece.text:
        return f"{stands} in another case"
    if find_plain(js_lower(key), js_lower(piece.text), whole_word=True) < 0:
        return f"{stands} only as part of a word"
    if entry.exclude_recursion and piece.origin is Origin.RECURSION:
        return f"{stands}, but it takes no part in recursion"
    return f"{stands}, which it saw only when it could not be activated"
