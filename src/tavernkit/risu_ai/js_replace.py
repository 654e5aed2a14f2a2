"""``String#replace`` with a text to look for: ``$$``, ``$&``, ``$` `` and ``$'`` in the new text act, as in RisuAI."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"\$([$&`'])")


def replace_first(text: str, wanted: str, new: str) -> str:
    """Replace the first occurrence."""
    at = text.find(wanted)
    if at < 0:
        return text
    return text[:at] + _filled(new, text, at, wanted) + text[at + len(wanted) :]


def replace_all(text: str, wanted: str, new: str) -> str:
    """Replace every occurrence; the patterns see the text as it was."""
    if "$" not in new:
        return text.replace(wanted, new)
    parts: list[str] = []
    start = 0
    while (at := text.find(wanted, start)) >= 0:
        parts += [text[start:at], _filled(new, text, at, wanted)]
        start = at + len(wanted)
    return "".join([*parts, text[start:]])


def _filled(new: str, text: str, at: int, wanted: str) -> str:
    if "$" not in new:
        return new
    symbols = {"$": "$", "&": wanted, "`": text[:at], "'": text[at + len(wanted) :]}
    return _PATTERN.sub(lambda match: symbols[match[1]], new)
