"""What is done to the text of a reply."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit._text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit._text.js_values import WHITESPACE, trim
from tavernkit.errors import Warn

_CLOSING = frozenset(".!?。！？…@#$%^&*()-_+={}[]|\\:;<>,/~`¡¿‽⁉'\"")
_CLOSING_RANGES = ((0x02B0, 0x036F), (0x0590, 0x05CF), (0x3000, 0x303F))


def ends_closed(text: str) -> bool:
    """True if a text ends as a sentence does; nothing counts as closed."""
    text = trim(text)
    return not text or _closes(text[-1])


def cut_incomplete(text: str) -> str:
    """Cut a text back to where it last ended as a sentence does; a blank that follows stays."""
    end = len(text)
    for place in range(len(text) - 1, -1, -1):
        if text[place] in WHITESPACE:
            continue
        if _closes(text[place]):
            return text[:end]
        end = place
    return text[:end]


def _closes(character: str) -> bool:
    code = ord(character)
    return character in _CLOSING or any(first <= code <= last for first, last in _CLOSING_RANGES)


def has_banned_script(text: str, scripts: Iterable[str], warn: Warn) -> bool:
    """True if a text has a character of one of the Unicode scripts a user does not want."""
    for script in scripts:
        try:
            if JSRegex.compile(rf"\p{{Script={script}}}", "u").test(text, warn=warn):
                return True
        except JSRegexSyntaxError:
            warn(f"banCharacterset: there is no script called {script!r}")
    return False
