"""What is done to the text of a reply."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit.errors import Warn
from tavernkit.text.js_regex import JSRegex, JSRegexSyntaxError
from tavernkit.text.js_values import trim, utf16_code_at, utf16_length

_CLOSING = frozenset(".!?。！？…@#$%^&*()-_+={}[]|\\:;<>,/~`¡¿‽⁉'\"")
_CLOSING_RANGES = ((0x02B0, 0x036F), (0x0590, 0x05CF), (0x3000, 0x303F))


def ends_closed(text: str) -> bool:
    """Whether a text ends as a sentence does; nothing counts as closed."""
    text = trim(text)
    if not text:
        return True
    if text[-1] in _CLOSING:
        return True
    unit = utf16_code_at(text, utf16_length(text) - 1)
    return unit is not None and any(first <= unit <= last for first, last in _CLOSING_RANGES)


def cut_incomplete(text: str) -> str:
    """Cut a text back to where it last ended as a sentence does."""
    while not ends_closed(text):
        text = text[:-1]
    return text


def has_banned_script(text: str, scripts: Iterable[str], warn: Warn) -> bool:
    """Whether a text has a character of one of the Unicode scripts a user does not want."""
    for script in scripts:
        try:
            if JSRegex.compile(rf"\p{{Script={script}}}", "u").test(text, warn=warn):
                return True
        except JSRegexSyntaxError:
            warn(f"banCharacterset: there is no script called {script!r}")
    return False
