"""Hints about keys that were almost found."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from tavernkit.silly_tavern.world_info.entry import Entry
from tavernkit.silly_tavern.world_info.haystack import Origin, Piece
from tavernkit.silly_tavern.world_info.keys import find_plain, may_hold_macro, parse_regex_key
from tavernkit.silly_tavern.world_info.limits import MAX_HINT_CHARS, MAX_SCAN_DEPTH
from tavernkit.silly_tavern.world_info.scan import Scan
from tavernkit.text.js_values import js_lower, trim

_BEGINNING = 4
"""Characters of a key that rule it out at once if they stand nowhere: most keys of a large book are."""


class NearMisses:
    """Finds keys that stand somewhere in the texts of a scan and did not count."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._pieces = [
            *(Piece(Origin.MESSAGE, index, text) for index, text in enumerate(scan.input.messages[:MAX_SCAN_DEPTH])),
            *scan.haystack.sources,
            *scan.haystack.injects,
            *scan.haystack.recursion,
        ]
        self._folded = [js_lower(piece.text) for piece in self._pieces]
        self._starts = list(accumulate((len(text) + 1 for text in self._folded), initial=0))
        self._everything = text = "\n".join(self._folded)
        self._searched = 0
        self._beginnings = {text[at : at + _BEGINNING] for at in range(len(text))}

    def hint(self, entry: Entry) -> str | None:
        """Say why a plain key of an entry that stands in some text did not count, if there is one."""
        for key in map(trim, entry.keys):
            folded = js_lower(key)
            if not key or (len(folded) >= _BEGINNING and folded[:_BEGINNING] not in self._beginnings):
                continue
            self._searched += len(self._everything)
            if self._searched > MAX_HINT_CHARS:
                return None
            at = self._everything.find(folded)
            if at < 0 or may_hold_macro(key) or parse_regex_key(key) is not None:
                continue
            # A key that goes over the end of a piece is in none of them, unless it is in a later one.
            for index in range(bisect_right(self._starts, at) - 1, len(self._pieces)):
                if folded in self._folded[index]:
                    return self._reason(key, self._pieces[index], entry)
        return None

    def _reason(self, key: str, piece: Piece, entry: Entry) -> str:
        stands = f"{key!r} stands in {piece}"
        view = self._scan.widest_view(entry)
        if view is None:
            return f"{stands}, but its scan depth is 0"
        if not view.sees(piece):
            if piece.origin is Origin.MESSAGE:
                return f"{stands}, beyond its scan depth of {view.messages}"
            return f"{stands}, which it does not look at"
        case_sensitive, _ = self._scan.table.modes(entry)
        if case_sensitive and key not in piece.text:
            return f"{stands} in another case"
        if find_plain(js_lower(key), js_lower(piece.text), whole_word=True) < 0:
            return f"{stands} only as part of a word"
        if entry.exclude_recursion and piece.origin is Origin.RECURSION:
            return f"{stands}, but it takes no part in recursion"
        return f"{stands}, which it saw only when it could not be activated"
