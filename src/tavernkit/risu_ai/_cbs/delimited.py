"""Replaces patterns of an opener, any text and a closer, in linear time even with unclosed openers.

A regular expression would search for the closer after every opener, up to the end of the text (or line). After the last
closer nothing can match, so that part is not searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LINE = re.compile("[^\n\r\u2028\u2029]+")

Replacement = str | Callable[[re.Match[str]], str]


def replace_delimited(pattern: re.Pattern[str], closer: str, new: Replacement, text: str) -> str:
    """Replace the matches of a pattern that ends with a closer."""
    end = text.rfind(closer) + len(closer)
    return pattern.sub(new, text[:end]) + text[end:] if end >= len(closer) else text


def replace_in_lines(pattern: re.Pattern[str], closer: str, new: Replacement, text: str) -> str:
    """Replace the matches of a pattern that ends with a closer on the line it began on."""
    if closer not in text:
        return text
    return _LINE.sub(lambda line: replace_delimited(pattern, closer, new, line[0]), text)
